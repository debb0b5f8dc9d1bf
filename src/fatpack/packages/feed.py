"""Bytes of a view, taken forwards in pieces as decompressors want them: few at first, and some can be given back."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.io.source import View

#: Bytes that are read at first, and cut off what is read later: who looks at a beginning reads little.
_FIRST, _STEP = 16 << 10, 64 << 10


_NOTHING = memoryview(b"")


class InputBuffer:
    """The bytes of ``data`` from its start on. ``at`` is the position behind what was taken and not given back."""

    def __init__(self, data: View) -> None:
        self._data = data
        #: bytes that were read, where the next of them are, and the position behind all of them
        self._block = memoryview(b"")
        self._next = 0
        self._given = 0
        self._pieces: Iterator[memoryview] | None = None

    @property
    def at(self) -> int:
        """The position of the next byte."""
        return self._given - len(self._block) + self._next

    @property
    def is_over(self) -> bool:
        """Whether nothing is left."""
        return self.at >= len(self._data)

    def take(self, most: int = _STEP) -> memoryview:
        """Return up to ``most`` next bytes; none at the end."""
        if self._next >= len(self._block):
            self._block, self._next = self._read(), 0
        piece = self._block[self._next : self._next + most]
        self._next += len(piece)
        return piece

    def _read(self) -> memoryview:
        """Return the next block, which stays as it is: the memory that pieces are read into is used again."""
        if self._pieces is None:
            self._pieces = self._cut(self._given)
        piece = next(self._pieces, _NOTHING)
        self._given += len(piece)
        return piece if isinstance(piece.obj, bytes) else memoryview(bytes(piece))

    def _cut(self, start: int) -> Iterator[memoryview]:
        first = self._data.head(start, _FIRST)
        yield memoryview(first)
        start += len(first)
        if start < len(self._data):
            for piece in self._data.slice(start, len(self._data) - start).once():
                for at in range(0, len(piece), _STEP):
                    yield piece[at : at + _STEP]

    def give_back(self, size: int) -> None:
        """Take back the last ``size`` bytes of what was taken last."""
        self._next -= size

    def exactly(self, size: int) -> bytes:
        """Return the next ``size`` bytes, fewer at the end; they are few."""
        parts, left = [], size
        while left and (piece := self.take(left)):
            parts.append(piece)
            left -= len(piece)
        return b"".join(parts)

    def peek(self, size: int) -> bytes:
        """Return the next ``size`` bytes, fewer at the end, and leave them there."""
        while len(self._block) - self._next < size and (more := self._read()):
            self._block, self._next = memoryview(bytes(self._block[self._next :]) + bytes(more)), 0
        return bytes(self._block[self._next : self._next + size])

    def skip(self, size: int) -> None:
        """Pass over bytes, as far as there are some."""
        if size <= len(self._block) - self._next:
            self._next += size
            return
        self._given = min(self.at + size, len(self._data))
        self._block, self._next, self._pieces = _NOTHING, 0, None

    def starts_with(self, magic: bytes, *, behind_zeros: bool = False) -> bool:
        """Return whether these bytes come next; zeros before them are passed over if that is asked for."""
        if behind_zeros:
            start = self._data.skip_zeros(self.at)
            if self._data.head(start, len(magic)) != magic:
                return False
            self.skip(start - self.at)
        return self.peek(len(magic)) == magic
