"""Relocations of ELF files: the one walk over their tables, for hosts, editors, code analysis and device images.

::

    REL    offset, info                  the addend is in the bytes that the relocation changes
    RELA   offset, info, addend
    RELR   an even word is the address of a pointer; each bit of an odd one represents a word after the last address

``info`` has the number of a symbol and a type: 24 and 8 bits, or 32 and 32. Programs have millions of relocations, of
which a handful is needed, so tables are read in blocks of columns, and callers skip a block by comparing its places.
Android's packed tables become blocks too. CREL is in ``objcopy.relocations``, which must write it as well.
``fatpack.proof`` has readers of its own.

Sources: gABI, "Relocation" and "Relative Relocation Table".
"""

from __future__ import annotations

import sys

from fatpack.binary.elf.layout import MACHINE_MIPS, RELA, RELR
from fatpack.binary.elf.table import read_table_blocks
from fatpack.errors import FormatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from array import array
    from collections.abc import Iterator, Sequence

    from fatpack.binary.elf.file import ElfFile, ElfSection
    from fatpack.io.source import View

#: LIMIT: relocations that are unpacked. A group of equal ones takes no bytes for each; Chromium's library has 500,000.
MAX_RELOCATIONS = 1 << 22


class RelocationShape:
    """The form of relocations in one file: word size in bits, byte order, and the halves of 64-bit ``info`` fields."""

    __slots__ = ("bits", "is_native", "symbol_half", "word")

    def __init__(self, bits: int, order: str, machine: int) -> None:
        self.bits = bits
        self.word = bits // 8
        self.is_native = order == sys.byteorder
        # QUIRK(MIPS64, little-endian): the field is a 32-bit symbol number and four bytes, not one number.
        #: the half with the symbol's number, in stored order; the other one has the type
        self.symbol_half = 0 if order == "big" or machine == MACHINE_MIPS else 1

    def row_size(self, type: int) -> int:
        """Return the bytes of an entry in a table of a section type."""
        return self.word * (3 if type == RELA else 1 if type == RELR else 2)

    def words(self, block: bytes, *, is_half: bool = False, is_signed: bool = False) -> Sequence[int]:
        """Return a block as words of the file, or as 32-bit ones for the halves of 64-bit fields."""
        code = "I" if is_half or self.word == 4 else "Q"
        code = code.lower() if is_signed else code
        if self.is_native:
            return memoryview(block).cast(code)  # type: ignore[call-overload, no-any-return]
        # Swapping needs array, whose import loads half of collections.
        from array import array

        swapped = array(code, block)
        swapped.byteswap()
        return swapped


class RelocationBlock:
    """Consecutive entries of a REL or RELA table: ``at`` is the position of the first one, ``size`` that of each.

    The columns are made when they are needed. Addends are signed; those of REL are unknown, so their column is None.
    """

    __slots__ = ("_columns", "_count", "_data", "_shape", "at", "places", "size")

    def __init__(self, shape: RelocationShape, at: int, data: bytes, type: int) -> None:
        self.at = at
        self.size = shape.row_size(type)
        self._shape, self._data = shape, data
        self._count = self.size // shape.word
        self.places = shape.words(data)[:: self._count]
        self._columns: tuple[Sequence[int], Sequence[int]] | None = None

    @property
    def types(self) -> Sequence[int]:
        """The types, which the processors' ABI documents define."""
        return self._infos()[0]

    @property
    def symbols(self) -> Sequence[int]:
        """The numbers of symbols; 0 is none."""
        return self._infos()[1]

    @property
    def addends(self) -> Sequence[int] | None:
        """The addends to the symbols' values; None if they are in the bytes that change."""
        return self._shape.words(self._data, is_signed=True)[2::3] if self._count == 3 else None

    @property
    def targets(self) -> Sequence[int] | None:
        """The addends as unsigned numbers: the addresses of relocations that only add the base."""
        return self._shape.words(self._data)[2::3] if self._count == 3 else None

    def _infos(self) -> tuple[Sequence[int], Sequence[int]]:
        if self._columns is None:
            shape, count = self._shape, self._count
            if shape.bits == 32:
                infos = shape.words(self._data)[1::count]
                self._columns = [info & 0xFF for info in infos], [info >> 8 for info in infos]
            else:
                halves, symbol = shape.words(self._data, is_half=True), shape.symbol_half
                self._columns = halves[3 - symbol :: 2 * count], halves[2 + symbol :: 2 * count]
        return self._columns

    def overlaps(self, low: int, high: int) -> bool:
        """Return whether there may be places between two, both included; this takes two comparisons in C."""
        return min(self.places) <= high and max(self.places) >= low

    def row(self, number: int) -> tuple[int, int, int, int | None]:
        """Return (place, type, symbol number, addend) of one relocation of the block."""
        addends = self.addends
        types, symbols = self._infos()
        return self.places[number], types[number], symbols[number], addends[number] if addends else None

    def rows(self) -> Iterator[tuple[int, int, int, int | None]]:
        """Yield (place, type, symbol number, addend) of each relocation."""
        addends: Sequence[int | None] = self.addends or [None] * len(self.places)
        return zip(self.places, *self._infos(), addends, strict=True)


