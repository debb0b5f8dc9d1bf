"""Building new files from parts of an old one: pieces that are adjacent in both files are merged into one copy."""

from __future__ import annotations

from fatpack import limits
from fatpack.errors import HostError, LimitExceeded
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from fatpack.io.source import Piece, View


# String tables with LLVM's tail merging: a string that ends another is not stored itself. The order determines the
# bytes: strings are sorted by their last bytes first, descending, so that a string follows the strings of which it is
# the tail (``llvm/lib/MC/StringTableBuilder.cpp``, LLVM 22.1).


class MergedStringTable(Record):
    """A finished table without the bytes before its strings: ``stored`` bytes, and ``offsets`` by string."""

    stored: bytes
    offsets: Mapping[bytes, int]


def merge_strings(groups: Iterable[Iterable[bytes]], start: int) -> MergedStringTable:
    """Return the table of strings, the first of which is stored at ``start``; groups are stored in their order.

    Of a string that occurs several times the first occurrence counts. Every string ends with a NUL. Tail merging with
    the last stored string crosses groups, as in LLVM.
    """
    offsets: dict[bytes, int] = {}
    stored: list[bytes] = []
    previous = b""
    at = start
    for group in groups:
        # A suffix is a prefix of the reversed string, and descending order sorts it after the longer one.
        for tail in sorted({string[::-1] for string in group}, reverse=True):
            string = tail[::-1]
            if string in offsets:
                continue
            if previous.endswith(string):
                offsets[string] = at - len(string) - 1
                continue
            offsets[string] = at
            stored.append(string)
            at += len(string) + 1
            previous = string
    stored.append(b"")
    return MergedStringTable(b"\0".join(stored), offsets)


def read_strings_at(table: bytes, places: Iterable[int], view: View) -> dict[int, bytes]:
    """Return the strings at some positions of a table, each up to its NUL or the table's end.

    All positions are inside. ``view`` is the table, for errors. Raises LimitExceeded if positions inside long strings
    would make the strings much longer than the table.
    """
    allowance = limits.STRING_RATIO * len(table) + limits.STRING_FLOOR
    result: dict[int, bytes] = {}
    end = -1
    for place in sorted(set(places)):
        if place > end:
            end = table.find(b"\0", place)
            end = end if end >= 0 else len(table)
        allowance -= end - place
        if allowance < 0:
            raise LimitExceeded(
                "the names in a string table overlap far more than compilers let them",
                offset=view.offset(0),
                field="string table",
                expected=f"at most {limits.STRING_RATIO} bytes of names per byte of the table",
                hint=limits.advice("STRING_RATIO"),
                chain=view.chain,
            )
        result[place] = table[place:end]
    return result


#: Gaps of zeros up to this size are compared with the old file, so that both sides can be copied as one piece.
_LARGEST_GAP = 64

#: … and filler up to this many times the size of the old file is always allowed.
_MOST_TIMES = 4

#: Filler consists of pieces of this size, which share their bytes.
_BLOCK = 64 << 10
_ZEROS = memoryview(bytes(_BLOCK))


def check_filler_size(size: int, old: View) -> None:
    """Raise HostError if a new layout has much more filler than the old file has bytes."""
    if size > max(limits.FILLER, _MOST_TIMES * len(old)):
        raise HostError(
            f"{size} bytes of padding and uninitialised data would be put into a file of {len(old)} bytes",
            hint=limits.advice("FILLER"),
            chain=old.chain,
        )


class PieceList:
    """The pieces of a file; ``at`` is their total size."""

    def __init__(self, old: View, pieces: Iterable[Piece] = ()) -> None:
        self._old = old
        self._pieces: list[Piece] = []
        self._start = self._stop = self._gap = 0
        self._filled = 0
        self.at = 0
        self.put(pieces)

    def copy(self, start: int, size: int) -> None:
        """Add a range of the old file. Raises Truncated, at the latest in :meth:`finished`, if it is outside."""
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
        """Add a repeated byte up to a position, if that is not reached yet. Raises HostError if it is too much."""
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
