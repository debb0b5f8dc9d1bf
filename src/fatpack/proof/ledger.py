"""The ledger of a proof: the bytes that were compared, and the differences."""

from __future__ import annotations

from bisect import bisect_left
from hashlib import sha256
from itertools import pairwise

from fatpack.errors import format_hex
from fatpack.proof.memory import WINDOW
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Literal

    from fatpack.io.source import View
    from fatpack.proof.memory import ProgramMemory

    ContainerFate = Literal["kept", "moved", "reduced", "emptied", "dropped"]

    Range = tuple[int, int]


# The digest of a whole file.


def file_digest(view: View) -> str:
    """Return the SHA-256 of all bytes of a view in hexadecimal digits."""
    found = sha256()
    for piece in view.read_once():
        found.update(piece)
    return found.hexdigest()


# The result of a proof: the compared bytes, the differences, and the kept images.


class Difference(Record):
    """A difference that is not allowed.

    ``what`` names the broken rule. ``address`` is the run-time address, None for bytes that are not loaded; then
    ``offset`` is the position in the edited file, if there is one. ``expected`` and ``found`` are in words.
    """

    what: str
    address: int | None = None
    offset: int | None = None
    expected: str = ""
    found: str = ""


class ChangedRange(Record):
    """A range of addresses that may differ, from ``start`` to ``end``, and its content in words."""

    start: int
    end: int
    what: str


class ProvedImage(Record):
    """An image: its ``title`` from its container, its ``size`` in bytes and its SHA-256.

    ``container`` is the run-time address of its container in the original file. ``is_inflated`` is true if size and
    digest are those of the decompressed image. ``recompressed`` is true if the edited file stores the same image with
    another compression.
    """

    title: str
    container: int
    size: int
    digest: str
    is_inflated: bool = False
    recompressed: bool = False


class ProvedContainer(Record):
    """A container: its ``kind``, addresses and sizes in both files, and its ``fate``.

    ``records`` are the addresses of the records that point to it, if any. ``new`` is None and ``new_size`` 0 for a
    removed container.
    """

    kind: str
    old: int
    old_size: int
    new: int | None
    new_size: int
    fate: ContainerFate
    records: tuple[int, ...] = ()


class ProvedFile(Record):
    """One of the files: its name, its size in bytes and its SHA-256."""

    name: str
    size: int
    digest: str


class ProofResult(Record):
    """The result of a proof.

    ``is_proved`` is true if there is no forbidden difference. ``differences`` are the first of these,
    ``difference_count`` is their number. ``compared_size`` is the number of bytes of memory that were compared one by
    one, ``changed`` are the ranges that may differ, each with its rule; ``compared`` and ``not_compared`` describe the
    scope of the proof in sentences.
    """

    host: str
    before: ProvedFile
    after: ProvedFile
    is_proved: bool
    differences: tuple[Difference, ...]
    difference_count: int
    compared_size: int
    changed: tuple[ChangedRange, ...]
    containers: tuple[ProvedContainer, ...]
    kept: tuple[ProvedImage, ...]
    dropped: tuple[ProvedImage, ...]
    compared: tuple[str, ...]
    not_compared: tuple[str, ...]


#: LIMIT: differences that a result lists; all are counted.
_MAX_LISTED = 200

#: bytes of a difference that are shown
_SHOWN = 16


class DifferenceLog:
    """The differences found so far, and the number of compared bytes."""

    def __init__(self) -> None:
        self.differences: list[Difference] = []
        self.count = 0
        self.compared = 0

    def differ(
        self,
        what: str,
        *,
        address: int | None = None,
        offset: int | None = None,
        expected: object = "",
        found: object = "",
    ) -> None:
        """Record a difference; numbers are shown as hexadecimal."""
        self.count += 1
        if len(self.differences) < _MAX_LISTED:
            texts = [format_hex(item) if isinstance(item, int) else str(item) for item in (expected, found)]
            self.differences.append(Difference(what, address, offset, *texts))

    def same(
        self, what: str, expected: object, found: object, *, address: int | None = None, offset: int | None = None
    ) -> bool:
        """Record a difference unless two values are equal; return whether they are."""
        if expected == found:
            return True
        self.differ(what, address=address, offset=offset, expected=expected, found=found)
        return False


def first_difference(before: bytes, after: bytes) -> int:
    """Return the first position at which two different byte strings of one size differ."""
    low, high = 0, len(before)
    while high - low > 1:
        middle = (low + high) // 2
        if before[low:middle] != after[low:middle]:
            high = middle
        else:
            low = middle
    return low


