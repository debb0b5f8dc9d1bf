"""String tables as LLVM builds them, in which a string that ends another is stored once.

The order is part of the bytes: strings sorted by their last bytes first, descending, so that a string comes right
behind those it ends (``llvm/lib/MC/StringTableBuilder.cpp``, LLVM 22.1).
"""

from __future__ import annotations

from fatpack import limits
from fatpack.errors import LimitExceeded
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from fatpack.io.source import View


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
