"""Pointers in PE images: addresses in place, which include the image's preferred base."""

from __future__ import annotations

from fatpack.binary.pe.reader import PeFile, block_relocations, relocation_blocks
from fatpack.binary.pointers import (
    INSIDE,
    NULL_POINTER,
    LoadedRanges,
    Pointer,
    PointerSearch,
    words_at,
    words_between,
)
from fatpack.errors import Truncated

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fatpack.binary import CodeSection
    from fatpack.io.source import View
    from fatpack.layout import ByteOrder


#: IMAGE_SCN_MEM_EXECUTE
_CODE = 0x20000000

#: IMAGE_REL_BASED_HIGHLOW, IMAGE_REL_BASED_DIR64
_WHOLE_WORDS = (3, 10)


class PePointers:
    """A reader of pointers in a PE image. Raises FormatError for a damaged header."""

    order: ByteOrder = "little"
    is_linked = True

    def __init__(self, view: View) -> None:
        self.view = view
        image = PeFile(view)
        self.word, self._base = image.word, image.base
        self._relocations = image.base_relocations()
        rows: list[tuple[int, int, int, int]] = []
        self._data: list[tuple[int, int, int, int]] = []
        try:
            for section in image.sections():
                size = min(section.virtual_size or section.raw_size, section.raw_size)
                rows.append((self._base + section.virtual_address, size, section.raw_offset, section.number))
                if not section.flags & _CODE:
                    self._data.append(rows[-1])
        except Truncated:
            pass  # locate() reports it
        self._loaded = LoadedRanges(rows, len(view))

    def pointers(self, table: CodeSection, offsets: Sequence[int]) -> list[Pointer]:
        """Return the targets of the pointers at some offsets of a table, which the caller has checked."""
        stored = [int.from_bytes(table.data.read(offset, self.word), "little") for offset in offsets]
        return [self.at(address) for address in stored]

    def at(self, address: int) -> Pointer:
        """Return the target of an address."""
        return self._loaded.at(address) if address else NULL_POINTER

    def values_at(self, places: Sequence[int]) -> list[Pointer]:
        """Return the targets of the pointers at some addresses."""
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

    def values_in(self, low: int, high: int, *, everywhere: bool = False) -> PointerSearch:
        """Return address → value of the pointers in the image's data whose value lies between two, both included.

        Sections that start between the two are targets of pointers, and searched only if ``everywhere`` is true.
        """
        start, size = self._relocations
        if size:
            return words_at(self, self._relocated(start, size), low, high)
        data = (
            (address, self.view.slice(position, size))
            for address, size, position, _ in self._data
            if position + size <= len(self.view) and (everywhere or not low <= address <= high)
        )
        return words_between(data, self.word, self.order, low, high)

    def _relocated(self, start: int, size: int) -> Iterator[int]:
        """Yield the addresses of the words that a loader relocates."""
        found = self._loaded.at(self._base + start)
        table = (
            self.view.slice(found.position, min(size, found.room)) if found.kind == INSIDE else self.view.slice(0, 0)
        )
        for page, entries in relocation_blocks(table):
            for address, type in block_relocations(page, entries):
                if type in _WHOLE_WORDS:
                    yield self._base + address
