"""A new file put together from parts of an old one: neighbours in both stay one piece, which is one copy."""

from __future__ import annotations

from fatpack import limits
from fatpack.errors import HostError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from fatpack.io.source import Piece, View

#: Gaps of zeros up to this size are looked at in the old file, so that what is on both sides can be copied as one.
_LARGEST_GAP = 64

#: … and what is in proportion to the old file is never too much.
_MOST_TIMES = 4

#: Fillers come in pieces of this size, which share their bytes.
_BLOCK = 64 << 10
_ZEROS = memoryview(bytes(_BLOCK))


def check_filler_size(size: int, old: View) -> None:
    """Raise HostError if a file has far more bytes made up than were in the old one."""
    if size > max(limits.FILLER, _MOST_TIMES * len(old)):
        raise HostError(
            f"{size} bytes of padding and uninitialised data would be put into a file of {len(old)} bytes",
            hint=limits.advice("FILLER"),
            chain=old.chain,
        )


class PieceList:
    """The pieces of a file so far; ``at`` is how many bytes they have."""

    def __init__(self, old: View, pieces: Iterable[Piece] = ()) -> None:
        self._old = old
        self._pieces: list[Piece] = []
        self._start = self._stop = self._gap = 0
        self._filled = 0
        self.at = 0
        self.put(pieces)

    def copy(self, start: int, size: int) -> None:
        """Add a range of the old file. Raises Truncated, at the latest in :meth:`finished`, if it is not there."""
        if not size:
            return
        if self._start == self._stop or start - self._stop != self._gap or not self._is_zero(self._stop, self._gap):
            self._flush()
            self._start = start
        self._gap = 0
        self._stop = start + size
        self.at += size

    def put(self, pieces: Iterable[Piece]) -> None:
        """Add new bytes."""
        for piece in pieces:
            if len(piece):
                self._flush()
                self._pieces.append(piece)
                self.at += len(piece)

    def fill(self, end: int, byte: bytes = b"\0") -> None:
        """Add copies of a byte up to a position; none if it is reached already. Raises HostError for far too many."""
        size = end - self.at
        if size <= 0:
            return
        self._filled += size
        check_filler_size(self._filled, self._old)
        if byte == b"\0" and self._gap + size <= _LARGEST_GAP:
            self._gap += size
            self.at += size
            return
        self._flush()
        block = _ZEROS if byte == b"\0" else memoryview(byte * min(size, _BLOCK))
        while self.at < end:
            self._pieces.append(block[: end - self.at])
            self.at += len(self._pieces[-1])

    def finished(self) -> list[Piece]:
        """Return the pieces."""
        self._flush()
        return self._pieces

    def _flush(self) -> None:
        if self._stop > self._start:
            self._pieces.append(self._old.slice(self._start, self._stop - self._start))
        if self._gap:
            self._pieces.append(bytes(self._gap))
        self._start = self._stop = self._gap = 0

    def _is_zero(self, at: int, size: int) -> bool:
        return not size or not self._old.read(at, size).strip(b"\0")
