"""Segments of ELF programs, for files whose section table is missing or damaged.

A program runs without sections, and some tools remove the table (``llvm-objcopy --strip-sections``, packers). Program
headers remain, and the dynamic table leads to relocations. (gABI, "Program Loading".)
"""

from __future__ import annotations

from fatpack.binary.elf import layout
from fatpack.binary.elf.file import ElfSection
from fatpack.binary.elf.table import read_table_rows
from fatpack.errors import FormatError
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.binary.elf.file import ElfFile

_WRITABLE = 2

#: DT_RELA, DT_RELASZ and DT_REL, DT_RELSZ: section type of such relocations → tags of their address and size
_TABLES = {layout.RELA: (7, 8), layout.REL: (17, 18)}

#: DT_NEEDED, DT_STRTAB, DT_STRSZ and DT_SONAME
_NEEDED, _STRINGS, _STRINGS_SIZE, _SONAME = 1, 5, 10, 14

#: LIMIT: libraries whose names are read, and bytes of a name.
_MOST_NEEDED, _LONGEST_NAME = 1000, 256

#: LIMIT: bytes of a dynamic table. Real ones have some dozen entries of 16 bytes.
_DYNAMIC_SIZE = 1 << 16


class LoadedSegment(Record):
    """A loaded segment: its ``number`` among the program headers, and its bytes in the file."""

    number: int
    address: int
    offset: int
    size: int
    is_writable: bool


def loaded_segments(elf: ElfFile) -> list[LoadedSegment]:
    """Return the loaded segments with bytes in the file. Raises FormatError for damaged program headers."""
    return _segments(elf, layout.LOAD)


def _segments(elf: ElfFile, wanted: int) -> list[LoadedSegment]:
    names = ("type", "address", "offset", "file_size", "flags")
    places = [elf.layouts.program.position(name) for name in names]
    found = []
    for number, row in enumerate(elf.programs()):
        type, address, offset, size, flags = (row[place] for place in places)
        size = min(size, len(elf.view) - offset)
        if type == wanted and size > 0:
            found.append(LoadedSegment(number, address, offset, size, bool(flags & _WRITABLE)))
    return found


def needed_libraries(elf: ElfFile) -> tuple[str, ...]:
    """Return the names of the libraries that a program loads when it starts (DT_NEEDED), in order; none if damaged."""
    return _names(elf, _NEEDED)


def shared_object_name(elf: ElfFile) -> str:
    """Return the name by which programs refer to a library (DT_SONAME), "" if there is none."""
    return next(iter(_names(elf, _SONAME)), "")


def _names(elf: ElfFile, wanted_tag: int) -> tuple[str, ...]:
    try:
        segments, entries = loaded_segments(elf), _dynamic(elf)
    except FormatError:
        return ()
    tags = dict(reversed(entries))
    address, size = tags.get(_STRINGS, 0), tags.get(_STRINGS_SIZE, 0)
    names = []
    for segment in segments:
        inside = address - segment.address
        if 0 <= inside < segment.size and size:
            stored = min(size, segment.size - inside)
            wanted = [value for tag, value in entries if tag == wanted_tag and value < stored]
            for value in wanted[:_MOST_NEEDED]:
                name = elf.view.head(segment.offset + inside + value, min(_LONGEST_NAME, stored - value))
                names.append(name.partition(b"\0")[0].decode("utf-8", "replace"))
            break
    return tuple(names)


def _dynamic(elf: ElfFile) -> list[tuple[int, int]]:
    """Return tag and value of the entries in the dynamic table. Raises the errors of :func:`loaded_segments`."""
    tables = _segments(elf, layout.DYNAMIC)[:1]
    return [entry for table in tables for entry in dynamic_entries(elf, table.offset, table.size)]


def dynamic_entries(elf: ElfFile, at: int, size: int) -> list[tuple[int, int]]:
    """Return tag and value of the entries before the last in a dynamic table of up to 64 KiB."""
    row = elf.layouts.dynamic.struct
    entries: list[tuple[int, int]] = []
    for tag, value in read_table_rows(elf.view, at, min(size, _DYNAMIC_SIZE) // row.size, row):
        if not tag:
            break
        entries.append((tag, value))
    return entries


def relocation_tables(elf: ElfFile) -> list[ElfSection]:
    """Return the relocation tables in the dynamic table, as sections without a number; none if they are damaged."""
    try:
        segments, tags = loaded_segments(elf), dict(reversed(_dynamic(elf)))
    except FormatError:
        return []
    found = []
    for type, (address_tag, size_tag) in _TABLES.items():
        address, size = tags.get(address_tag, 0), tags.get(size_tag, 0)
        for segment in segments:
            inside = address - segment.address
            if size and 0 <= inside < segment.size:
                stored = min(size, segment.size - inside)
                place = segment.offset + inside
                found.append(ElfSection(0, 0, type, layout.ALLOC, address, place, stored, 0, 0, 0, 0))
                break
    return found
