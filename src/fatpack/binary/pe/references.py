"""What in a PE image refers to device code: pointers, symbols, exports and base relocations.

Pointers are addresses in place, with the image's base; a base relocation says where the loader must correct one, and
stays as it is.
"""

from __future__ import annotations

import struct
import sys
from array import array
from bisect import bisect_right

from fatpack.binary.pe.read import SYMBOL_SIZE
from fatpack.binary.pe.shrinker import BASE_RELOCATIONS, EXPORTS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from fatpack.binary.pe.shrinker import ChangedPeSection, LinkedPeImage
    from fatpack.binary.shrink import ContainerMove

_AGAIN = "link the program again without the device code that should go"

#: A symbol: name, value, number of its section, type, class, number of records that belong to it and follow.
_SYMBOL = struct.Struct("<8sIhHBB")
_VALUE_AT = 8

#: Records, and words, that are read at a time.
_ROWS = 1 << 14

#: Export directory: number of functions, and the address of the table of their addresses.
_FUNCTION_COUNT_AT, _FUNCTIONS_AT = 20, 28

#: A block of base relocations: the page, and the bytes of the block with this header; then 16 bits for each.
_BLOCK = struct.Struct("<II")


def pointer_patches(
    image: LinkedPeImage, changed: Sequence[ChangedPeSection], pointers: Mapping[int, int]
) -> Iterator[tuple[int, bytes]]:
    """Yield position and bytes of pointers that get other values. Raises HostError."""
    word, base = image.word, image.base
    inside = _Ranges(changed)
    for place, value in pointers.items():
        position = image.position_of(place - base, word)
        if position < 0:
            raise image.refusal(f"the file holds no bytes of a pointer at address {place:#x}", _AGAIN)
        if inside.number(place - base) >= 0 or inside.number(place - base + word - 1) >= 0:
            raise image.refusal(f"the pointer at address {place:#x} lies in the device code that changes", _AGAIN)
        if not base <= value < 1 << 8 * word:
            raise image.refusal(f"a pointer would hold {value:#x}, which is no address of the image", _AGAIN)
        if not any(image.view.read(position, word)):
            raise image.refusal(f"there is no pointer at address {place:#x}: its bytes are zero", _AGAIN)
        yield position, value.to_bytes(word, "little")


class _Ranges:
    """The addresses of the sections that change."""

    def __init__(self, changed: Sequence[ChangedPeSection]) -> None:
        self._ordered = sorted(changed, key=lambda each: each.start_address)
        self._starts = [each.start_address for each in self._ordered]

    def number(self, address: int) -> int:
        """Return the number of the section that an address lies in, -1 if it is none of these."""
        number = bisect_right(self._starts, address) - 1
        if number < 0 or address >= self._ordered[number].end_address:
            return -1
        return self._ordered[number].section.number

    def between(self, start: int, end: int) -> bool:
        """Return whether one of the sections has an address in a range."""
        number = bisect_right(self._starts, end - 1) - 1
        return number >= 0 and self._ordered[number].end_address > start


def check_relocations(image: LinkedPeImage, changed: Sequence[ChangedPeSection]) -> None:
    """Raise HostError if a base relocation changes bytes of a section that gets others."""
    address, size = image.directory(BASE_RELOCATIONS)
    start = image.position_of(address, size) if size else -1
    if start < 0:
        return
    inside = _Ranges(changed)
    at, end = start, start + size
    while at + _BLOCK.size <= end:
        page, length = _BLOCK.unpack(image.view.read(at, _BLOCK.size))
        if length < _BLOCK.size or at + length > end:
            break
        # A relocation changes 8 bytes at most, and its place in the page takes 12 bits.
        if inside.between(page, page + 4096 + 8):
            entries = image.view.read(at + _BLOCK.size, (length - _BLOCK.size) // 2 * 2)
            for (entry,) in struct.iter_unpack("<H", entries):
                place = page + (entry & 0xFFF)
                if entry >> 12 and max(inside.number(place), inside.number(place + 7)) >= 0:
                    raise image.refusal(
                        f"a base relocation changes bytes at address {image.base + place:#x}, in the device code: its "
                        "contents depend on where it is loaded",
                        _AGAIN,
                    )
        at += length


def check_exports(image: LinkedPeImage, moves: Sequence[ContainerMove]) -> None:
    """Raise HostError if a container that moves is exported: other files know its address."""
    moved = {move.old - image.base for move in moves if move.old != move.new}
    address, size = image.directory(EXPORTS)
    start = image.position_of(address, _FUNCTIONS_AT + 4) if size and moved else -1
    if start < 0:
        return
    count, table = (
        int.from_bytes(image.view.read(start + at, 4), "little") for at in (_FUNCTION_COUNT_AT, _FUNCTIONS_AT)
    )
    at = image.position_of(table, 4 * count)
    for first in range(0, count if at >= 0 else 0, _ROWS):
        words = array("I", image.view.read(at + 4 * first, 4 * min(_ROWS, count - first)))
        if sys.byteorder == "big":
            words.byteswap()
        if not moved.isdisjoint(words):
            number = first + next(place for place, word in enumerate(words) if word in moved)
            raise image.refusal(
                f"the container that function {number} of the exports leads to would move",
                "leave the container where it is, or link without exporting it",
            )


def symbol_patches(
    image: LinkedPeImage, changed: Sequence[ChangedPeSection], moves: Sequence[ContainerMove]
) -> Iterator[tuple[int, bytes]]:
    """Yield position and bytes of the values of symbols that stand for containers with other addresses."""
    moved = {move.old - image.base: move.new - image.base for move in moves if move.old != move.new}
    starts = {each.section.number: each.start_address for each in changed}
    if not moved or not image.symbol_offset:
        return
    skipped = 0
    for first in range(0, image.symbol_count, _ROWS):
        at = image.symbol_offset + first * SYMBOL_SIZE
        rows = image.view.read(at, min(_ROWS, image.symbol_count - first) * SYMBOL_SIZE)
        for number, (_, value, section, _, _, following) in enumerate(_SYMBOL.iter_unpack(rows)):
            if skipped:
                skipped -= 1
                continue
            skipped = following
            address = starts.get(section, -1) + value
            if section in starts and address in moved:
                new = moved[address] - starts[section]
                yield at + number * SYMBOL_SIZE + _VALUE_AT, new.to_bytes(4, "little")
