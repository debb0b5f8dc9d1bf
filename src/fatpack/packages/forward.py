"""Bytes that come from a stream and are taken forwards: what is passed is gone."""

from __future__ import annotations

from fatpack.errors import FatpackError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


class ForwardStream:
    """The bytes that ``pieces`` yields. ``at`` is how many were taken or passed."""

    def __init__(self, pieces: Iterator[bytes | memoryview]) -> None:
        self._pieces = pieces
        self._piece: bytes | memoryview = b""
        self._failure: FatpackError | None = None
        self.at = 0

    def take(self, most: int) -> bytes | memoryview:
        """Return up to ``most`` next bytes, none at the end. Raises what the stream does."""
        piece = self._piece
        if self._failure is not None:
            raise self._failure.with_traceback(None)
        while not piece:
            try:
                following = next(self._pieces, None)
            except FatpackError as error:
                self._failure = error  # a generator that raised has ended, and says no more
                raise
            if following is None:
                return b""
            piece = memoryview(following)
        self._piece = piece[most:]
        piece = piece[:most]
        self.at += len(piece)
        return piece

    def read(self, size: int) -> bytes:
        """Return the next ``size`` bytes, fewer at the end."""
        parts, left = [], size
        while left and (piece := self.take(left)):
            parts.append(bytes(piece))  # the memory may be used again for the next
            left -= len(piece)
        return b"".join(parts)

    def skip_to(self, place: int) -> None:
        """Pass over bytes until ``at`` is ``place``, or the end comes."""
        while self.at < place and self.take(place - self.at):
            pass

    def pieces(self, size: int) -> Iterator[bytes | memoryview]:
        """Yield the next ``size`` bytes in pieces, fewer at the end."""
        while size and (piece := self.take(size)):
            size -= len(piece)
            yield piece
