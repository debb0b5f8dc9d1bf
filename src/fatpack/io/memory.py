"""Bytes in memory as a source."""

from __future__ import annotations

from fatpack.io.source import Source

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from typing_extensions import Buffer


class BytesSource(Source):
    """A buffer in memory; nothing is copied until ``read``."""

    is_concurrent = True

    def __init__(self, data: Buffer, name: str = "", *, present: int | None = None) -> None:
        self.name = name
        self._data = memoryview(data).cast("B")
        self.size = len(self._data)
        self.present = self.size if present is None else present

    def __getstate__(self) -> dict[str, object]:
        """Return the bytes, too: a view of a buffer cannot be pickled."""
        return super().__getstate__() | {"_data": self._data.tobytes()}

    def __setstate__(self, state: dict[str, object]) -> None:
        vars(self).update(state)
        self._data = memoryview(self._data)

    def read(self, offset: int, size: int) -> bytes:
        """Return a copy of ``size`` bytes at ``offset``."""
        return bytes(self._data[offset : offset + size])

    def buffer(self, offset: int, size: int) -> memoryview:
        """Return a range of the buffer itself, which cannot be written to."""
        return self._data[offset : offset + size].toreadonly()

    def pieces(self, offset: int, size: int) -> Iterator[memoryview]:
        """Yield the range as one view, without copying."""
        if size:
            yield self._data[offset : offset + size]