def shown_bytes(data: bytes) -> str:
    """Return the first bytes of some data, as messages show them."""
    text = data[:_SHOWN].hex(" ")
    return f"{text} …" if len(data) > _SHOWN else text


def compare_memory(
    before: ProgramMemory,
    after: ProgramMemory,
    excluded: Sequence[Range],
    words: Sequence[Range],
    ledger: DifferenceLog,
) -> None:
    """Compare two memory images except in the ranges ``excluded``, and in the few bytes of each of ``words``.

    Both are in order. The loaded ranges, their rights, and every byte of them must be equal.
    """
    edges = {edge for memory in (before, after) for item in memory.loaded_ranges for edge in (item.start, item.end)}
    edges.update(edge for item in excluded for edge in item)
    number = 0
    for low, high in pairwise(sorted(edges)):
        while number < len(excluded) and excluded[number][1] <= low:
            number += 1
        if number < len(excluded) and excluded[number][0] <= low:
            continue
        old_range, new_range = before.loaded_range(low), after.loaded_range(low)
        if old_range is None and new_range is None:
            continue
        if old_range is None or new_range is None:
            loaded = ("nothing", "bytes") if old_range is None else ("bytes", "nothing")
            ledger.differ("what is loaded", address=low, expected=loaded[0], found=loaded[1])
            continue
        ledger.same("rights of what is loaded", old_range.flags, new_range.flags, address=low)
        _compare_part(before, after, (low, min(high, max(old_range.filled, new_range.filled))), words, ledger)
        ledger.compared += high - low


def _compare_part(
    before: ProgramMemory, after: ProgramMemory, part: Range, words: Sequence[Range], ledger: DifferenceLog
) -> None:
    for address in range(*part, WINDOW):
        size = min(WINDOW, part[1] - address)
        old_bytes, new_bytes = before.read(address, size), after.read(address, size)
        if old_bytes == new_bytes or old_bytes is None or new_bytes is None:
            continue
        new_bytes = _with_old_words(words, address, old_bytes, new_bytes)
        if old_bytes != new_bytes:
            at = first_difference(old_bytes, new_bytes)
            expected, found = shown_bytes(old_bytes[at:]), shown_bytes(new_bytes[at:])
            ledger.differ("bytes in memory", address=address + at, expected=expected, found=found)


def _with_old_words(words: Sequence[Range], address: int, old_bytes: bytes, new_bytes: bytes) -> bytes:
    """Return the second of two windows, with the bytes of the first where words may differ."""
    number = max(0, bisect_left(words, (address, 0)) - 1)
    changed = bytearray(new_bytes)
    for start, end in words[number:]:
        if start >= address + len(old_bytes):
            break
        low, high = max(start - address, 0), min(end - address, len(old_bytes))
        if low < high:
            changed[low:high] = old_bytes[low:high]
    return bytes(changed)


def compare_views(what: str, before: View, after: View, ledger: DifferenceLog) -> None:
    """Compare bytes that are not loaded; a different size is a difference, too."""
    if not ledger.same(f"size of {what}", len(before), len(after), offset=after.start):
        return
    for at in range(0, len(before), WINDOW):
        size = min(WINDOW, len(before) - at)
        old_bytes, new_bytes = before.read(at, size), after.read(at, size)
        if old_bytes != new_bytes:
            first = first_difference(old_bytes, new_bytes)
            expected, found = shown_bytes(old_bytes[first:]), shown_bytes(new_bytes[first:])
            ledger.differ(what, offset=after.offset(at + first), expected=expected, found=found)
            return


def merge_ranges(ranges: Iterable[Range]) -> list[Range]:
    """Return ranges in order, with ranges that touch or overlap joined."""
    out: list[Range] = []
    for start, end in sorted(ranges):
        if out and start <= out[-1][1]:
            out[-1] = (out[-1][0], max(end, out[-1][1]))
        elif start < end:
            out.append((start, end))
    return out


def subtract_ranges(ranges: Iterable[Range], holes: Sequence[Range]) -> list[Range]:
    """Return the parts of ranges outside the holes; holes are in order and do not overlap."""
    out = []
    for start, stop in ranges:
        low = start
        number = max(0, bisect_left(holes, (start, 0)) - 1)
        for first, last in holes[number:]:
            if first >= stop:
                break
            if last <= low:
                continue
            if first > low:
                out.append((low, first))
            low = last
        if low < stop:
            out.append((low, stop))
    return out


def find_range(address: int, ranges: Sequence[Range]) -> Range | None:
    """Return the range around an address; ranges are in order and do not overlap."""
    number = bisect_left(ranges, (address + 1, 0)) - 1
    return ranges[number] if number >= 0 and address < ranges[number][1] else None
