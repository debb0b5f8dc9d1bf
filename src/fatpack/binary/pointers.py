"""The targets of pointers in objects and programs, for every host."""

from __future__ import annotations

import sys

from fatpack import limits
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Literal, Protocol, TypeAlias

    from fatpack.binary import CodeSection
    from fatpack.io.source import View
    from fatpack.layout import ByteOrder

    PointerKind: TypeAlias = Literal["inside", "outside", "null", "undefined", "unknown"]

    class PointerReader(Protocol):
        """A file whose pointers can be followed: pointers of ``word`` bytes in one byte ``order``."""

        view: View
        word: int
        order: ByteOrder

        #: whether it has addresses; the methods after this are only for files that have
        is_linked: bool

        def pointers(self, table: CodeSection, offsets: Sequence[int]) -> list[Pointer]: ...  # noqa: D102
        def address(self, section: int) -> int: ...  # noqa: D102
        def at(self, address: int) -> Pointer: ...  # noqa: D102
        def values_at(self, places: Sequence[int]) -> list[Pointer]: ...  # noqa: D102
        def values_in(self, low: int, high: int, *, everywhere: bool = False) -> PointerSearch: ...  # noqa: D102


# Readers of pointers, by host

#: host → module and class of its reader
_READERS = {
    "elf": ("fatpack.binary.elf.pointers", "ElfPointers"),
    "coff": ("fatpack.binary.coff.pointers", "CoffPointers"),
    "pe": ("fatpack.binary.pe.pointers", "PePointers"),
}

HOSTS = tuple(_READERS)


def open_pointers(view: View, host: str) -> PointerReader:
    """Return the reader of pointers for one of ``HOSTS``. Raises FormatError if the file is damaged."""
    module, name = _READERS[host]
    reader: PointerReader = getattr(__import__(module, fromlist=[name]), name)(view)
    return reader


#: in the bytes of the file
INSIDE: PointerKind = "inside"
#: an address without bytes in the file
OUTSIDE: PointerKind = "outside"
NULL: PointerKind = "null"
#: a symbol of another file
UNDEFINED: PointerKind = "undefined"
#: a relocation of unknown type
UNKNOWN: PointerKind = "unknown"


class Pointer(Record):
    """The target of a pointer.

    ``kind`` is one of the constants above. For INSIDE, ``position`` is the target's position in the file's view, with
    ``room`` bytes to the end of the ``section`` of that number; for UNDEFINED, ``symbol`` is the symbol's name.
    ``address`` is the pointer's value at run time, or in objects the offset from the start of ``section``.
    """

    kind: PointerKind
    address: int = 0
    position: int = 0
    room: int = 0
    section: int | None = None
    symbol: str = ""


NULL_POINTER = Pointer(NULL)
UNKNOWN_POINTER = Pointer(UNKNOWN)

#: LIMIT: bytes of data that are searched for pointers. Libraries have some tens of MB of data.
_SEARCHED = 256 << 20

#: LIMIT: pointers to an image that are found in a program's data, which has about two.
_OF_AN_IMAGE = 4


class PointerSearch(Record):
    """Pointers of a program that a search found: address → value.

    ``unsearched``: the limit that ended the search, "" if none did, and ``hint``: how to raise it. ``is_exact``: all
    are stated by relocations; else some may be numbers or text.
    """

    values: dict[int, int]
    unsearched: str = ""
    hint: str = ""
    is_exact: bool = False


def max_pointers() -> int:
    """Return the limit on pointers in a program's data."""
    return _OF_AN_IMAGE * limits.IMAGES


def too_many_pointers(values: dict[int, int]) -> PointerSearch:
    """Return a search that ended because there are too many pointers."""
    text = f"only {len(values)} pointers to images are followed, and there are more"
    return PointerSearch(values, text, limits.advice("IMAGES"))


def words_between(
    ranges: Iterable[tuple[int, View]], word: int, order: ByteOrder, low: int, high: int
) -> PointerSearch:
    """Return address and value of the aligned words of a program's data between two values, both included.

    ``ranges`` are the parts of the data, with their addresses.
    """
    from array import array  # imports all of collections, and most files do not need this

    left, most = _SEARCHED, max_pointers()
    values: dict[int, int] = {}
    for address, data in ranges:
        size = min(len(data), left)
        left -= size
        for start in range(0, size, limits.CHUNK):
            block = data.head(start, min(limits.CHUNK, size - start))
            words = array("Q" if word == 8 else "I", block[: len(block) - len(block) % word])
            if order != sys.byteorder:
                words.byteswap()
            for number, value in enumerate(words):
                if low <= value <= high:
                    values[address + start + number * word] = value
            if len(values) > most:
                return too_many_pointers(values)
        if size < len(data):
            return PointerSearch(
                values, f"only {_SEARCHED} bytes of a program's data are searched for pointers to images"
            )
    return PointerSearch(values)


def words_at(program: PointerReader, places: Iterable[int], low: int, high: int) -> PointerSearch:
    """Return address and value of the words at some addresses of a program that are between two values.

    Both are included. ``places`` are addresses with a relocation.
    """
    view, word, order = program.view, program.word, program.order
    most, values = max_pointers(), dict[int, int]()
    block, start, end, shift = b"", 0, 0, 0
    for place in places:
        if not start <= place <= end - word:
            found = program.at(place)
            if found.kind != INSIDE or found.room < word:
                continue
            start, shift = place, found.position
            block = view.read(shift, min(limits.CHUNK, found.room))
            end = start + len(block)
        value = int.from_bytes(block[place - start : place - start + word], order)
        if low <= value <= high:
            values[place] = value
            if len(values) > most:
                return too_many_pointers(values)
    return PointerSearch(values, is_exact=True)


class LoadedRanges:
    """The loaded ranges of a program, for translating addresses into positions in the file.

    ``rows`` are (address, size in the file, position in the file, section number); rows outside the file are left out.
    If ranges overlap, which no linker does, the one that starts last is used.
    """

    def __init__(self, rows: Sequence[tuple[int, int, int, int]], file_size: int) -> None:
        self.rows = sorted(row for row in rows if row[1] and row[2] + row[1] <= file_size)
        self._starts = [row[0] for row in self.rows]

    def at(self, address: int) -> Pointer:
        """Return the target of an address."""
        from bisect import bisect_right

        number = bisect_right(self._starts, address) - 1
        if number >= 0:
            start, size, position, section = self.rows[number]
            inside = address - start
            if inside < size:
                return Pointer(INSIDE, address, position + inside, size - inside, section)
        return Pointer(OUTSIDE, address)