def relocation_shape(elf: ElfFile) -> RelocationShape:
    """Return the form of relocations in a host."""
    return RelocationShape(elf.layouts.bits, elf.layouts.order, elf.header.machine)


def relocation_blocks(view: View, shape: RelocationShape, type: int, at: int, size: int) -> Iterator[RelocationBlock]:
    """Yield the whole entries of a REL or RELA table in blocks, up to the end of the view."""
    row = shape.row_size(type)
    for block in read_table_blocks(view, at, size // row, row):
        yield RelocationBlock(shape, at, block, type)
        at += len(block)


def section_relocations(elf: ElfFile, section: ElfSection) -> Iterator[RelocationBlock]:
    """Yield the relocations of a host's REL or RELA section in blocks, up to the end of the file."""
    return relocation_blocks(elf.view, relocation_shape(elf), section.type, section.offset, section.size)


def unpacked_relocations(view: View, shape: RelocationShape, most: int) -> RelocationBlock:
    """Return the relocations of a packed RELA table as one block. Raises FormatError if it is damaged or too large."""
    from array import array

    words = unpack_relocations(view, most)
    if shape.word == 4:
        words = array("I", [word & 0xFFFFFFFF for word in words])
    if not shape.is_native:
        words.byteswap()
    return RelocationBlock(shape, 0, words.tobytes(), RELA)


def relative_places(elf: ElfFile, section: ElfSection) -> Iterator[int]:
    """Yield the addresses of the pointers in a RELR section, up to the end of the file."""
    shape, following = relocation_shape(elf), 0
    word = shape.word
    for block in read_table_blocks(elf.view, section.offset, section.size // word, word):
        for entry in shape.words(block):
            if not entry & 1:
                yield entry
                following = entry + word
                continue
            yield from _bits(entry >> 1, following, word)
            following += (8 * word - 1) * word


def _bits(bits: int, place: int, word: int) -> Iterator[int]:
    """Yield the address of the word that each set bit represents; the lowest bit is that of an address."""
    while bits:
        if bits & 1:
            yield place
        bits >>= 1
        place += word


# Android's packed encoding, which ``ld.lld --pack-dyn-relocs=android`` writes.
#
# ::
#
#     "APS2", count, first place ─► groups ─► relocations
#     a group: size, flags, then the difference of places, the info and the difference of addends that all of it share
#
# All numbers are signed LEB128. (``AndroidPackedRelocationSection`` in lld/ELF/SyntheticSections.cpp, LLVM 22.1;
# bionic's linker/linker_reloc_iterators.h.)

_MAGIC = b"APS2"

#: Bits of the flags of a group: infos, distances or addends are the same in all of it, and there are addends
_SAME_INFO, _SAME_DISTANCE, _SAME_ADDEND, _HAS_ADDEND = 1, 2, 4, 8

_MASK = (1 << 64) - 1


def unpack_relocations(data: View, most: int) -> array[int]:
    """Return place, info and addend of up to ``most`` packed relocations, one after the other. Raises FormatError."""
    content = data.tobytes()
    if content[:4] != _MAGIC:
        raise _error(data, 0, "packed relocations of an unknown kind", "APS2", repr(content[:4])[1:])
    numbers = _Numbers(data, content)
    count, place = numbers.take(), numbers.take()
    if not 0 <= count <= most:
        raise _error(data, 4, "too many packed relocations", f"at most {most}", str(count))
    from array import array

    words = array("Q")
    info = addend = 0
    while count:
        size, flags = numbers.take(), numbers.take()
        if not 0 < size <= count:
            raise _error(data, numbers.at, "a group of packed relocations", f"1 to {count} of them", str(size))
        count -= size
        distance = numbers.take() if flags & _SAME_DISTANCE else 0
        info = numbers.take() if flags & _SAME_INFO else info
        is_same = flags & _SAME_ADDEND
        if not flags & _HAS_ADDEND:
            addend = 0
        elif is_same:
            addend += numbers.take()
        for _ in range(size):
            place += distance if flags & _SAME_DISTANCE else numbers.take()
            info = info if flags & _SAME_INFO else numbers.take()
            if flags & _HAS_ADDEND and not is_same:
                addend += numbers.take()
            words.extend((place & _MASK, info & _MASK, addend & _MASK))
    return words


class _Numbers:
    """Signed LEB128 numbers of a table."""

    def __init__(self, data: View, content: bytes) -> None:
        self._data, self._content, self.at = data, content, len(_MAGIC)

    def take(self) -> int:
        """Return the next number. Raises FormatError at the end of the table, and for a number of over 64 bits."""
        value, shift, content = 0, 0, self._content
        while self.at < len(content) and shift < 70:
            byte = content[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value - (1 << shift) if byte & 0x40 else value
        raise _error(self._data, self.at, "packed relocations end too early", "a number of LEB128", "the end")


def _error(data: View, at: int, problem: str, expected: str, found: str) -> FormatError:
    return FormatError(problem, format="elf", offset=data.offset(at), expected=expected, found=found, chain=data.chain)
