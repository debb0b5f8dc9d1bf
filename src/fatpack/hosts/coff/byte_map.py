"""Which byte of a COFF object is what."""

from __future__ import annotations

from fatpack.errors import FormatError
from fatpack.hosts.coff.layout import BIG_HEADER, FORMAT, HEADER, RELOCATION, SECTION
from fatpack.hosts.coff.read import CoffObject, Section, kind
from fatpack.hosts.coff_records import UNINITIALIZED
from fatpack.hosts.cover import cover

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.io.source import View
    from fatpack.model import Label

    Part = tuple[int, int, str, str, str]
    """(position, size, name, value, doc)"""


def labels(view: View) -> Iterator[Label]:
    """Yield a label for every byte: headers field by field, contents, relocations, symbols and strings whole."""
    what = kind(view)
    if what not in ("classic", "big"):
        size = min(HEADER.size, len(view)) if what else 0
        parts: list[Part] = [(0, size, "header", f"{what} object", "not a COFF object with sections")] if size else []
        yield from cover(view, 0, parts)
        return
    coff = CoffObject(view)
    layout = BIG_HEADER if coff.is_big else HEADER
    yield from layout.labels(view, 0, FORMAT)
    present = min(coff.section_count, (len(view) - coff.table_offset) // SECTION.size)
    for index in range(present):
        yield from SECTION.labels(view, coff.table_offset + index * SECTION.size, f"section[{index + 1}]")
    yield from cover(view, coff.table_offset + present * SECTION.size, _parts(coff))


def _parts(coff: CoffObject) -> Iterator[Part]:
    strings = coff.strings()
    try:
        for section in coff.sections():
            yield from _section_parts(coff, section, strings)
    except FormatError:
        pass  # a table that is cut: what its whole headers describe is labelled
    if coff.symbol_offset and coff.symbol_count:
        size = coff.symbol_end - coff.symbol_offset
        yield coff.symbol_offset, size, "symbols", f"{coff.symbol_count} records", "the symbol table"
    if strings is not None:
        yield coff.symbol_end, len(strings), "strings", f"{len(strings)} bytes", "long names, behind their total size"


def _section_parts(coff: CoffObject, section: Section, strings: View | None) -> Iterator[Part]:
    prefix = f"section[{section.number}]"
    try:
        name = coff.name(section.stored_name, strings).decode("utf-8", "backslashreplace")
    except FormatError:
        name = "unreadable name"
    if section.raw_size and not section.flags & UNINITIALIZED:
        text = f"{name}, {section.raw_size} bytes"
        yield section.raw_offset, section.raw_size, f"{prefix}.data", text, "contents of the section"
    try:
        count = coff.relocation_count(section.row)
    except FormatError:
        count = 0
    if count:
        text = f"{name}, {count} relocations"
        yield section.relocation_offset, count * RELOCATION.size, f"{prefix}.relocations", text, "places to patch"
