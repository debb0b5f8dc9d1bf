"""Pointers in PE images: addresses in place, at which the image expects to be loaded."""

from __future__ import annotations

from fatpack.errors import Truncated
from fatpack.hosts.pe.read import PeFile
from fatpack.runtime.pointers.pointer import NULL_POINTER, Loaded, Pointer, Search, words_between

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from fatpack.hosts import Site
    from fatpack.io.source import View
    from fatpack.layout import Order


#: IMAGE_SCN_MEM_EXECUTE
_CODE = 0x20000000


class PeProgram:
    """Reads pointers of a PE image. Raises FormatError for a damaged header."""

    order: Order = "little"
    is_linked = True

    def __init__(self, view: View) -> None:
        self.view = view
        image = PeFile(view)
        self.word, self._base = image.word, image.base
        rows: list[tuple[int, int, int, int]] = []
        self._data: list[tuple[int, int, int, int]] = []
        try:
            for section in image.sections():
                size = min(section.virtual_size or section.raw_size, section.raw_size)
                rows.append((self._base + section.virtual_address, size, section.raw_offset, section.number))
                if not section.flags & _CODE:
                    self._data.append(rows[-1])
        except Truncated:
            pass  # the host has reported it
        self._loaded = Loaded(rows, len(view))

    def pointers(self, table: Site, offsets: Sequence[int]) -> list[Pointer]:
        """Return what the pointers at some offsets of a table lead to; the caller has checked that they are inside."""
        stored = [int.from_bytes(table.data.read(offset, self.word), "little") for offset in offsets]
        return [self.at(address) for address in stored]

    def at(self, address: int) -> Pointer:
        """Return what an address leads to."""
        return self._loaded.at(address) if address else NULL_POINTER

    def held(self, places: Sequence[int]) -> list[Pointer]:
        """Return what the pointers at some addresses lead to."""
        found = [self.at(place) for place in places]
        return [
            self.at(int.from_bytes(self.view.read(place.position, self.word), "little"))
            if place.room >= self.word
            else NULL_POINTER
            for place in found
        ]

    def address(self, section: int) -> int:
        """Return the address of a section; 0 if there is none of that number."""
        return next((row[0] for row in self._loaded.rows if row[3] == section), 0)

    def into(self, low: int, high: int, *, everywhere: bool = False) -> Search:
        """Return address → value of the pointers in the image's data whose value lies between two, both included.

        Sections that start between the two are what pointers lead to, and not searched, unless they are ``everywhere``.
        """
        data = (
            (address, self.view.slice(position, size))
            for address, size, position, _ in self._data
            if position + size <= len(self.view) and (everywhere or not low <= address <= high)
        )
        return words_between(data, self.word, self.order, low, high)
