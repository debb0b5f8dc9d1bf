"""Listings of programs whose device code is in kpack archives, and of the manifests of such archives.

The record is ``kpack`` of a file in ``fatpack.inspect/1``.
"""

from __future__ import annotations

import os

from fatpack.commands.check_kpack.text import lookup_records, marker_names
from fatpack.errors import FormatError, pluralize
from fatpack.findings import code_for_error, finding
from fatpack.formats.kpack import manifest as room
from fatpack.model import Finding
from fatpack.printable import format_size, printable
from fatpack.registration import records
from fatpack.text.style import align_columns

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.commands.inspect.listing import ManifestRecord, MarkerRecord
    from fatpack.io.source import View


#: LIMIT: markers of which the record says where they are; ``count`` is the number of all.
_MOST = 1000

#: names of missing code objects in the text
_NAMED = 3


def marker_record(view: View, host: str) -> MarkerRecord | None:
    """Return the record of a program with markers that can be read, None if there is none.

    What is beside it is looked at where it was opened by its path. Damage is not told here: a scan has told it.
    """
    markers = [item for item in records.kpack_markers(view, host) if not isinstance(item, Finding)]
    if not markers:
        return None
    names = marker_names(markers)
    record: MarkerRecord = {
        **names,
        "count": len(markers),
        "markers": [{"key": marker.key, "offset": marker.span.start} for marker in markers[:_MOST]],
        "beside": None,
    }
    path = view.source.path
    if path is None or len(view) != view.source.size:
        return record
    from fatpack.commands.check_kpack.lookup import find_siblings

    found = find_siblings(path, markers)
    home = os.path.dirname(os.path.realpath(path))

    def shown(real: str) -> str:
        return os.path.relpath(real, home)

    record["beside"] = {
        "archives": [
            {"path": shown(item.path), "size": item.size, "archs": list(item.archs), "objects": len(item.objects)}
            for item in found.archives
        ],
        "devices": lookup_records(found.outcomes, shown),
        "problems": [{"path": given, "problem": problem} for given, problem in found.problems],
    }
    return record


def marker_lines(record: MarkerRecord, indent: str) -> Iterator[str]:
    """Yield the lines about such a program."""
    names = ", ".join(record["names"])
    yield printable(f"{indent}device code in kpack archives: {pluralize(record['count'], 'code object')} of {names}")
    yield from (printable(f"{indent}  looks for {path}") for path in record["search_paths"])
    beside = record["beside"]
    if beside is None:
        yield f"{indent}  what is beside it was not looked at: this is no file on a disk"
        return
    rows = []
    for row in beside["devices"]:
        missing = row["missing_count"]
        more = f" and {missing - _NAMED} more" if missing > _NAMED else ""
        sources = f"from {', '.join(row['archives'])}" if row["archives"] else ""
        notes = [sources] if sources else []
        notes += [f"missing: {', '.join(row['missing'][:_NAMED])}{more}"] if missing else []
        notes += [f"{row['only_newer']} only by loaders since rocm-systems#9874"] if row["only_newer"] else []
        cells = [row["device"], f"{row['resolved']} of {record['count']}", "; ".join(notes)]
        rows.append([printable(cell) for cell in cells])
    yield from align_columns(rows, indent=f"{indent}  ")
    yield from (printable(f"{indent}  {item['path']}: {item['problem']}") for item in beside["problems"])


# The record of a manifest of kpack archives (``.kpm``) in ``inspect``: ``manifest`` of a file.


def manifest_record(view: View) -> tuple[ManifestRecord | None, list[Finding]]:
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
    record: ManifestRecord = {
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


def manifest_lines(record: ManifestRecord, indent: str) -> Iterator[str]:
    """Yield the lines about a manifest: which archive it names for each architecture."""
    rows = []
    for item in record["files"]:
        size = "" if item["size"] is None else format_size(item["size"])
        count = "" if item["kernel_count"] is None else f"{item['kernel_count']} code objects"
        rows.append([printable(cell) for cell in (item["arch"], item["file"], size, count)])
    yield from align_columns(rows, right=(2,), indent=indent)
