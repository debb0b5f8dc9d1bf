"""A section of device code laid down again: smaller containers, one behind the other from its start.

::

    before   │container A│ 0 │container B     │container C│
    after    │A   │container B │C    │ freed

Each lies where its alignment allows. One that must not move stays at its address, and so do bytes between containers
that are not zero: nobody knows who looks for them.
"""

from __future__ import annotations

from fatpack.binary.shrink import ContainerMove
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from fatpack.io.source import Piece, View


class PlacedContainer(Record):
    """A container of a section: where it is, from the section's start, and the bytes that take its place.

    ``align`` is what its address is a multiple of; one that ``is_fixed`` keeps its address.
    """

    start: int
    end: int
    pieces: Sequence[Piece]
    align: int
    is_fixed: bool = False

    @property
    def size(self) -> int:
        """The bytes that it has now."""
        return sum(map(len, self.pieces))


class CompactedSection(Record):
    """The new bytes of a section, and the containers that moved or shrank.

    ``strays`` are the ranges between containers that are not zero and stayed, from the section's start.
    """

    pieces: Sequence[Piece]
    moves: Sequence[ContainerMove]
    strays: Sequence[tuple[int, int]]

    @property
    def size(self) -> int:
        """The bytes up to which the section is used."""
        return sum(map(len, self.pieces))


def compact_section(section: View, address: int, blocks: Sequence[PlacedContainer]) -> CompactedSection:
    """Return a section with its containers laid down again. ``address`` is the section's at run time.

    Blocks are in order and do not overlap, and none has more bytes than its place has. Nothing comes to a higher
    address than it had.
    """
    pieces: list[Piece] = []
    moves: list[ContainerMove] = []
    strays: list[tuple[int, int]] = []
    used = at = 0

    def put(start: int, new: Sequence[Piece]) -> None:
        nonlocal used
        if start > used:
            pieces.append(bytes(start - used))
        pieces.extend(new)
        used = start + sum(map(len, new))

    for block in blocks:
        for start, end in _strays(section, at, block.start):
            put(start, [section.slice(start, end - start)])
            strays.append((start, end))
        place = block.start
        if not block.is_fixed:
            place = min(place, -(-(address + used) // block.align) * block.align - address)
        put(place, block.pieces)
        if place != block.start or block.size != block.end - block.start:
            old_size, new_size = block.end - block.start, block.size
            moves.append(ContainerMove(address + block.start, old_size, address + place, new_size))
        at = block.end
    for start, end in _strays(section, at, len(section)):
        put(start, [section.slice(start, end - start)])
        strays.append((start, end))
    return CompactedSection(pieces, moves, strays)


def _strays(section: View, start: int, end: int) -> list[tuple[int, int]]:
    """Return what stays of the bytes between two containers: from the first that is not zero to the last."""
    if section.is_zero(start, end - start):
        return []
    first = section.skip_zeros(start)
    # Zeros at its end are padding of whatever it is.
    last = end
    while last > first and section.is_zero(last - 1, 1):
        step = 1
        while last - 2 * step > first and section.is_zero(last - 2 * step, 2 * step):
            step *= 2
        last -= step
    return [(first, last)]
