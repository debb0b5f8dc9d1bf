"""Relocations of a section of an object, in the order of their places, whatever format has them."""

from __future__ import annotations

from bisect import bisect_left

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TypeAlias

    Relocation: TypeAlias = tuple[int, str, int, int | None]
    """Offset of the place, what it makes, address of the symbol, and the addend (None: it is in place)."""

#: an address as such; relative to the place; a call; the low bits of an address, whose page comes before; the slot of
#: the GOT that holds an address
POINTER, RELATIVE, CALL, PAGE_OFFSET, GOT = "pointer", "relative", "call", "page offset", "got"


class ObjectRelocations:
    """The relocations of one section: ``rows`` and their ``places``, in order."""

    __slots__ = ("places", "rows")

    def __init__(self, rows: list[Relocation]) -> None:
        rows.sort(key=lambda row: row[0])
        self.rows = rows
        self.places = [row[0] for row in rows]

    def between(self, start: int, end: int) -> Sequence[Relocation]:
        """Return those whose places lie in a half-open range."""
        return self.rows[bisect_left(self.places, start) : bisect_left(self.places, end)]
