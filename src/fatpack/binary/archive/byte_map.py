"""Which byte of an archive is what."""

from __future__ import annotations

from fatpack.binary.archive.archive_layout import BIG, HEADER, MAGIC_SIZE, THIN
from fatpack.binary.archive.reader import ArchiveMember, read_members
from fatpack.errors import FormatError
from fatpack.model import Label

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.io.source import View

_CONTENTS = {
    "file": "the file's bytes",
    "symbols": "symbol table",
    "names": "long names",
    "reserved": "a table of Microsoft's",
}


def label_archive(view: View) -> Iterator[Label]:
    """Yield a label for every byte: headers field by field, contents whole, the rest of a damaged archive as one."""
    magic = view.head(0, MAGIC_SIZE)
    yield Label(view.span(0, len(magic)), "magic", repr(magic)[2:-1])
    at = MAGIC_SIZE
    try:
        if magic != BIG:
            for number, entry in enumerate(read_members(view)):
                yield from _entry(view, number, entry, magic == THIN)
                at = entry.end
    except FormatError as error:
        yield Label(view.span(at), "unknown", f"{len(view) - at} bytes", error.describe(), "unknown")
        return
    if at < len(view):
        yield Label(view.span(at), "unknown", f"{len(view) - at} bytes", "AIX big archive", "unknown")


def _entry(view: View, number: int, entry: ArchiveMember, is_thin: bool) -> Iterator[Label]:
    prefix = f"member[{number}]"
    yield from HEADER.labels(view, entry.header_at, f"{prefix}.header")
    name_at = entry.header_at + HEADER.size
    if entry.data_at > name_at:
        span = view.span(name_at, entry.data_at - name_at)
        yield Label(span, f"{prefix}.name", entry.title, "the member's name, padded with NULs")
    data_end = name_at if is_thin and entry.kind == "file" else entry.data_at + entry.size
    if data_end > entry.data_at:
        text = f"{entry.title}, {entry.size} bytes"
        yield Label(view.span(entry.data_at, entry.size), f"{prefix}.data", text, _CONTENTS[entry.kind], "data")
    if entry.end > data_end:
        span = view.span(data_end, entry.end - data_end)
        yield Label(span, "padding", "newline", "makes the next header start at an even offset", "padding")
