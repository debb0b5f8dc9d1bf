"""An object taken apart, and what can be done with it: sections taken out and put in."""

from __future__ import annotations

from fatpack.binary.coff.layout import REMOVED_BY_LINKER
from fatpack.binary.coff.objcopy import relocations
from fatpack.binary.coff.objcopy.sections import MutableCoffSection, coff_error, read_sections, read_strings
from fatpack.binary.coff.objcopy.symbols import MutableCoffSymbol, read_symbols
from fatpack.binary.coff.objcopy.writer import PeImage, align_up
from fatpack.errors import HostError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fatpack.binary.coff.reader import CoffObject
    from fatpack.io.source import Piece

#: What stays of the flags of a section that is told others, and what every section gets
_ALIGN_FLAGS, _READ = 0x00F00000, 0x40000000

_WORD = 0xFFFFFFFF


class CoffModel:
    """A COFF object, or an ``image``, that can be written anew. Raises FormatError for a damaged one.

    ``by_old_index`` are the symbols by the numbers of their records, None for auxiliary ones.
    """

    def __init__(self, coff: CoffObject) -> None:
        self.coff = coff
        strings = read_strings(coff)
        self.image = coff if isinstance(coff, PeImage) else None
        self.parts = read_sections(coff, strings, is_image=self.image is not None)
        self.symbols = read_symbols(coff, self.parts, strings, is_image=self.image is not None)
        self.by_old_index: list[MutableCoffSymbol | None] = [None] * (coff.symbol_count if self.symbols else 0)
        for symbol in self.symbols:
            self.by_old_index[symbol.old_index] = symbol
        for symbol in self.symbols:
            if symbol.target >= len(self.by_old_index):
                raise coff_error(coff, "weak external reference out of range", coff.symbol_offset, "symbol table")
            if symbol.target >= 0 and self.by_old_index[symbol.target] is None:
                raise coff_error(coff, "invalid SymbolTableIndex", coff.symbol_offset, "symbol table")
        for part in self.parts:
            relocations.check_relocations(coff, part, self.by_old_index)

    def add(self, name: bytes, content: Sequence[Piece]) -> None:
        """Append a section that linkers remove."""
        size = sum(map(len, content))
        if size > _WORD:
            raise HostError(f"{size} bytes do not fit into a COFF object", chain=self.coff.view.chain)
        last = self.parts[-1] if self.parts else None
        # QUIRK(llvm-objcopy): sections that it adds to objects have addresses, too.
        address = last.address + last.virtual_size & _WORD if last else 0
        stored_size = size
        if self.image is not None:
            address = align_up(address, self.image.section_align)
            stored_size = align_up(size, self.image.file_align)
        row = (b"", size, address & _WORD, stored_size, 0, 0, 0, 0, 0, _READ | REMOVED_BY_LINKER)
        self.parts.append(MutableCoffSection(row, name, len(self.parts) + 1, tuple(content)))

    def exclude(self, names: set[bytes]) -> None:
        """Give all sections of some names the flags of sections that linkers remove."""
        for part in self.parts:
            if part.name in names:
                part.flags = part.flags & _ALIGN_FLAGS | _READ | REMOVED_BY_LINKER

    def remove(self, is_unwanted: Callable[[MutableCoffSection], bool]) -> None:
        """Take out sections, those that go with them, and all their symbols; what refers to them is found later."""
        gone = {part for part in self.parts if is_unwanted(part)}
        while gone:
            for part in gone:
                part.number = 0
            associated = {
                symbol.section
                for symbol in self.symbols
                if symbol.associated in gone and symbol.section is not None and symbol.section.number
            }
            for symbol in self.symbols:
                if symbol.section in gone:
                    symbol.index = -1
            self.symbols = [symbol for symbol in self.symbols if symbol.index >= 0]
            gone = associated
        self.parts = [part for part in self.parts if part.number]
        for number, part in enumerate(self.parts, 1):
            part.number = number
