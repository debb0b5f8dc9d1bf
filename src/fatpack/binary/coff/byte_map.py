"""Which byte of a COFF object is what."""

from __future__ import annotations

from fatpack.binary.coff.coff_layout import BIG_HEADER, FORMAT, HEADER, RELOCATION, SECTION
from fatpack.binary.coff.layout import UNINITIALIZED, CoffSection
from fatpack.binary.coff.reader import CoffObject, coff_kind
from fatpack.byte_map import fill_gaps
from fatpack.errors import FormatError
from fatpack.model import Label

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.io.source import View


def label_coff(view: View) -> Iterator[Label]:
    """Yield a label for every byte: headers field by field, contents, relocations, symbols and strings whole."""
    what = coff_kind(view)
    if what not in ("classic", "big"):
        size = min(HEADER.size, len(view)) if what else 0
        whole = Label(view.span(0, size), "header", f"{what} object", "not a COFF object with sections", "data")
        yield from fill_gaps(view, [whole])
        return
    coff = CoffObject(view)
    layout = BIG_HEADER if coff.is_big else HEADER
    yield from layout.labels(view, 0, FORMAT)
    present = min(coff.section_count, (len(view) - coff.table_offset) // SECTION.size)
    for index in range(present):
        yield from SECTION.labels(view, coff.table_offset + index * SECTION.size, f"section[{index + 1}]")
    yield from fill_gaps(view, _parts(coff), coff.table_offset + present * SECTION.size)


def _parts(coff: CoffObject) -> Iterator[Label]:
    strings = coff.strings()
    try:
        for section in coff.sections():
            yield from _section_parts(coff, section, strings)
    except FormatError:
        pass  # a table that is cut: what its whole headers describe is labelled
    if coff.symbol_offset and coff.symbol_count:
        size = coff.symbol_end - coff.symbol_offset
        span = coff.view.span(coff.symbol_offset, size)
        yield Label(span, "symbols", f"{coff.symbol_count} records", "the symbol table", "data")
    if strings is not None:
        span, doc = coff.view.span(coff.symbol_end, len(strings)), "long names, behind their total size"
        yield Label(span, "strings", f"{len(strings)} bytes", doc, "data")


def _section_parts(coff: CoffObject, section: CoffSection, strings: View | None) -> Iterator[Label]:
    prefix = f"section[{section.number}]"
    try:
        name = coff.name(section.stored_name, strings).decode("utf-8", "backslashreplace")
    except FormatError:
        name = "unreadable name"
    if section.raw_size and not section.flags & UNINITIALIZED:
        span, text = coff.view.span(section.raw_offset, section.raw_size), f"{name}, {section.raw_size} bytes"
        yield Label(span, f"{prefix}.data", text, "contents of the section", "data")
    try:
        count = coff.relocation_count(section)
    except FormatError:
        count = 0
    if count:
        span = coff.view.span(section.relocation_offset, count * RELOCATION.size)
        yield Label(span, f"{prefix}.relocations", f"{name}, {count} relocations", "places to patch", "data")
