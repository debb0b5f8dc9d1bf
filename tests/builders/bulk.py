"""Bulk data as editors should meet it: passed on in place, never read, whatever its size."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from fatpack.io.open import open_source
from fatpack.io.source import BytesSource, View
from fatpack.testing.helpers import TracedMemory

if TYPE_CHECKING:
    from fatpack.io.source import Piece


class Untouchable(BytesSource):
    """Bytes that nobody may read."""

    def read(self, offset: int, size: int) -> bytes:
        """Fail."""
        raise AssertionError("bulk data was read")

    pieces = read  # type: ignore[assignment]


class Edited(NamedTuple):
    """The cost of an edit of a large file: bytes of the largest range of it that was passed on, and of memory."""

    largest: int
    peak: int


def edited_sparse(path: Path, data: bytes, size: int, edit: Callable[[View], Iterable[Piece]]) -> Edited:
    """Write a file, lengthen it to ``size`` bytes without storing them, and measure an edit of it."""
    path.write_bytes(data)
    with path.open("r+b") as stream:
        stream.truncate(size)
    with open_source(path) as source:
        with TracedMemory() as memory:
            pieces = list(edit(source.view()))
        return Edited(max(len(piece) for piece in pieces if isinstance(piece, View)), memory.peak)
