"""Pieces as a source: what a writer would write, read without writing it."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate

from fatpack.io.source import Source, View

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from fatpack.io.source import Piece


class PiecesSource(Source):
    """Bytes and views that follow each other, as one source; nothing is copied until it is read.

    The sources of the views stay the caller's to keep open.
    """

    def __init__(self, pieces: Sequence[Piece], name: str = "") -> None:
        self.name = name
        self._pieces = [piece for piece in pieces if len(piece)]
        self._ends = list(accumulate(map(len, self._pieces)))
        self.size = self._ends[-1] if self._ends else 0
        self.present = self.size

    def __getstate__(self) -> dict[str, object]:
        """Return the pieces; buffers as their bytes."""
        pieces = [piece.tobytes() if isinstance(piece, memoryview) else piece for piece in self._pieces]
        return super().__getstate__() | {"_pieces": pieces}

    def read(self, offset: int, size: int) -> bytes:
        """Return a copy of ``size`` bytes at ``offset``."""
        return b"".join(self.pieces(offset, size))

    def pieces(self, offset: int, size: int) -> Iterator[memoryview]:
        """Yield the range in the pieces it lies in."""
        end = offset + size
        number = bisect_right(self._ends, offset)
        while offset < end:
            piece = self._pieces[number]
            start = offset - (self._ends[number] - len(piece))
            taken = min(len(piece) - start, end - offset)
            if isinstance(piece, (bytes, bytearray, memoryview)):
                yield memoryview(piece).cast("B")[start : start + taken]
            else:
                yield from piece.slice(start, taken).pieces()
            offset += taken
            number += 1


def sha256_of_pieces(pieces: Iterable[Piece]) -> bytes:
    """Return the SHA-256 of pieces, one behind the other. A view is one, too; reads all of them, in windows."""
    import hashlib

    digest = hashlib.sha256(usedforsecurity=False)
    for piece in pieces:
        for part in piece.once() if isinstance(piece, View) else (piece,):
            digest.update(part)
    return digest.digest()
