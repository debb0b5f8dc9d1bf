"""Files of which a package stores only the parts that are not zero."""

from __future__ import annotations

from bisect import bisect_right

from fatpack import limits
from fatpack.packages.content import MemberSource

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fatpack.io.source import Source

#: Zeros that are handed out for holes.
_ZEROS = bytes(64 << 10)


class SparseMember(MemberSource):
    """``size`` bytes: zeros, but for ``parts`` of them, each (offset, size), which ``stored`` has one after the other.

    The parts are in order and do not overlap. ``stored`` is closed with this.
    """

    def __init__(self, stored: Source, parts: Sequence[tuple[int, int]], size: int, name: str) -> None:
        self.name = name
        self.size = size
        self.present = stored.present
        self.budget = stored.budget
        self._stored = stored
        self._starts = [start for start, _ in parts]
        self._sizes = [length for _, length in parts]
        self._places = []
        place = 0
        for length in self._sizes:
            self._places.append(place)
            place += length

    @property
    def is_concurrent(self) -> bool:  # type: ignore[override]
        """Whether several threads may read at once."""
        return self._stored.is_concurrent

    def check(self) -> None:
        """Check what is stored of it. Raises FormatError."""
        self._stored.check()

    def read(self, offset: int, size: int) -> bytes:
        """Return ``size`` bytes at ``offset``."""
        return b"".join(self.pieces(offset, size))

    def pieces(self, offset: int, size: int) -> Iterator[memoryview]:
        """Yield the range in the pieces it is stored in, with zeros between them."""
        end = offset + size
        while offset < end:
            start, stop, place = self._part(offset)
            stop = min(stop, end)
            if place is None:
                while offset < stop:
                    part = memoryview(_ZEROS)[: stop - offset]
                    yield part
                    offset += len(part)
            else:
                yield from self._stored.pieces(place + offset - start, stop - offset)
                offset = stop

    def skip_hole(self, start: int, end: int) -> int:
        """Return the first offset from ``start`` on that may hold something else than zeros, at most ``end``."""
        while start < end:
            _, stop, place = self._part(start)
            if place is not None:
                break
            start = stop
        return min(start, end)

    def _part(self, offset: int) -> tuple[int, int, int | None]:
        """Return where the part or the hole around an offset starts and ends, and where it is stored, if it is."""
        number = bisect_right(self._starts, offset) - 1
        start = 0
        if number >= 0:
            start = self._starts[number] + self._sizes[number]
            if offset < start:
                return self._starts[number], start, self._places[number]
        stop = self._starts[number + 1] if number + 1 < len(self._starts) else self.size
        return start, stop, None

    def close(self) -> None:
        """Close what the parts are in."""
        super().close()
        self._stored.close()


def are_parts_sound(parts: Sequence[tuple[int, int]], size: int, stored: int) -> bool:
    """Return whether parts are in order, lie in ``size`` bytes, and are ``stored`` bytes together."""
    end = total = 0
    for start, length in parts:
        if length < 0 or start < end or start + length > size:
            return False
        end = start + length
        total += length
    return total == stored and len(parts) <= limits.SECTIONS
