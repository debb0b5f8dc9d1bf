"""The byte map of an ELF file: a label for every byte, once.

The ELF header, the program headers and the section table are labelled field by field, sections as a whole; readers of
formats label the content of sections. If parts overlap, tables have precedence, then the part that starts first; the
rest of the other part is labelled without its fields.
"""

from __future__ import annotations

from fatpack.binary.elf import layout
from fatpack.binary.elf.file import ElfFile
from fatpack.errors import FormatError
from fatpack.model import Label, fill_gaps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.io.source import View
    from fatpack.layout import Layout


def label_elf(view: View) -> Iterator[Label]:
    """Yield labels that cover every byte of an ELF file once, in file order. Raises FormatError for a damaged header.

    Contents are not read, except gaps between parts, in bounded pieces, to tell padding from unknown bytes.
    """
    elf = ElfFile(view)
    contents = _contents(elf)
    at = 0
    for start, end, name, table in [*_tables(elf), (len(view), len(view), "", None)]:
        between = view.slice(at, start - at)
        yield from fill_gaps(between, [part for part in contents if part.span.end > between.start])
        if table is not None:
            yield from _table_labels(elf, start, end, name, table)
        at = end


def _tables(elf: ElfFile) -> list[tuple[int, int, str, Layout | None]]:
    """Return (start, end, name of one record, layout) of the tables that are in the file and overlap no earlier one."""
    layouts = elf.layouts
    candidates: list[tuple[int, int, str, Layout | None]] = [(0, layouts.header.size, "header", layouts.header)]
    if elf.header.program_entry_size == layouts.program.size:
        candidates.append((*elf.program_table(), "program", layouts.program))
    if elf.section_count:
        candidates.append((elf.header.section_offset, elf.table_end, "section", layouts.section))
    kept: list[tuple[int, int, str, Layout | None]] = []
    for candidate in candidates:
        start, end = candidate[:2]
        if start < end <= len(elf.view) and all(end <= other[0] or other[1] <= start for other in kept):
            kept.append(candidate)
    return sorted(kept, key=lambda table: table[0])


def _table_labels(elf: ElfFile, start: int, end: int, name: str, layout: Layout) -> Iterator[Label]:
    if layout is elf.layouts.header:
        yield from layout.labels(elf.view, start, name)
        return
    for number in range((end - start) // layout.size):
        yield from layout.labels(elf.view, start + number * layout.size, f"{name}[{number}]")


def _contents(elf: ElfFile) -> list[Label]:
    """Return the labels of the sections with bytes in the file, at their stated offsets."""
    strings, found = _strings(elf), []
    for section in elf.sections():
        if section.stored_size and section.offset < len(elf.view):
            name = elf.string(strings, section.name_offset) if strings is not None else ""
            span = elf.view.span(section.offset, min(section.size, len(elf.view) - section.offset))
            value = (
                f"{layout.section_type_word(section.type)}, {span.size} bytes, flags "
                f"{layout.section_flag_letters(section.flags)}"
            )
            title = f"contents[{section.index}] {name}".rstrip()
            found.append(Label(span, title, value, "the contents of the section", "data"))
    return found


def _strings(elf: ElfFile) -> View | None:
    try:
        return elf.contents(elf.names_section())
    except FormatError:
        return None
