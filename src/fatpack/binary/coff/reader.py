"""Reading COFF objects: header, section table and names, as far as the bytes go.

A damaged object still gives what is intact; what an edit needs to be whole is checked in ``editable``.

QUIRK(several assemblers): a string table whose size field is below 4 is an empty one.
QUIRK(llvm-objcopy): sections it adds have VirtualSize and VirtualAddress set although the file is an object.
"""

from __future__ import annotations

from fatpack import magic_numbers
from fatpack.binary.coff.coff_layout import (
    BIG_HEADER,
    BIG_SYMBOL,
    FORMAT,
    HEADER,
    MAX_SECTIONS,
    RELOCATION,
    SECTION,
    SYMBOL,
)
from fatpack.binary.coff.layout import MACHINES, OVERFLOWED_RELOCATIONS, CoffSection, name_offset
from fatpack.errors import BadMagic, BadValue, Truncated

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.binary.coff.layout import SectionRow
    from fatpack.io.source import View

#: Headers read at a time: 160 KiB.
_ROWS = 4096

#: LIMIT: section headers that detection looks at; a file that is no object fails at the first.
_DETECTED_ROWS = 64

#: LIMIT: bytes of one section name. Bundle IDs reach 150; without a limit, thousands of headers pointing into one long
#: string would make thousands of copies of it.
LONGEST_NAME = 1024


class CoffObject:
    """The header of a classic or big object, and access to its sections. Raises FormatError if it is neither."""

    def __init__(self, view: View) -> None:
        self.view = view
        what = coff_kind(view)
        if what not in ("classic", "big"):
            raise BadMagic("not a COFF object", format=FORMAT, offset=view.offset(0), chain=view.chain)
        self.is_big = what == "big"
        if self.is_big:
            header = BIG_HEADER.named(view, 0)
            self.table_offset = BIG_HEADER.size
            self.symbol_layout = BIG_SYMBOL
        else:
            header = HEADER.named(view, 0)
            self.table_offset = HEADER.size + header["optional_size"]
            self.symbol_layout = SYMBOL
        self.machine: int = header["machine"]
        self.section_count: int = header["section_count"]
        self.symbol_offset: int = header["symbol_offset"]
        self.symbol_count: int = header["symbol_count"]
        self.table_end = self.table_offset + self.section_count * SECTION.size

    @property
    def symbol_end(self) -> int:
        """Where the symbols end and the string table starts; the same as their start if there are none."""
        return self.symbol_offset + self.symbol_count * self.symbol_layout.size

    def strings(self) -> View | None:
        """Return the string table with its size field; None if the object has none or it is cut off."""
        if not self.symbol_offset:
            return None
        field = self.view.head(self.symbol_end, 4)
        size = max(int.from_bytes(field, "little"), 4)
        if len(field) < 4 or self.symbol_end + size > len(self.view):
            return None
        return self.view.slice(self.symbol_end, size)

    def rows(self) -> Iterator[SectionRow]:
        """Yield the section headers as tuples. Raises Truncated behind the last whole one."""
        present = min(self.section_count, max(len(self.view) - self.table_offset, 0) // SECTION.size)
        for first in range(0, present, _ROWS):
            count = min(_ROWS, present - first)
            block = self.view.read(self.table_offset + first * SECTION.size, count * SECTION.size)
            yield from SECTION.struct.iter_unpack(block)
        if present < self.section_count:
            at = self.table_offset + present * SECTION.size
            raise Truncated(
                needed=(self.section_count - present) * SECTION.size,
                left=len(self.view) - at,
                format=FORMAT,
                offset=self.view.offset(at),
                field="section table",
                chain=self.view.chain,
            )

    def sections(self) -> Iterator[CoffSection]:
        """Yield the section headers in order. Raises Truncated behind the last whole one."""
        for number, row in enumerate(self.rows(), 1):
            yield CoffSection(number, *row)

    def name(self, stored: bytes, strings: View | None) -> bytes:
        """Return the name that 8 stored bytes stand for. Raises BadValue if it cannot be read."""
        place = name_offset(stored)
        if place is None:
            return stored.rstrip(b"\0")
        text = strings.head(place, LONGEST_NAME) if strings is not None and place >= 4 else b""
        end = text.find(b"\0")
        if end < 0:
            raise BadValue(
                "the name is not in the string table",
                format=FORMAT,
                offset=self.view.offset(self.table_offset),
                field="section name",
                found=repr(stored.rstrip(b"\0"))[2:-1],
                hint="the file looks cut short" if strings is None else "",
                chain=self.view.chain,
            )
        return text[:end]

    def relocation_count(self, section: CoffSection) -> int:
        """Return how many relocation records a section has. Raises Truncated if the first, which says so, is gone."""
        if section.relocation_count == 0xFFFF and section.flags & OVERFLOWED_RELOCATIONS:
            return int(RELOCATION.read(self.view, section.relocation_offset)[0])
        return section.relocation_count


def coff_kind(view: View) -> str | None:
    """Return ``classic``, ``big``, ``import`` or ``anonymous``, or None if the bytes are no COFF object.

    COFF has no magic: a classic object is one whose header and first section headers all make sense.
    """
    head = view.head(0, BIG_HEADER.size)
    if head.startswith(magic_numbers.ANONYMOUS_COFF):
        return _anonymous_kind(head)
    if len(head) < HEADER.size:
        return None
    machine, count, _, symbol_offset, symbol_count, optional_size, flags = HEADER.struct.unpack(head[: HEADER.size])
    table_end = HEADER.size + count * SECTION.size
    # Flag 2 is set in linked images only. No producer gives objects an optional header.
    if machine not in MACHINES or not 0 < count <= MAX_SECTIONS or optional_size or flags & 2:
        return None
    if (symbol_offset or symbol_count) and symbol_offset < table_end:
        return None
    block = view.head(HEADER.size, min(count, _DETECTED_ROWS) * SECTION.size)
    block = block[: len(block) - len(block) % SECTION.size]
    sections = [CoffSection(number, *row) for number, row in enumerate(SECTION.struct.iter_unpack(block), 1)]
    return "classic" if sections and all(_is_plausible(section, table_end) for section in sections) else None


def _anonymous_kind(head: bytes) -> str | None:
    """Tell anonymous objects apart: import objects are version 0, big ones have a class, others hold something else."""
    version, machine = int.from_bytes(head[4:6], "little"), int.from_bytes(head[6:8], "little")
    if len(head) < HEADER.size or machine not in MACHINES:
        return None
    if version >= 2 and head[12:28] == magic_numbers.BIG_COFF_CLASS and len(head) == BIG_HEADER.size:
        return "big"
    return "anonymous" if version else "import"


def _is_plausible(section: CoffSection, table_end: int) -> bool:
    text = section.stored_name.rstrip(b"\0")
    offsets = (section.raw_offset, section.relocation_offset, section.line_offset)
    return (
        bool(text)
        and all(char > 0x20 and char != 0x7F for char in text)
        and all(offset == 0 or offset >= table_end for offset in offsets)
        and (section.flags >> 20 & 0xF) != 0xF
    )
