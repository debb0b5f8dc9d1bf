"""A new file put together from parts of an old one: siblings in both stay one piece, which is one copy."""

from __future__ import annotations

from fatpack import limits
from fatpack.errors import HostError, LimitExceeded
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from fatpack.io.source import Piece, View


# String tables as LLVM builds them, in which a string that ends another is stored once.
#
# The order is part of the bytes: strings sorted by their last bytes first, descending, so that a string comes right
# behind those it ends (``llvm/lib/MC/StringTableBuilder.cpp``, LLVM 22.1).


class MergedStringTable(Record):
    """A finished table without what precedes its strings: the ``stored`` bytes, and the ``offsets`` by string."""

    stored: bytes
    offsets: Mapping[bytes, int]


def merge_strings(groups: Iterable[Iterable[bytes]], start: int) -> MergedStringTable:
    """Return the table of strings whose first is stored at ``start``; an earlier group is stored before a later one.

    A string may be named any number of times, and in several groups: the first one counts. Every string is followed
    by a NUL. The last string stored is looked at across groups, as LLVM does it.
    """
    offsets: dict[bytes, int] = {}
    stored: list[bytes] = []
    previous = b""
    at = start
    for group in groups:
        # A reversed string that begins another is its end, and descending order puts it behind the longer one.
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
    """Return the strings that start at some places of a table, each up to its NUL or the table's end.

    All places lie inside. ``view`` is the table's, for errors. Raises LimitExceeded where places inside long strings
    would make far more of the strings than the table holds.
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
