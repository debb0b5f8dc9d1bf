"""A bounded window over a stream of decompressed pieces, which keeps the bytes that were read last.

Reading forwards inflates everything once. A read before the window starts the stream again; after the second such
return everything that follows is kept: in memory if it is little, else in an unnamed temporary file.
"""

from __future__ import annotations

from _thread import allocate_lock
from bisect import bisect_right

from fatpack import limits
from fatpack.concurrency import system
from fatpack.concurrency.threads import read_ahead, thread_count
from fatpack.errors import BadValue, FormatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator
    from typing import BinaryIO, TypeAlias

    from fatpack.io.source import Source

    PieceFactory: TypeAlias = bytes | bytearray | memoryview

#: LIMIT: how often a reader may go back before the window, which inflates everything again; after that, all is kept.
_RETURNS = 1

#: Bytes kept of pieces that :meth:`InflatedWindow.pieces` yields: memory is reused while it is in the CPU cache.
_PASSED = 2 << 20

#: Bytes that are inflated before a thread starts to read ahead: tables and headers are at the beginning.
_ALONE = 8 << 20

#: Pieces that are inflated ahead: 8 MB with the pieces of zstd.
_AHEAD = 64


class InflatedWindow:
    """``size`` bytes that ``stream`` yields in pieces each time it is called, and a window of them.

    Up to ``limits.INFLATED_KEPT`` bytes are kept by :meth:`read`, and fewer by :meth:`pieces`. No order of reads
    inflates more than three times. A damaged stream raises its error on every read after the damage. ``origin`` is the
    source of the compressed bytes. Threads that read wait for each other: the lock is held while the stream is read,
    which takes locks of the stream's own sources and none of sources that are made from this one.
    """

    def __init__(
        self, size: int, stream: Callable[[], Iterator[PieceFactory]], name: str, origin: Source | None
    ) -> None:
        self._size = size
        self._stream = stream
        self._name = name
        self._origin = origin
        self._failure: FormatError | None = None
        self._sound = size
        self._returns = 0
        self._lock = allocate_lock()
        self.forget()

    def __getstate__(self) -> dict[str, object]:
        """Return the state that starts the stream again, without the window."""
        fleeting = ("_generator", "_pieces", "_starts", "_end", "_spool", "_lock")
        return {name: value for name, value in vars(self).items() if name not in fleeting}

    def __setstate__(self, state: dict[str, object]) -> None:
        vars(self).update(state)
        self._lock = allocate_lock()
        self.forget()

    @property
    def is_empty(self) -> bool:
        """True if the window is empty."""
        return self._generator is None

    def release_buffers(self) -> None:
        """Empty the window, unless another thread is reading from it."""
        if self._lock.acquire(False):
            try:
                left = self._generator
                self.forget()
            finally:
                self._lock.release()
            if left is not None:
                left.close()  # without the lock: this waits for the thread that reads ahead

    def forget(self) -> None:
        """Empty the window."""
        self._generator: Generator[PieceFactory] | None = None
        self._pieces: list[PieceFactory] = []
        self._starts: list[int] = []
        self._end = 0
        self._spool: BinaryIO | None = None

    def read(self, offset: int, size: int) -> bytes:
        """Return a copy of ``size`` bytes at ``offset``."""
        with self._lock:
            self._reach(offset, offset + size, limits.INFLATED_KEPT)
            if self._spool is not None:
                return system.read_at(self._spool.fileno(), size, offset)
            parts = list(self._parts(offset, size))
        return bytes(parts[0]) if len(parts) == 1 else b"".join(parts)

    def pieces(self, offset: int, size: int) -> Iterator[memoryview]:
        """Yield the range in the pieces in which it was inflated."""
        end = offset + size
        while offset < end:
            with self._lock:
                self._reach(offset, offset + 1, min(limits.INFLATED_KEPT, _PASSED))
                if self._spool is not None:
                    found = min(self._end, end, offset + limits.CHUNK) - offset
                    part = memoryview(system.read_at(self._spool.fileno(), found, offset))
                else:
                    number = bisect_right(self._starts, offset) - 1
                    start = self._starts[number]
                    part = memoryview(self._pieces[number])[offset - start : end - start]
            yield part
            offset += len(part)

    def _parts(self, offset: int, size: int) -> Iterator[PieceFactory]:
        end = offset + size
        number = bisect_right(self._starts, offset) - 1
        while offset < end:
            start, piece = self._starts[number], self._pieces[number]
            yield piece[offset - start : end - start]
            offset = start + len(piece)
            number += 1

    def _reach(self, offset: int, end: int, kept: int) -> None:
        """Inflate until the window holds ``offset`` to ``end``; keep up to ``kept`` bytes before them."""
        if self._failure is not None and end > self._sound:
            raise self._failure.with_traceback(None)
        if self._starts and offset < self._starts[0]:
            self._returns += 1
            self.forget()
        if end <= self._end:
            return
        if self._generator is None:
            # The stream is not open: start it again.
            self.forget()
            self._generator = self._started()
            if self._returns > _RETURNS and self._size > limits.INFLATED_KEPT:
                self._spool = _temporary()
        while self._end < end:
            piece = self._next()
            if self._spool is not None:
                self._spool.write(piece)
            else:
                self._starts.append(self._end)
                self._pieces.append(piece)
            self._end += len(piece)
            if self._returns <= _RETURNS:
                self._drop(offset, kept)
        if self._end == self._size:
            # A checksum or the end of the last frame may follow the last byte.
            self._next(is_end=True)

    def _started(self) -> Generator[PieceFactory]:
        """Yield the pieces of the stream; a thread inflates the next ones meanwhile if there is a second core."""
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

    def _next(self, *, is_end: bool = False) -> PieceFactory:
        """Return the next piece. Raises the errors of the stream, and BadValue if its size is wrong."""
        assert self._generator is not None
        try:
            piece = next((piece for piece in self._generator if piece), b"")
            if self._end + len(piece) > self._size or (not piece and not is_end):
                found = f"more than {self._size}" if piece else str(self._end)
                raise other_size(self._size, found, self._name)
        except FormatError as error:
            # Remembered, so that later reads after the damage do not inflate everything up to it again.
            self._failure, self._sound = error, self._end - is_end
            raise
        return piece

    def _drop(self, offset: int, kept: int) -> None:
        """Drop pieces before ``offset`` that are more than ``kept`` bytes before the end of the window."""
        count = 0
        while (
            count + 1 < len(self._starts)
            and self._starts[count + 1] <= offset
            and self._end - self._starts[count] > kept
        ):
            count += 1
        del self._starts[:count], self._pieces[:count]


def other_size(size: int, found: str, name: str) -> BadValue:
    """Return the error for a stream whose size differs from the size that its container states."""
    return BadValue("inflated size differs", expected=str(size), found=found, chain=(name,))


def _temporary() -> BinaryIO:
    """Return an unnamed, unbuffered temporary file."""
    import tempfile

    return tempfile.TemporaryFile(buffering=0)
