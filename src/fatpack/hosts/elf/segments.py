"""Segments of ELF programs: what is loaded where, for files whose section table is gone or damaged.

A program runs without its sections, and some tools take the table away (``llvm-objcopy --strip-sections``, packers).
What is left are program headers; relocations are found through the dynamic table then. (gABI, "Program Loading".)
"""

from __future__ import annotations

import struct

from fatpack.elf import constants
from fatpack.elf.file import Section
from fatpack.errors import FormatError
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.elf.file import ElfFile

_WRITABLE = 2

#: DT_RELA, DT_RELASZ and DT_REL, DT_RELSZ: type of a section of such relocations → tags of its address and size
_TABLES = {constants.RELA: (7, 8), constants.REL: (17, 18)}

#: LIMIT: bytes of a dynamic table that are read. Real ones have some dozen entries of 16 bytes.
_DYNAMIC_SIZE = 1 << 16


class Segment(Record):
    """A loaded part of a file: its ``number`` among the program headers, and the bytes that the file has of it."""

    number: int
    address: int
    offset: int
    size: int
    is_writable: bool


def loaded(elf: ElfFile) -> list[Segment]:
    """Return the loaded segments that have bytes in the file. Raises FormatError for damaged program headers."""
    return _segments(elf, constants.LOAD)


def _segments(elf: ElfFile, wanted: int) -> list[Segment]:
    names = ("type", "address", "offset", "file_size", "flags")
    places = [elf.layouts.program.position(name) for name in names]
    found = []
    for number, row in enumerate(elf.programs()):
        type, address, offset, size, flags = (row[place] for place in places)
        size = min(size, len(elf.view) - offset)
        if type == wanted and size > 0:
            found.append(Segment(number, address, offset, size, bool(flags & _WRITABLE)))
    return found


def relocation_tables(elf: ElfFile) -> list[Section]:
    """Return the tables of relocations that the dynamic table names, as sections without a number; none if damaged."""
    try:
        segments, tables = loaded(elf), _segments(elf, constants.DYNAMIC)
    except FormatError:
        return []
    word = "Q" if elf.layouts.word == 8 else "I"
    row = struct.Struct(("<" if elf.layouts.order == "little" else ">") + 2 * word)
    tags: dict[int, int] = {}
    for table in tables[:1]:
        block = elf.view.head(table.offset, min(table.size, _DYNAMIC_SIZE))
        for tag, value in row.iter_unpack(block[: len(block) - len(block) % row.size]):
            if not tag:
                break
            tags.setdefault(tag, value)
    found = []
    for type, (address_tag, size_tag) in _TABLES.items():
        address, size = tags.get(address_tag, 0), tags.get(size_tag, 0)
        for segment in segments:
            inside = address - segment.address
            if size and 0 <= inside < segment.size:
                stored = min(size, segment.size - inside)
                place = segment.offset + inside
                found.append(Section(0, 0, type, constants.ALLOC, address, place, stored, 0, 0, 0, 0))
                break
    return found
