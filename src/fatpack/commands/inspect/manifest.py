"""What ``inspect`` says of a manifest of kpack archives (``.kpm``): the record is ``manifest`` of a file."""

from __future__ import annotations

from fatpack.errors import FormatError
from fatpack.findings import code_for_error, finding
from fatpack.formats.kpack import manifest as room
from fatpack.printable import format_size
from fatpack.text.text import align_columns
from fatpack.words_printable import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from fatpack.io.source import View
    from fatpack.model import Finding


def manifest_record(view: View) -> tuple[dict[str, Any] | None, list[Finding]]:
    """Return the record of a manifest, None if the bytes are none or cannot be read, and what is wrong with it."""
    if not room.detect_manifest(view):
        return None, []
    try:
        read = room.parse_manifest(view)
    except FormatError as error:
        span = view.span(0, 0)
        if error.offset is not None:
            span = span.replace(start=error.offset, end=error.offset)
        return None, [finding(code_for_error("FP1607", error), span, error.describe(), error.hint, field=error.field)]
    record = {
        "component": read.component,
        "prefix": read.prefix,
        "format_version": read.version,
        "files": [
            {
                "arch": item.arch,
                "file": item.file,
                "size": item.size,
                "kernel_count": item.kernel_count,
                "offset": item.span.start,
            }
            for item in read.files
        ],
    }
    return record, list(read.findings)


def manifest_lines(record: Mapping[str, Any], indent: str) -> Iterator[str]:
    """Yield the lines about a manifest: which archive it names for each architecture."""
    rows = []
    for item in record["files"]:
        size = "" if item["size"] is None else format_size(item["size"])
        count = "" if item["kernel_count"] is None else f"{item['kernel_count']} code objects"
        rows.append([printable(cell) for cell in (item["arch"], item["file"], size, count)])
    yield from align_columns(rows, right=(2,), indent=indent)
