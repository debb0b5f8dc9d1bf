"""Pointers in COFF objects, from the relocations of their section."""

from __future__ import annotations

from fatpack.binary.coff.layout import UNINITIALIZED
from fatpack.binary.coff.reader import CoffObject
from fatpack.binary.coff.tables import relocation_rows
from fatpack.binary.pointers import INSIDE, NULL_POINTER, OUTSIDE, UNDEFINED, UNKNOWN_POINTER, Pointer, PointerSearch
from fatpack.errors import FormatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from fatpack.binary import CodeSection
    from fatpack.binary.coff.layout import CoffSection
    from fatpack.io.source import View
    from fatpack.layout import ByteOrder

#: Machine → bytes of a pointer, and its relocation type (IMAGE_REL_…_ADDR64, …_DIR32, …_ADDR32)
_POINTERS = {0x8664: (8, 1), 0x14C: (4, 6), 0xAA64: (8, 14), 0xA641: (8, 14), 0xA64E: (8, 14), 0x1C4: (4, 1)}


class CoffPointers:
    """A reader of pointers in a COFF object. Raises FormatError for a damaged header."""

    order: ByteOrder = "little"
    is_linked = False

    def __init__(self, view: View) -> None:
        self.view = view
        self._coff = CoffObject(view)
        self.word, self._type = _POINTERS.get(self._coff.machine, (8, -1))

    def pointers(self, table: CodeSection, offsets: Sequence[int]) -> list[Pointer]:
        """Return the targets of the pointers at some offsets of a table, which the caller has checked."""
        wanted, found = set(offsets), {}
        sections = self._sections()
        if table.index is not None and table.index <= len(sections):
            try:
                section = sections[table.index - 1]
                for address, symbol, type in relocation_rows(self._coff.relocation_table(section)):
                    place = address - section.virtual_address
                    if place in wanted:
                        found[place] = symbol if type == self._type else -1
            except FormatError:
                return [UNKNOWN_POINTER] * len(offsets)
        results = []
        for offset in offsets:
            stored = int.from_bytes(table.data.read(offset, self.word), "little")
            if offset in found:
                results.append(self._resolve(found[offset], stored, sections))
            else:
                results.append(UNKNOWN_POINTER if stored else NULL_POINTER)
        return results

    def address(self, section: int) -> int:
        """Return 0: sections of objects have no addresses."""
        return 0

    def at(self, address: int) -> Pointer:
        """Return an unknown pointer for each address: objects have none."""
        return UNKNOWN_POINTER

    def values_at(self, places: Sequence[int]) -> list[Pointer]:
        """Return an unknown pointer for each address: objects have none."""
        return [UNKNOWN_POINTER] * len(places)

    def values_in(self, low: int, high: int, *, everywhere: bool = False) -> PointerSearch:
        """Return an empty search: objects have no addresses."""
        return PointerSearch({})

    def _sections(self) -> list[CoffSection]:
        sections = []
        try:
            for section in self._coff.sections():
                sections.append(section)
        except FormatError:
            pass  # locate() reports it
        return sections

    def _resolve(self, symbol: int, stored: int, sections: Sequence[CoffSection]) -> Pointer:
        coff, layout = self._coff, self._coff.symbol_layout
        if not 0 <= symbol < coff.symbol_count:
            return UNKNOWN_POINTER
        try:
            name, value, number, *_ = layout.read(self.view, coff.symbol_offset + symbol * layout.size)
        except FormatError:
            return UNKNOWN_POINTER
        if not number:
            return Pointer(UNDEFINED, symbol=coff.symbol_name(name))
        if not 0 < number <= len(sections):
            return UNKNOWN_POINTER
        section = sections[number - 1]
        size, start = section.raw_size, section.raw_offset
        at = value + stored & (1 << 8 * self.word) - 1
        if at >= size or start + size > len(self.view) or section.flags & UNINITIALIZED:
            return Pointer(OUTSIDE, at, section=number)
        return Pointer(INSIDE, at, start + at, size - at, number)
