"""A range of a package as a file of its own: offsets count from its first byte, and nothing is copied."""

from __future__ import annotations

from fatpack.packages.content import MemberSource

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.io.source import View


class SubRangeSource(MemberSource):
    """The bytes of a view as a source. Closing it leaves the package open, which has to be while this is read."""

    def __init__(self, view: View, name: str) -> None:
        self.name = name
        self.size = self.present = len(view)
        self.budget = view.source.budget
        self._origin = view.source
        self._start = view.start

    @property
    def is_concurrent(self) -> bool:  # type: ignore[override]  # it is what the package is
        """Whether several threads may read at once: where they may read the package."""
        return self._origin.is_concurrent

    @property
    def is_streamed(self) -> bool:  # type: ignore[override]
        """Whether reading inflates what lies before the bytes, too."""
        return self._origin.is_streamed

    def check(self) -> None:
        """Do what the package does, which may be a file in another one."""
        self._origin.check()

    def read(self, offset: int, size: int) -> bytes:
        """Return ``size`` bytes at ``offset``."""
        return self._origin.read(self._start + offset, size)

    def pieces(self, offset: int, size: int) -> Iterator[memoryview]:
        """Yield the range as the package does."""
        return self._origin.pieces(self._start + offset, size)

    def once(self, offset: int, size: int) -> Iterator[memoryview]:
        """Yield the range as the package does for a reader that does not come back."""
        return self._origin.once(self._start + offset, size)

    def once_size(self, offset: int, size: int) -> int:
        """Return how many bytes of memory :meth:`once` may take."""
        return self._origin.once_size(self._start + offset, size)

    def find(self, needle: bytes, start: int, end: int) -> int:
        """Return the first offset at or after ``start`` where ``needle`` lies wholly before ``end``, or -1."""
        found = self._origin.find(needle, self._start + start, self._start + end)
        return found - self._start if found >= 0 else -1

    def skip_hole(self, start: int, end: int) -> int:
        """Return the first offset from ``start`` on that may hold something else than zeros, at most ``end``."""
        return self._origin.skip_hole(self._start + start, self._start + end) - self._start

    def skip_zeros(self, start: int, end: int) -> int:
        """Return the first offset from ``start`` on that holds something else than zero, at most ``end``."""
        return self._origin.skip_zeros(self._start + start, self._start + end) - self._start
