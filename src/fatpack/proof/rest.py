"""The bytes of a file that belong to no part of it: padding between parts, and what lies behind the last one."""

from __future__ import annotations

from bisect import bisect_left

from fatpack.proof.ledger import compare_views, first_difference, merge_ranges, shown_bytes
from fatpack.proof.memory import WINDOW

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import TypeAlias

    from fatpack.io.source import View
    from fatpack.proof.ledger import DifferenceLog, Range

    FilePart: TypeAlias = tuple[int, int, int]
    """A part of the edited file: where it starts, where it ends, and where the same part ended in the other file.

    The last number is where it was cut, if it was.
    """


def compare_padding(
    before: View, after: View, ours: Iterable[Range], theirs: Iterable[FilePart], ledger: DifferenceLog
) -> None:
    """Compare the bytes of two files outside of their parts.

    They are what they were, and between parts there may be more or fewer zeros. Those behind the last part are all
    what they were.
    """
    old = merge_ranges(ours)
    end = old[-1][1] if old else 0
    at, was = 0, 0
    for start, stop, old_stop in sorted(theirs):
        if start > at:
            _compare_gap(before, after, (at, start), (was, _next(old, was)), ledger)
        if stop >= at:
            at, was = stop, old_stop
    compare_views("bytes behind the last part", _behind(before, end), _behind(after, at), ledger)


def _behind(view: View, at: int) -> View:
    return view.slice(min(at, len(view)), max(0, len(view) - at))


def _next(parts: Sequence[Range], at: int) -> int:
    """Return where the first part starts that does so at an offset or behind it; the offset if there is none."""
    number = bisect_left(parts, (at, 0))
    return parts[number][0] if number < len(parts) else at


def _compare_gap(before: View, after: View, gap: Range, old: Range, ledger: DifferenceLog) -> None:
    """Compare bytes between two parts: they are what they were, and zeros may be more or less."""
    size = gap[1] - gap[0]
    common = min(size, max(0, old[1] - old[0]))
    for at in range(0, size, WINDOW):
        theirs = after.read(gap[0] + at, min(WINDOW, size - at))
        # A gap of the new file may go on where the old one has ended: nothing is read from behind its end.
        known = max(0, min(len(theirs), common - at))
        ours = (before.read(old[0] + at, known) if known else b"").ljust(len(theirs), b"\0")
        if ours == theirs or (old[1] - old[0] != size and not any(theirs)):
            continue
        first = first_difference(ours, theirs)
        ledger.differ(
            "bytes between parts of the file", offset=after.offset(gap[0] + at + first),
            expected=shown_bytes(ours[first:]), found=shown_bytes(theirs[first:]),
        )  # fmt: skip
        return
