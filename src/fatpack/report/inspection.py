"""What ``inspect`` says: one record of plain data per file, from which text and JSON are made.

The record's shape is ``fatpack.inspect/1``; ``inspect.schema.json`` beside this file describes it. Names may be added
within a version, never renamed or removed.
"""

from __future__ import annotations

from fatpack import formats, images
from fatpack.errors import FatpackError, FormatError
from fatpack.findings import finding
from fatpack.io.source import is_in_file
from fatpack.model import Finding, Span
from fatpack.scan import Found, host_of, scan

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from fatpack.io.source import View
    from fatpack.scan import FoundImage

SCHEMA = "fatpack.inspect/1"


def inspection(view: View, *, kernels: bool = True) -> dict[str, Any]:
    """Return the record of one file; ``kernels`` reads the symbol tables of all images as well."""
    host = host_of(view)
    items = list(scan(view))
    findings: list[dict[str, Any]] = []
    record: dict[str, Any] = {
        "path": view.chain[0] if view.chain else "",
        "size": len(view),
        "host": host,
        "format": formats.sniff(view.head(0, 24)),
        "image": None,
        "containers": _containers(items, findings, kernels, view),
        "findings": findings,
    }
    if not record["containers"]:
        recognised = images.recognise(view)
        if recognised.form not in ("", "object", "empty") and not recognised.container:
            record["image"] = {
                "form": recognised.form,
                "triple": recognised.triple,
                "arch": recognised.arch,
                "detail": recognised.detail,
                # A damaged file has its finding already.
                "kernels": _kernels(view, recognised.form, findings) if kernels and not findings else [],
            }
    return record


def _containers(
    items: Sequence[Found | Finding], findings: list[dict[str, Any]], kernels: bool, file: View
) -> list[dict[str, Any]]:
    result = []
    for item in items:
        if isinstance(item, Finding):
            findings.append(_finding(item))
            continue
        container = item.container
        result.append(
            {
                "format": container.format,
                "version": container.version,
                "host": item.host,
                "section": item.section,
                "section_index": item.index,
                "member": item.member,
                "offset": _offset(container.span, item.view, file),
                "size": container.span.size,
                "attrs": dict(container.attrs),
                "stored": dict(formats.room(container.format).describe(container)),
                "images": [_image(index, image, findings, kernels, file) for index, image in enumerate(item.images)],
            }
        )
    return result


def _image(index: int, found: FoundImage, findings: list[dict[str, Any]], kernels: bool, file: View) -> dict[str, Any]:
    image, target = found.image, found.image.target
    inside = _containers(found.inside, findings, kernels, file)
    view: View = image.data  # type: ignore[assignment]
    return {
        "index": index,
        "offload": target.offload,
        "triple": target.triple,
        "arch": target.arch,
        "form": found.form,
        "stored_form": image.form,
        "offset": _offset(image.span, view, file),
        "stored_size": image.stored_size,
        "size": image.size,
        "compression": image.compression,
        "attrs": dict(image.attrs),
        "claims": {"triple": found.recognised.triple, "arch": found.recognised.arch},
        "detail": found.recognised.detail,
        "kernels": _kernels(view, found.recognised.form, findings) if kernels else [],
        "containers": inside,
    }


def _kernels(view: View, form: str, findings: list[dict[str, Any]]) -> list[str]:
    try:
        return list(images.kernels(view, form))
    except FormatError as error:
        place = view.span() if error.offset is None else Span(error.offset, view.end, error.chain)
        findings.append(_finding(finding("FP1104", place, error.describe(), error.hint)))
        return []


def _offset(span: Span, view: View, file: View) -> int | None:
    """Return an absolute offset in the file, None inside something compressed."""
    return span.start if view.source is file.source else None


def _finding(item: Finding) -> dict[str, Any]:
    return {
        "code": item.code,
        "severity": item.severity,
        "offset": item.span.start if is_in_file(item.span.source) else None,
        "message": item.message,
        "hint": item.hint,
        "where": list(item.span.source),
    }


def failure(path: str, error: FatpackError | OSError) -> dict[str, Any]:
    """Return the record of a file that could not be read at all."""
    from fatpack.report.problems import exit_code, message

    return {
        "path": path,
        "size": None,
        "host": None,
        "format": None,
        "image": None,
        "containers": [],
        "findings": [],
        "error": {"message": message(error), "exit_code": exit_code(error)},
    }
