"""Symbol tables of ELF files, for hosts (:class:`~fatpack.binary.elf.file.ElfFile`) and for device images.

System V gABI, chapter 4, "Symbol Table".
"""

from __future__ import annotations

import sys

from fatpack.binary.elf import table
from fatpack.binary.elf.quick_header import read_quick_header

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import TypeAlias

    from fatpack.binary.elf.file import ElfFile, ElfSection
    from fatpack.binary.elf.quick_header import QuickHeader
    from fatpack.io.source import View

    SymbolRow: TypeAlias = tuple[int, int, int, int, int, int]
    """st_name, st_info, st_other, st_shndx, st_value, st_size"""


# Hosts: all tables with their strings. Sections may share bytes: tens of thousands may refer to the same megabyte, so
# the total size is limited.

#: LIMIT: bytes of symbol names that are searched in one table. The largest library known has 70 MB of them.
STRINGS = 1 << 28


def section_budget(view: View) -> int:
    """Return the limit on the total size of sections; only hostile files have more bytes in sections than this."""
    return 2 * len(view)


def read_symbol_tables(elf: ElfFile, *kinds: int) -> Iterator[tuple[ElfSection, ElfSection]]:
    """Yield the symbol tables of some types, each with its string table.

    Tables without a string table and repeated tables are left out. Raises BadValue if their total size exceeds
    :func:`section_budget`.
    """
    (types,) = elf.columns("type")
    seen: set[tuple[int, int, int]] = set()
    left = section_budget(elf.view)
    for index, type in enumerate(types):
        if type not in kinds:
            continue
        table = elf.section(index)
        key = table.offset, table.size, table.link
        if 0 < table.link < elf.section_count and key not in seen:
            seen.add(key)
            left = _charged(elf, table, left)
            yield table, elf.section(table.link)


