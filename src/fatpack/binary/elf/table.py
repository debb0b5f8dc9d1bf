"""Tables of an ELF file: rows of one size that follow each other, read in blocks, and the errors about them.

Every table of every reader comes through :func:`blocks`: the bytes present bound what is read, not a count that is
stored. System V gABI, chapter 4.
"""

from __future__ import annotations

from fatpack import limits
from fatpack.errors import BadValue, LimitExceeded, Truncated

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from struct import Struct
    from typing import Any

    from fatpack.io.source import View

FORMAT = "elf"

#: Names are taken so many at once, and bytes of one that are looked through for its end: longer ones are rare.
_TOGETHER, _USUAL = 1024, 4096

#: Of fewer than these, making what takes all names at once costs more than it saves.
_FEW = 32

#: Tables are fetched this many bytes at a time.
BLOCK = 1 << 20


def read_table_blocks(view: View, at: int, count: int, size: int) -> Iterator[bytes]:
    """Yield ``count`` rows of ``size`` bytes from a position on, in blocks of whole rows; those that are there."""
    step = max(BLOCK // size, 1)
    left = min(count, max(len(view) - at, 0) // size)
    while left > 0:
        taken = min(step, left)
        yield view.head(at, taken * size)
        at += taken * size
        left -= taken


def read_table_rows(view: View, at: int, count: int, row: Struct) -> Iterator[tuple[Any, ...]]:
    """Yield the values of the rows that are there; the caller has checked the table, or takes what is left of it."""
    if count * row.size <= BLOCK:  # the usual case, without a generator in between
        return row.iter_unpack(view.head(at, min(count, max(len(view) - at, 0) // row.size) * row.size))
    return _rows(view, at, count, row)


def _rows(view: View, at: int, count: int, row: Struct) -> Iterator[tuple[Any, ...]]:
    for block in read_table_blocks(view, at, count, row.size):
        yield from row.iter_unpack(block)


def check_inside(view: View, field: str, at: int, size: int) -> None:
    """Raise Truncated unless the bytes lie in the view."""
    if at + size > len(view):
        raise Truncated(
            needed=size, left=len(view) - at, format=FORMAT, offset=view.offset(at), field=field, chain=view.chain
        )


def check_table(view: View, field: str, at: int, count: int, size: int, stored_size: int) -> None:
    """Check a table: rows of ``size`` bytes, as the header states with ``stored_size``, all in the view.

    Raises BadValue and Truncated.
    """
    if stored_size != size:
        raise table_error(view, field, f"has entries of {stored_size} bytes, not of {size}", at)
    check_inside(view, field, at, count * size)


def table_error(view: View, field: str, problem: str, at: int) -> BadValue:
    """Return the error for a field, or what it leads to, that cannot be."""
    return BadValue(problem, format=FORMAT, offset=view.offset(at), field=field, chain=view.chain)


def table_limit_error(view: View, field: str, at: int, problem: str, limit: str, most: int = 0) -> LimitExceeded:
    """Return the error for what exceeds a limit, by its name in :mod:`fatpack.limits`; ``most`` is allowed."""
    return LimitExceeded(
        problem,
        format=FORMAT,
        offset=view.offset(at),
        field=field,
        expected=f"at most {most}" if most else "",
        hint=limits.advice(limit),
        chain=view.chain,
    )


class NameTable:
    """A table of names, loaded; what is taken from it is bounded.

    Names may share one long string: without a bound n of them would make n copies of it.
    """

    def __init__(self, view: View, field: str, at: int, size: int) -> None:
        """Load the names; ``field`` is what one of them is called. Raises Truncated, LimitExceeded."""
        check_inside(view, f"{field}s", at, size)
        if size > limits.STRING_TABLE:
            raise table_limit_error(view, f"{field}s", at, f"{size} bytes of them", "STRING_TABLE", limits.STRING_TABLE)
        self._view, self._field, self._at = view, field, at
        self._stored = view.read(at, size)
        self._budget = max(limits.STRING_FLOOR, limits.STRING_RATIO * len(view))

    def take(self, starts: Iterable[int], stored_at: int, step: int = 0) -> list[bytes]:
        """Return the names at offsets of the table, without their NULs. Raises BadValue, LimitExceeded.

        For the errors: the n-th offset is stored ``n * step`` bytes behind ``stored_at``.
        """
        places, found = list(starts), list[bytes]()
        for first in range(0, len(places), _TOGETHER):
            found += self._together(places[first : first + _TOGETHER], stored_at + first * step, step)
        return found

    def _together(self, starts: list[int], stored_at: int, step: int) -> list[bytes]:
        """Return some names: so few, and looked at so far, that this is no work until the budget is asked."""
        stored, is_few = self._stored, len(starts) < _FEW
        if is_few:
            ends = [stored.find(b"\0", start, start + _USUAL) for start in starts]
        else:
            from itertools import repeat

            ends = list(map(stored.find, repeat(b"\0"), starts, map(_USUAL.__add__, starts)))
        taken = sum(ends) - sum(starts)
        if min(ends) < 0 or taken > self._budget:
            return self._one_by_one(starts, stored_at, step)
        self._budget -= taken
        if is_few:
            return [stored[start:end] for start, end in zip(starts, ends, strict=True)]
        return list(map(stored.__getitem__, map(slice, starts, ends)))

    def _one_by_one(self, starts: list[int], stored_at: int, step: int) -> list[bytes]:
        stored, found = self._stored, list[bytes]()
        for start in starts:
            end = stored.find(b"\0", start)
            if end < 0:
                problem = f"at {start:#x} is outside the {len(stored)} bytes of names"
                raise table_error(self._view, self._field, problem, stored_at + len(found) * step)
            self._budget -= end - start
            if self._budget < 0:
                raise table_limit_error(
                    self._view, f"{self._field}s", self._at, "they are far longer than the image", "STRING_RATIO"
                )
            found.append(stored[start:end])
        return found
