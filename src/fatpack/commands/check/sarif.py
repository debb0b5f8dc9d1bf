"""A policy's outcome as SARIF 2.1.0, for code scanning: a rule for each code, a result for each violation.

Source: OASIS, "Static Analysis Results Interchange Format (SARIF) Version 2.1.0", sections 3.13 (sarifLog), 3.14 (run),
3.20.21 (toolExecutionNotifications), 3.27 (result), 3.29 (physicalLocation); the offset of a unit is a region of bytes
(3.30.11).
"""

from __future__ import annotations

from urllib.parse import quote

from fatpack import __version__
from fatpack.commands.check.text import kernel_words
from fatpack.findings import CODES
from fatpack.words_printable import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from fatpack.commands.check.model import CheckResult, MissingKernels, Violation

_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"

_SARIF_LEVELS = {"error": "error", "warning": "error", "note": "note"}

#: LIMIT: places of one result; services take some thousands
_PLACES = 100


def sarif_document(checked: CheckResult) -> dict[str, Any]:
    """Return the document as plain data."""
    codes = list(dict.fromkeys(item.code for item in checked.violations))
    failed = [item for item in checked.violations if item.is_unread]
    invocation: dict[str, Any] = {"executionSuccessful": not failed, "exitCode": checked.exit_code}
    if checked.unlooked:
        said = {"level": "note", "message": {"text": checked.unlooked.sentence()}}
        invocation["toolExecutionNotifications"] = [said]
    return {
        "$schema": _SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "fatpack",
                        "version": __version__,
                        "rules": [
                            {
                                "id": code,
                                "shortDescription": {"text": CODES[code][1]},
                                "defaultConfiguration": {"level": _SARIF_LEVELS[CODES[code][0]]},
                            }
                            for code in codes
                        ],
                    }
                },
                "invocations": [invocation],
                "results": [_result(item, codes) for item in checked.violations],
            }
        ],
    }


def _result(item: Violation, codes: list[str]) -> dict[str, Any]:
    text = f"{item.message}; {item.hint}" if item.hint else item.message
    names = dict.fromkeys(name for hole in item.holes for name in hole.kernels or ())
    if names:
        text += f" ({kernel_words(tuple(names))})"
    result: dict[str, Any] = {
        "ruleId": item.code,
        "ruleIndex": codes.index(item.code),
        "level": _SARIF_LEVELS[item.severity],
        "message": {"text": printable(text)},
        "partialFingerprints": {"fatpack/v1": printable(f"{item.code}:{item.path}:{item.subject}")},
    }
    if item.path:
        result["locations"] = [_location(item.path, hole) for hole in item.holes[:_PLACES]] or [_location(item.path)]
    return result


def _location(path: str, hole: MissingKernels | None = None) -> dict[str, Any]:
    physical: dict[str, Any] = {
        "artifactLocation": {"uri": quote(path.replace("\\", "/").encode("utf-8", "surrogateescape"), safe="/!")}
    }
    if hole is not None and hole.offset is not None:
        physical["region"] = {"byteOffset": hole.offset, "byteLength": 0}
    return {"physicalLocation": physical}
