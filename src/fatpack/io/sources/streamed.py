"""Bytes that come out of a decompressor piece by piece, of which only those read last are kept.

A compressed bundle inflates to tens or hundreds of megabytes, and what is wanted of it is its table, the headers of its
images in order, or all of it once: reading forwards costs one inflation and a window of memory, however large it is.
"""

from __future__ import annotations

from bisect import bisect_right

from fatpack.errors import BadValue, FormatError
from fatpack.io import limits
from fatpack.io.sources.inflated import Call, InflatedSource
from fatpack.parallel import read_ahead, thread_count

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fatpack.io.source import Source

#: LIMIT: how often a reader may go back out of the window, which inflates everything again; from then on all is kept.
_RETURNS = 1

#: Bytes kept of what is passed on in pieces: memory that is used again while it is in the cache is faster.
_PASSED = 2 << 20

#: Bytes inflated before the next ones are inflated ahead, in a thread: tables and headers are at the beginning.
_ALONE = 8 << 20

#: Pieces that are inflated ahead: 8 MB of those that zstd comes in.
_AHEAD = 64


def _joined(stream: Callable[[], Iterator[bytes]]) -> bytes:
    return b"".join(stream())


class StreamedSource(InflatedSource):
    """``size`` bytes that ``stream`` yields in pieces, each time it is called.

    Of what was read up to ``limits.INFLATED_KEPT`` bytes are kept, of what was passed on in pieces less. Going further
    back starts the stream again, the second time for good: no order of reads inflates more than three times. A damaged
    stream raises its error wherever bytes behind the damage are read. Not to be read by two threads at once.
    """

    is_streamed = True
    is_concurrent = False

    def __init__(
        self,
        size: int,
        stream: Callable[[], Iterator[bytes]],
        name: str = "",
        *,
        present: int,
        origin: Source | None = None,
    ) -> None:
        super().__init__(size, Call(_joined, stream), name, present=present, origin=origin)
        self._stream = stream
        self._failure: FormatError | None = None
        self._sound = size
        self._returns = 0
        self._forget()

    def __getstate__(self) -> dict[str, object]:
        """Return what starts the stream again; what is at hand of it stays behind."""
        state = super().__getstate__()
        return {name: value for name, value in state.items() if name not in ("_left", "_pieces", "_starts", "_end")}

    def __setstate__(self, state: dict[str, object]) -> None:
        vars(self).update(state)
        self._forget()

    def separate(self) -> StreamedSource:
        """Return a source of the same bytes that shares nothing with this one, for another thread."""
        return StreamedSource(self.size, self._stream, self.name, present=self.present)

    def _forget(self) -> None:
        self._left: Iterator[bytes] | None = None
        self._pieces: list[bytes] = []
        self._starts: list[int] = []
        self._end = 0

    def rest(self) -> None:
        """Let what was inflated go, and what was inflated from that."""
        super().rest()
        self._forget()

    def read(self, offset: int, size: int) -> bytes:
        """Return a copy of ``size`` inflated bytes at ``offset``."""
        parts = list(self._parts(offset, size))
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def pieces(self, offset: int, size: int) -> Iterator[memoryview]:
        """Yield the range in the pieces in which it was inflated."""
        end = offset + size
        while offset < end:
            self._reach(offset, offset + 1, min(limits.INFLATED_KEPT, _PASSED))
            number = bisect_right(self._starts, offset) - 1
            start = self._starts[number]
            part = memoryview(self._pieces[number])[offset - start : end - start]
            yield part
            offset += len(part)

    def once(self, offset: int, size: int) -> Iterator[memoryview]:
        """Yield the range in the pieces in which it was inflated: others will want what is behind it."""
        return self.pieces(offset, size)

    def once_size(self, offset: int, size: int) -> int:
        """Return the most that is kept."""
        return min(self.size, limits.INFLATED_KEPT)

    def _parts(self, offset: int, size: int) -> Iterator[bytes]:
        end = offset + size
        self._reach(offset, end, limits.INFLATED_KEPT)
        number = bisect_right(self._starts, offset) - 1
        while offset < end:
            start, piece = self._starts[number], self._pieces[number]
            yield piece[offset - start : end - start]
            offset = start + len(piece)
            number += 1

    def _reach(self, offset: int, end: int, kept: int) -> None:
        """Inflate until the bytes from ``offset`` to ``end`` are at hand; ``kept`` bytes before these stay there."""
        if self._failure is not None and end > self._sound:
            raise self._failure.with_traceback(None)
        if self._starts and offset < self._starts[0]:
            self._returns += 1
            self._forget()
        if end <= self._end:
            return
        if self._left is None:
            # Nothing, or the beginning, is at hand: what was read of it was let go.
            self._forget()
            self._left = self._started()
            if self._origin is not None:
                self._origin.keep(self)
        while self._end < end:
            piece = self._next()
            self._starts.append(self._end)
            self._pieces.append(piece)
            self._end += len(piece)
            if self._returns <= _RETURNS:
                self._drop(offset, kept)
        if self._end == self.size:
            # What checks the stream, a checksum or the end of its last frame, may come behind the last byte.
            self._next(is_end=True)

    def _started(self) -> Iterator[bytes]:
        """Yield the pieces of the stream; while one is used the next are inflated, where there is a core for it."""
        stream = self._stream()
        if self._origin is None or not self._origin.is_concurrent or thread_count() < 2:
            yield from stream
            return
        size = 0
        for piece in stream:
            yield piece
            size += len(piece)
            if size >= _ALONE:
                yield from read_ahead(stream, _AHEAD)

    def _next(self, *, is_end: bool = False) -> bytes:
        """Return the next piece. Raises what the stream does, and BadValue for a stream of another size."""
        assert self._left is not None
        try:
            piece = next((piece for piece in self._left if piece), b"")
            if self._end + len(piece) > self.size or (not piece and not is_end):
                found = f"more than {self.size}" if piece else str(self._end)
                raise BadValue("inflated size differs", expected=str(self.size), found=found, chain=(self.name,))
        except FormatError as error:
            # Not inflated up to here again by everybody who asks for what is behind.
            self._failure, self._sound = error, self._end - is_end
            raise
        return piece

    def _drop(self, offset: int, kept: int) -> None:
        """Let pieces go that lie before ``offset`` and further back than ``kept`` bytes."""
        count = 0
        while (
            count + 1 < len(self._starts)
            and self._starts[count + 1] <= offset
            and self._end - self._starts[count] > kept
        ):
            count += 1
        del self._starts[:count], self._pieces[:count]
