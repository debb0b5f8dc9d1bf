"""The places at which the laws damage a file: known fields, and a sample of all other bytes.

A reader depends on the values of fields, so damage to each of them is tried; of the many bytes that are only copied,
compared or decompressed, some are enough. The slow laws try every byte, or many more of them; a quick run takes
:func:`sample` places of each file, others in every file.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterable
from zlib import crc32

from fatpack.io.source import BytesSource, View
from fatpack.model import Image, Label, Target

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Self

    from fatpack.io.source import Piece


#: Longer fields are strings and hashes: one of their bytes represents all.
NUMBER = 8

#: Sizes that no file has: negative as signed numbers, and too large for eight bytes or for four.
HUGE = (2**63, 2**40, 2**32 - 1)


def damage_places(labels: Iterable[Label], others: int) -> list[int]:
    """Return each byte of every number with a label, and up to ``others`` of the rest."""
    numbers, rest = _parted(labels)
    return sorted([at for start, end in numbers for at in range(start, end)] + _spread(rest, others, 0))


def number_ends(labels: Iterable[Label], others: int, *, last: bool) -> list[int]:
    """Return the first byte of every number, or the last one, and up to ``others`` bytes of the rest."""
    numbers, rest = _parted(labels)
    return sorted([end - 1 if last else start for start, end in numbers] + _spread(rest, others, 0.5 * last))


def number_starts(labels: Iterable[Label], size: int, others: int) -> list[int]:
    """Return the positions of numbers that may be sizes, and up to ``others`` places of the rest.

    Eight bytes fit into each place of a file of ``size`` bytes.
    """
    numbers, rest = _parted(labels)
    wide = [start for start, end in numbers if end - start >= 4]
    return sorted(at for at in wide + _spread(rest, others, 0) if at + 8 <= size)


def sample(places: list[int], count: int, name: str) -> list[int]:
    """Return at most ``count`` of the places, at equal distances; the name of the file determines the first."""
    return _spread(places, count, crc32(name.encode()) / (1 << 32))


def _parted(labels: Iterable[Label]) -> tuple[list[tuple[int, int]], list[int]]:
    """Return the ranges of numbers, and all other bytes."""
    numbers: list[tuple[int, int]] = []
    rest: list[int] = []
    for label in labels:
        start, end = label.span.start, label.span.end
        if label.kind == "field" and end - start <= NUMBER:
            numbers.append((start, end))
        else:
            rest.extend(range(start, end))
    return numbers, rest


def _spread(places: list[int], count: int, phase: float) -> list[int]:
    """Return at most ``count`` of the places, at equal distances."""
    step = max(1, -(-len(places) // count))
    return places[int(phase * step) :: step]


# Views of bytes, images of them, and the output of writers as bytes.


def make_view(data: bytes, name: str = "test") -> View:
    """Return a view of all of the bytes; ``name`` is the first name in errors."""
    return BytesSource(data, name).view()


def join_pieces(pieces: Iterable[Piece]) -> bytes:
    """Return the output of a writer as one string."""
    return b"".join(piece.tobytes() if isinstance(piece, View) else bytes(piece) for piece in pieces)


def make_image(data: bytes, **facts: object) -> Image:
    """Return an image of these bytes, for a container to write; ``facts`` are fields of the model."""
    view = make_view(data, "image")
    facts = {"target": Target(), "form": "object", **facts}
    return Image(data=view, size=len(data), stored_size=len(data), span=view.span(), **facts)  # type: ignore[arg-type]


# Memory that Python allocates while reading: a number in a file must not make it larger than the file explains.


class TracedMemory:
    """Memory that is allocated in this block; ``peak`` is its maximum in bytes."""

    def __init__(self) -> None:
        self._peak: int | None = None

    @property
    def peak(self) -> int:
        """The maximum so far, or in the whole block after its end."""
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
    """Check that ``use`` allocates no memory because of a number; ``what`` names it in messages.

    ``cases`` are positions, and the numbers to put there as eight bytes.
    """
    use(data)  # imports and caches are not caused by the file
    with TracedMemory() as memory:
        for start, value in cases:
            use(data[:start] + value.to_bytes(8, "little") + data[start + 8 :])
    most = (8 << 20) + 64 * len(data)
    assert memory.peak < most, (
        f"a number in the file made {what} allocate {memory.peak} bytes, at most {most} are allowed: "
        f"compare each size with the bytes that are there before anything is read or allocated"
    )