def read_symbols(elf: ElfFile, section: ElfSection) -> Iterator[SymbolRow]:
    """Yield the fields of each symbol in a table, in the order of 64-bit files. Raises BadValue if it is cut short."""
    layout, data = elf.layouts.symbol, elf.contents(section)
    rows = table.read_table_rows(data, 0, len(data) // layout.size, layout.struct)
    if elf.layouts.bits == 64:
        return rows
    return ((name, info, other, index, value, size) for name, value, size, info, other, index in rows)


def symbol_table_strings(elf: ElfFile, *kinds: int) -> Iterator[bytes]:
    """Yield each string table of the symbol tables once, up to the limit. Raises the errors of that function."""
    seen: set[tuple[int, int]] = set()
    left = section_budget(elf.view)
    for _, strings in read_symbol_tables(elf, *kinds):
        key = strings.offset, strings.size
        if key not in seen:
            seen.add(key)
            left = _charged(elf, strings, left)
            yield elf.contents(strings).head(0, STRINGS)


def _charged(elf: ElfFile, section: ElfSection, left: int) -> int:
    """Return ``left`` less the size of a section. Raises BadValue if that is negative."""
    if section.stored_size <= left:
        return left - section.stored_size
    at, found = elf.section_field(section.index, "size"), f"{section.stored_size:#x}"
    raise elf.error("symbol tables take more bytes than there are", at, "size", f"at most {left:#x}", found)


#: for ``bytes.translate``: 0 for 0, 1 for all other bytes
_NOT_ZERO = bytes((0, *[1] * 255))

#: Size in bytes below which a table is iterated: splitting it into columns costs more than it saves.
_FEW = 64 * 24


class ElfSymbolTable:
    """The symbol table of a device image, which is checked before it is used.

    ``kinds`` are section types in order of preference; only one table is read, as the gABI allows one of each type.
    ``is_present`` is false if the image has none.
    """

    def __init__(self, view: View, kinds: tuple[int, ...]) -> None:
        """Find the table and load its names. Raises FormatError if headers, table or names are damaged."""
        self.view = view
        self.is_present = False
        self._names: table.NameTable | None = None
        elf = read_quick_header(view, view.head(0, 64))
        if elf is None:
            raise table.table_error(view, "header", "is no ELF header, or cut short", 0)
        self._shape = elf.shape
        count = elf.section_count()
        headers, index = self._find(elf, count, kinds)
        if index < 0:
            return
        _, self._at, self._size, link, entsize = self._row(elf, headers, index)
        size = self._shape.symbol.size
        if self._size % size:
            problem = f"its {self._size} bytes are no whole number of entries"
            raise table.table_error(view, "symbol table", problem, self._at)
        table.check_table(view, "symbol table", self._at, self._size // size, size, entsize or size)
        if link >= count:
            raise table.table_error(view, "symbol table", f"names section {link} of {count}", self._at)
        _, at, size, _, _ = self._row(elf, headers, link)
        self._names = table.NameTable(view, "symbol name", at, size)
        self.is_present = True

    def __iter__(self) -> Iterator[tuple[int, int, int, int]]:
        """Yield (name, st_info, st_other, st_shndx) of each symbol; :meth:`name` resolves the name."""
        symbol = self._shape.symbol
        if not self.is_present:
            return iter(())
        if self._size <= table.BLOCK:  # the usual case, without a generator
            return symbol.iter_unpack(self.view.read(self._at, self._size))
        return table.read_table_rows(self.view, self._at, self._size // symbol.size, symbol)

    def defined(self, infos: bytes, others: bytes = b"") -> tuple[list[int], bytes]:
        """Return the name offsets (for :meth:`names`) and the st_info of defined symbols.

        ``infos`` and ``others`` have 256 bytes: 1 for each wanted st_info and st_other. A library has a hundred
        thousand symbols, so they are processed in bulk.
        """
        symbol = self._shape.symbol
        if not self.is_present:
            return [], b""
        if not _FEW <= self._size <= table.BLOCK or sys.byteorder != self._shape.order:
            rows = [
                (name, info)
                for name, info, other, section in self
                if infos[info] and section and (not others or others[other])
            ]
            return [name for name, _ in rows], bytes([info for _, info in rows])
        from itertools import compress

        stored, wanted = self._chosen(infos, others)
        size, at = symbol.size, self._shape.info_at
        starts = memoryview(stored).cast("I")[:: size // 4].tolist()
        return list(compress(starts, wanted)), bytes(compress(stored[at::size], wanted))

    def sizes(self, infos: bytes, others: bytes) -> list[tuple[int, int]]:
        """Return name offset (for :meth:`names`) and st_size of the symbols that :meth:`defined` returns."""
        place = self._shape.place
        if not self.is_present:
            return []
        if not _FEW <= self._size <= table.BLOCK or sys.byteorder != self._shape.order:
            found = [
                (index, name)
                for index, (name, info, other, section) in enumerate(self)
                if infos[info] and section and others[other]
            ]
            places = self.places([index for index, _ in found])
            return [(name, size) for (_, name), (_, size) in zip(found, places, strict=True)]
        from itertools import compress

        stored, wanted = self._chosen(infos, others)
        step = self._shape.symbol.size
        starts = compress(range(0, len(stored), step), wanted)
        names = memoryview(stored).cast("I")
        return [(names[at >> 2], place.unpack_from(stored, at)[1]) for at in starts]

    def _chosen(self, infos: bytes, others: bytes) -> tuple[bytes, bytes]:
        """Return the table and a byte for each symbol, 1 if it is wanted and defined; for tables of up to one block."""
        stored, size, at = self.view.read(self._at, self._size), self._shape.symbol.size, self._shape.info_at
        chosen = int.from_bytes(stored[at::size].translate(infos), "little")
        if others:
            chosen &= int.from_bytes(stored[at + 1 :: size].translate(others), "little")
        # st_shndx is not 0 if one of its two bytes is not.
        low, high = (stored[at + byte :: size].translate(_NOT_ZERO) for byte in (2, 3))
        chosen &= int.from_bytes(low, "little") | int.from_bytes(high, "little")
        return stored, chosen.to_bytes(len(low), "little")

    def place(self, index: int) -> tuple[int, int]:
        """Return st_value and st_size of a symbol, given by number."""
        size = self._shape.symbol.size
        value, extent = self._shape.place.unpack(self.view.read(self._at + index * size, size))
        return value, extent

    def places(self, indexes: Iterable[int]) -> list[tuple[int, int]]:
        """Return st_value and st_size of several symbols, given by number."""
        if not self.is_present or self._size > table.BLOCK:
            return [self.place(index) for index in indexes]
        stored, size, place = self.view.read(self._at, self._size), self._shape.symbol.size, self._shape.place
        return [place.unpack_from(stored, index * size) for index in indexes]

    def name(self, at: int) -> bytes:
        """Return the name at an offset of the string table. Raises BadValue, LimitExceeded."""
        return self.names((at,))[0]

    def names(self, places: Iterable[int]) -> list[bytes]:
        """Return the names at offsets of the string table. Raises BadValue, LimitExceeded."""
        return self._names.take(places, self._at) if self._names else []

    def _find(self, elf: QuickHeader, count: int, kinds: tuple[int, ...]) -> tuple[bytes, int]:
        """Return the section table if it is small, and the number of the first section of a kind, -1 if there is none.

        Raises FormatError if the table is damaged.
        """
        row = elf.shape.section
        if count * row.size > table.BLOCK:
            types = [kind for kind, *_ in elf.sections(row)]
            return b"", _first(types, kinds)
        if not count:
            return b"", -1
        table.check_table(self.view, "section table", elf.shoff, count, row.size, elf.shentsize)
        headers = self.view.read(elf.shoff, count * row.size)
        if sys.byteorder != elf.shape.order:
            return headers, _first([kind for kind, *_ in row.iter_unpack(headers)], kinds)
        return headers, _first(memoryview(headers).cast("I")[1 :: row.size // 4].tolist(), kinds)

    def _row(self, elf: QuickHeader, headers: bytes, index: int) -> tuple[int, ...]:
        row = elf.shape.section
        if headers:
            return row.unpack_from(headers, index * row.size)
        return row.unpack(self.view.read(elf.shoff + index * row.size, row.size))


def _first(types: list[int], kinds: tuple[int, ...]) -> int:
    """Return the index of the first section of the first kind that is present, -1 if none is."""
    return next((types.index(kind) for kind in kinds if kind in types), -1)
