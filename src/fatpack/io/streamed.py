"""Bytes that come out of a decompressor piece by piece, of which only those read last are kept.

A compressed bundle inflates to tens or hundreds of megabytes, and what is wanted of it is its table, the headers of its
images in order, or all of it once: reading forwards costs one inflation and a window of memory, however large it is.
"""

from __future__ import annotations

from fatpack import limits
from fatpack.io.inflated import InflatedSource, PicklableCall

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fatpack.io.source import Source


def _joined(stream: Callable[[], Iterator[bytes]]) -> bytes:
    return b"".join(stream())


class StreamedSource(InflatedSource):
    """``size`` bytes that ``stream`` yields in pieces, each time it is called, read through a window of them.

    Whoever reads a part goes on where the last reader stopped (:class:`fatpack.io.inflated_buffer.InflatedWindow`),
    also to pass everything on. Threads that read at once wait for each other: they are better given a :meth:`separate`
    one each.
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
        super().__init__(size, PicklableCall(_joined, stream), name, present=present, origin=origin, stream=stream)
        self._stream = stream

    @property
    def _is_windowed(self) -> bool:
        return True

    def separate(self) -> StreamedSource:
        """Return a source of the same bytes that shares nothing with this one, for another thread."""
        other = StreamedSource(self.size, self._stream, self.name, present=self.present)
        other.budget = self.budget
        return other

    def once(self, offset: int, size: int) -> Iterator[memoryview]:
        """Yield the range in the pieces in which it was inflated: others will want what is behind it."""
        return self.pieces(offset, size)

    def once_size(self, offset: int, size: int) -> int:
        """Return the most that is kept."""
        return min(self.size, limits.INFLATED_KEPT)
