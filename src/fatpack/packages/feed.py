"""Bytes of a view, taken forwards in pieces as decompressors want them: few at first, and some can be given back."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.io.source import View

#: Bytes that are read at first, and cut off what is read later: who looks at a beginning reads little.
_FIRST, _STEP = 16 << 10, 64 << 10


class Feed:
    """The bytes of ``data`` from its start on. ``at`` is the position behind what was taken and not given back."""

    def __init__(self, data: View) -> None:
        self._data = data
        #: what is next of the bytes that were read, and the position behind them
        self._back: bytes | memoryview = b""
        self._given = 0
        self._pieces: Iterator[memoryview] | None = None

    @property
    def at(self) -> int:
        """The position of the next byte."""
        return self._given - len(self._back)

    @property
    def is_over(self) -> bool:
        """Whether nothing is left."""
        return self.at >= len(self._data)

    def take(self, most: int = _STEP) -> bytes | memoryview:
        """Return up to ``most`` next bytes, valid until the next are asked for; none at the end."""
        piece = self._back
        if piece:
            self._back = b""
        else:
            if self._pieces is None:
                self._pieces = self._cut(self._given)
            piece = next(self._pieces, b"")
            self._given += len(piece)
        if len(piece) > most:
            # Copied once: the memory that it was read into is used again, and what is left may be cut many times.
            whole = (
                piece if isinstance(piece, memoryview) and isinstance(piece.obj, bytes) else memoryview(bytes(piece))
            )
            self._back, piece = whole[most:], whole[:most]
        return piece

    def _cut(self, start: int) -> Iterator[memoryview]:
        first = self._data.head(start, _FIRST)
        yield memoryview(first)
        start += len(first)
        if start < len(self._data):
            for piece in self._data.slice(start, len(self._data) - start).once():
                for at in range(0, len(piece), _STEP):
                    yield piece[at : at + _STEP]

    def give_back(self, rest: bytes) -> None:
        """Take back the last bytes of what was taken."""
        if rest:
            self._back = rest + bytes(self._back) if self._back else memoryview(rest)

    def exactly(self, size: int) -> bytes:
        """Return the next ``size`` bytes, fewer at the end; they are few."""
        parts, left = [], size
        while left and (piece := self.take(left)):
            parts.append(bytes(piece))
            left -= len(piece)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def peek(self, size: int) -> bytes:
        """Return the next ``size`` bytes, fewer at the end, and leave them there."""
        if len(self._back) >= size:
            return bytes(self._back[:size])
        found = self.exactly(size)
        self.give_back(found)
        return found

    def skip(self, size: int) -> None:
        """Pass over bytes, as far as there are some."""
        if size <= len(self._back):
            self._back = memoryview(self._back)[size:]
            return
        self._given = min(self.at + size, len(self._data))
        self._back, self._pieces = b"", None

    def starts_with(self, magic: bytes, *, behind_zeros: bool = False) -> bool:
        """Return whether these bytes come next; zeros before them are passed over if that is asked for."""
        if behind_zeros:
            start = self._data.skip_zeros(self.at)
            if self._data.head(start, len(magic)) != magic:
                return False
            self.skip(start - self.at)
        return self.peek(len(magic)) == magic
