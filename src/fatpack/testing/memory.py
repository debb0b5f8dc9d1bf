"""Memory that Python allocates while something is read: no number in a file may make it more than its bytes explain."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Self


class TracedMemory:
    """Memory that is allocated in this block: ``peak`` is the most there was of it at once, in bytes."""

    def __init__(self) -> None:
        self._peak: int | None = None

    @property
    def peak(self) -> int:
        """The most so far, or in the whole block once that has ended."""
        return tracemalloc.get_traced_memory()[1] if self._peak is None else self._peak

    def __enter__(self) -> Self:
        tracemalloc.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._peak = self.peak
        tracemalloc.stop()


def assert_memory_within(
    data: bytes, cases: Iterable[tuple[int, int]], use: Callable[[bytes], object], what: str
) -> None:
    """Hold that ``use`` allocates nothing for a number, which messages call ``what``.

    ``cases`` are positions and what is put there in eight bytes.
    """
    use(data)  # imports and caches are not the file's fault
    with TracedMemory() as memory:
        for start, value in cases:
            use(data[:start] + value.to_bytes(8, "little") + data[start + 8 :])
    most = (8 << 20) + 64 * len(data)
    assert memory.peak < most, (
        f"a number in the file made {what} allocate {memory.peak} bytes, at most {most} are allowed: "
        f"compare each size with the bytes that are there before anything is read or allocated"
    )
