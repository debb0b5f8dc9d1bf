"""A policy's outcome for GitHub Actions: workflow commands on stdout, and a table for the summary of the step.

Format: docs.github.com, "Workflow commands for GitHub Actions" (``::error title=…::message``; ``%``, line breaks and,
in properties, ``:`` and ``,`` are escaped), and the Markdown that is appended to the file of ``GITHUB_STEP_SUMMARY``.
"""

from __future__ import annotations

from urllib.parse import quote

from fatpack import __version__
from fatpack.commands.check.headline import check_headline, vendor_words
from fatpack.commands.check.text import kernel_words, violation_lines
from fatpack.findings import CODES
from fatpack.printable import escape_html, format_size, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from fatpack.commands.check.model import CheckResult, MissingKernels, Violation


_GITHUB_LEVELS = {"error": "error", "warning": "warning", "note": "notice"}

#: LIMIT: annotations; GitHub shows ten of each level for a step, and fifty for a job
_MOST = 50

#: LIMIT: rows of the table; a summary of more than a mebibyte is refused
_ROWS = 500


def workflow_commands(checked: CheckResult) -> Iterator[str]:
    """Yield the workflow commands, and after them the first line of the text."""
    for item in checked.violations[:_MOST]:
        title = _property(f"fatpack {item.code}")
        where = f"{item.path}: " if item.path else ""
        hint = f"; {item.hint}" if item.hint else ""
        reason = f" ({item.holes[0].reason})" if item.holes else ""
        yield f"::{_GITHUB_LEVELS[item.severity]} title={title}::{_data(f'{where}{item.message}{reason}{hint}')}"
    if len(checked.violations) > _MOST:
        yield f"::notice title=fatpack::{len(checked.violations) - _MOST} more are in the summary of the step"
    if not checked.unlooked.is_asked:
        yield f"::notice title=fatpack::{_data(checked.unlooked.sentence())}"
    # A line with ##[ anywhere in it is a command, too (ActionCommand.cs of actions/runner), unless it begins with ::
    yield check_headline(checked).replace("##[", "# #[")


def github_summary(checked: CheckResult) -> Iterator[str]:
    """Yield the lines of the summary, in GitHub's Markdown."""
    yield f"### fatpack check: {_cell(check_headline(checked))}"
    yield ""
    if checked.unlooked:
        yield _cell(checked.unlooked.sentence())
        yield ""
    if checked.violations:
        yield "| | file | what | units | kernels |"
        yield "|---|---|---|---|---|"
        yield from (_row(item) for item in checked.violations[:_ROWS])
        if len(checked.violations) > _ROWS:
            yield f"| | | {len(checked.violations) - _ROWS} more | | |"
        yield ""
    if checked.libraries:
        broken = {item.path for item in checked.violations if item.is_broken}
        yield "| library | | size | units | architectures |"
        yield "|---|---|---:|---:|---|"
        for library in checked.libraries[:_ROWS]:
            outcome = "failed" if library.path in broken else "ok" if library.is_asked else "not checked"
            cells = (library.path, outcome, format_size(library.size), str(library.units), ", ".join(library.archs))
            yield f"| {' | '.join(map(_cell, cells))} |"
        yield ""


def _row(item: Violation) -> str:
    names = dict.fromkeys(name for hole in item.holes for name in hole.kernels or ())
    units = f"{len(item.holes)} of {item.units}" if item.holes else ""
    kernels = kernel_words(tuple(names)) if names else ""
    cells = (item.code, item.path, item.message, units, kernels)
    return f"| {' | '.join(map(_cell, cells))} |"


def _cell(text: str) -> str:
    """Return text as a cell of a table: nothing in it is markup."""
    escaped = printable(text).replace("&", "&amp;")
    for char in "\\`*_[]<>|~":
        escaped = escaped.replace(char, f"\\{char}")
    return escaped


def _data(text: str) -> str:
    return printable(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


# A policy's outcome as JUnit XML, as CI systems read it: a test for each library, and for each path that was named.
#
# Structure: the schema of the Jenkins xUnit plug-in (``junit-10.xsd``): ``testsuites``, ``testsuite``, ``testcase``
# with
# ``failure`` for what breaks the policy and ``error`` for what could not be read.


def junit_lines(checked: CheckResult) -> Iterator[str]:
    """Yield the lines of the document."""
    by_path: dict[str, list[Violation]] = {
        path: [] for path in (*(each.path for each in checked.paths), *(each.path for each in checked.libraries))
    }
    for item in checked.violations:
        if item.is_broken:
            by_path.setdefault(item.path or "all paths", []).append(item)
    failures = sum(bool(items) and not _has_error(items) for items in by_path.values())
    errors = sum(map(_has_error, by_path.values()))
    passed_over = {item.path: vendor_words(item) for item in checked.libraries if not item.is_asked}
    skipped = sum(path in passed_over and not items for path, items in by_path.items())
    counts = f'tests="{len(by_path)}" failures="{failures}" errors="{errors}"'
    yield '<?xml version="1.0" encoding="UTF-8"?>'
    yield f'<testsuites name="fatpack check" {counts} time="0">'
    yield f'  <testsuite name="fatpack check" {counts} skipped="{skipped}" time="0">'
    for path, items in by_path.items():
        opening = f'    <testcase classname="fatpack.check" name="{_text(path)}" time="0"'
        if not items and path in passed_over:
            yield f'{opening}><skipped message="not checked: it is for {_text(passed_over[path])}"/></testcase>'
            continue
        if not items:
            yield f"{opening}/>"
            continue
        yield f"{opening}>"
        # One element for a test: the schema allows more, and most readers show the first.
        of_kind = [item for item in items if item.is_unread] or items
        head = "; ".join(item.message for item in of_kind)
        name = "error" if _has_error(items) else "failure"
        yield f'      <{name} type="{of_kind[0].code}" message="{_text(head)}">'
        for item in items:
            yield from (_text(line) for line in violation_lines(item))
        yield f"      </{name}>"
        yield "    </testcase>"
    if checked.unlooked:
        yield f"    <system-out>{_text(checked.unlooked.sentence())}</system-out>"
    yield "  </testsuite>"
    yield "</testsuites>"


def _has_error(items: list[Violation]) -> bool:
    return any(item.is_unread for item in items)


def _text(text: str) -> str:
    """Return text for XML: no control characters, and none that XML means something by."""
    return escape_html(text).encode("utf-8", "backslashreplace").decode()


# A policy's outcome as SARIF 2.1.0, for code scanning: a rule for each code, a result for each violation.
#
# Source: OASIS, "Static Analysis Results Interchange Format (SARIF) Version 2.1.0", sections 3.13 (sarifLog), 3.14
# (run), 3.20.21 (toolExecutionNotifications), 3.27 (result), 3.29 (physicalLocation); the offset of a unit is a region
# of bytes (3.30.11).

_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"

#: LIMIT: places of one result; services take some thousands
_PLACES = 100


def sarif_document(checked: CheckResult) -> dict[str, Any]:
    """Return the document as plain data."""
    levels = {item.code: item.severity for item in reversed(checked.violations)}
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
                                "defaultConfiguration": {"level": levels[code]},
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
        "level": item.severity,
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
