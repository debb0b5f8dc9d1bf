"""The symbol table of an ELF image: System V gABI, chapter 4, "Symbol Table"."""

from __future__ import annotations

from fatpack.elf import table
from fatpack.elf.header import DYNSYM, SYMTAB, header

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from fatpack.elf.header import Elf
    from fatpack.io.source import View


class Symbols:
    """The symbol table of an ELF image, checked before anything is read.

    ``kinds`` are the section types to look for, the preferred one first; only one table is read, as the gABI allows
    one of each type. ``is_present`` is false when the image has none.
    """

    def __init__(self, view: View, kinds: tuple[int, ...]) -> None:
        """Find the table and load its names. Raises FormatError when headers, table or names are damaged."""
        self.view = view
        self.is_present = False
        self._names: table.Names | None = None
        elf = header(view, view.head(0, 64))
        if elf is None:
            raise table.bad(view, "header", "is no ELF header, or cut short", 0)
        self._shape = elf.shape
        sections = self._sections(elf)
        for kind in kinds:
            if kind in sections:
                row = sections[kind]
                break
        else:
            return
        _, self._at, self._size, link, entsize = row
        size = self._shape.symbol.size
        if self._size % size:
            problem = f"its {self._size} bytes are no whole number of entries"
            raise table.bad(view, "symbol table", problem, self._at)
        table.whole(view, "symbol table", self._at, self._size // size, size, entsize or size)
        self._names = self._linked_names(elf, link)
        self.is_present = True

    def __iter__(self) -> Iterator[tuple[int, int, int, int]]:
        """Yield (name, st_info, st_other, st_shndx) of each symbol; the name for :meth:`name`."""
        symbol = self._shape.symbol
        if not self.is_present:
            return iter(())
        if self._size <= table.BLOCK:  # the usual case, without a generator in between
            return symbol.iter_unpack(self.view.read(self._at, self._size))
        return table.rows(self.view, self._at, self._size // symbol.size, symbol)

    def place(self, index: int) -> tuple[int, int]:
        """Return st_value and st_size of a symbol by its number in the table."""
        size = self._shape.symbol.size
        value, extent = self._shape.place.unpack(self.view.read(self._at + index * size, size))
        return value, extent

    def places(self, indexes: Iterable[int]) -> list[tuple[int, int]]:
        """Return st_value and st_size of several symbols by their numbers in the table."""
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

    def _sections(self, elf: Elf) -> dict[int, tuple[int, int, int, int, int]]:
        """Return the section headers that may be wanted: the first of each symbol table's type."""
        first: dict[int, tuple[int, int, int, int, int]] = {}
        for row in elf.sections(elf.shape.section):
            if row[0] in (SYMTAB, DYNSYM) and row[0] not in first:
                first[row[0]] = row
        return first

    def _linked_names(self, elf: Elf, index: int) -> table.Names:
        """Return the names that the section of a number holds. Raises FormatError."""
        if index >= elf.section_count():
            problem = f"names section {index} of {elf.section_count()}"
            raise table.bad(self.view, "symbol table", problem, self._at)
        row = elf.shape.section
        _, at, size, _, _ = row.unpack(self.view.read(elf.shoff + index * row.size, row.size))
        return table.Names(self.view, "symbol name", at, size)
