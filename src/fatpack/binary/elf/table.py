"""Tables of ELF files in bounded blocks, and their errors; the common base of the readers of ELF.

All readers use :func:`read_table_rows` and :func:`read_table_blocks`: the bytes in the file limit what is read, not a
stored count. System V gABI, chapter 4.
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

#: Names that are looked up at a time, and bytes that are searched first for the end of one: longer names are rare.
_TOGETHER, _USUAL = 1024, 4096

#: For fewer names than this, preparing a bulk lookup costs more than it saves.
_FEW = 32

#: Bytes that are read at a time.
BLOCK = 1 << 20


def read_table_blocks(view: View, at: int, count: int, size: int) -> Iterator[bytes]:
    """Yield up to ``count`` rows of ``size`` bytes from a position on, in blocks of whole rows; stops at the end."""
    step = max(BLOCK // size, 1)
    left = min(count, max(len(view) - at, 0) // size)
    while left > 0:
        taken = min(step, left)
        yield view.head(at, taken * size)
        at += taken * size
        left -= taken


def read_table_rows(view: View, at: int, count: int, row: Struct) -> Iterator[tuple[Any, ...]]:
    """Yield the values of the rows before the end of the view; the caller has checked the table if it must be whole."""
    if count * row.size <= BLOCK:  # the usual case, without a generator
        return row.iter_unpack(view.head(at, min(count, max(len(view) - at, 0) // row.size) * row.size))
    return _rows(view, at, count, row)


def _rows(view: View, at: int, count: int, row: Struct) -> Iterator[tuple[Any, ...]]:
    for block in read_table_blocks(view, at, count, row.size):
        yield from row.iter_unpack(block)


def check_inside(view: View, field: str, at: int, size: int) -> None:
    """Raise Truncated unless the range is in the view."""
    if at + size > len(view):
        raise Truncated(
            needed=size, left=len(view) - at, format=FORMAT, offset=view.offset(at), field=field, chain=view.chain
        )


def check_table(view: View, field: str, at: int, count: int, size: int, stored_size: int) -> None:
    """Check that the rows of a table have ``size`` bytes and are all in the view; the header states ``stored_size``.

    Raises BadValue and Truncated.
    """
    if stored_size != size:
        raise table_error(view, field, f"has entries of {stored_size} bytes, not of {size}", at)
    check_inside(view, field, at, count * size)


def table_error(view: View, field: str, problem: str, at: int) -> BadValue:
    """Return the error for a wrong field, or for the bytes that it refers to."""
    return BadValue(problem, format=FORMAT, offset=view.offset(at), field=field, chain=view.chain)


def table_limit_error(view: View, field: str, at: int, problem: str, limit: str, most: int = 0) -> LimitExceeded:
    """Return the error for a limit of :mod:`fatpack.limits`, given by name; ``most`` is its value."""
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
    """A string table in memory; the total size of the names taken from it is limited.

    Names may share one long string: without a limit, n names would make n copies of it.
    """

    def __init__(self, view: View, field: str, at: int, size: int) -> None:
        """Load the table; ``field`` is the name of an entry in errors. Raises Truncated, LimitExceeded."""
        check_inside(view, f"{field}s", at, size)
        if size > limits.STRING_TABLE:
            raise table_limit_error(view, f"{field}s", at, f"{size} bytes of them", "STRING_TABLE", limits.STRING_TABLE)
        self._view, self._field, self._at = view, field, at
        self._stored = view.read(at, size)
        self._budget = max(limits.STRING_FLOOR, limits.STRING_RATIO * len(view))

    def take(self, starts: Iterable[int], stored_at: int, step: int = 0) -> list[bytes]:
        """Return the names at offsets of the table, without their NULs. Raises BadValue, LimitExceeded.

        For errors: the n-th offset is stored at ``stored_at + n * step``.
        """
        places, found = list(starts), list[bytes]()
        for first in range(0, len(places), _TOGETHER):
            found += self._together(places[first : first + _TOGETHER], stored_at + first * step, step)
        return found

    def _together(self, starts: list[int], stored_at: int, step: int) -> list[bytes]:
        """Return names in bulk; falls back to single lookups if one is long or the limit is exceeded."""
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
