"""What a pointer in an object or a program leads to, whatever carries it."""

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
        """A file whose pointers can be followed: ``word`` bytes each, in one byte ``order``."""

        view: View
        word: int
        order: ByteOrder

        #: whether it has addresses: the rest of the door is only for programs that do
        is_linked: bool

        def pointers(self, table: CodeSection, offsets: Sequence[int]) -> list[Pointer]: ...  # noqa: D102
        def address(self, section: int) -> int: ...  # noqa: D102
        def at(self, address: int) -> Pointer: ...  # noqa: D102
        def values_at(self, places: Sequence[int]) -> list[Pointer]: ...  # noqa: D102
        def values_in(self, low: int, high: int, *, everywhere: bool = False) -> PointerSearch: ...  # noqa: D102


# The reader of pointers for a host, by the host's name.

#: hosts whose pointers can be followed → module and class of the reader
_READERS = {
    "elf": ("fatpack.binary.elf.pointers", "ElfPointers"),
    "coff": ("fatpack.binary.coff.pointers", "CoffPointers"),
    "pe": ("fatpack.binary.pe.pointers", "PePointers"),
}

HOSTS = tuple(_READERS)


def open_pointers(view: View, host: str) -> PointerReader:
    """Return the reader of pointers for a host of that name, one of ``HOSTS``. Raises FormatError if it is damaged."""
    module, name = _READERS[host]
    reader: PointerReader = getattr(__import__(module, fromlist=[name]), name)(view)
    return reader


#: bytes of the file
INSIDE: PointerKind = "inside"
#: an address without bytes
OUTSIDE: PointerKind = "outside"
NULL: PointerKind = "null"
#: a symbol that comes from another file
UNDEFINED: PointerKind = "undefined"
#: a relocation that is not understood
UNKNOWN: PointerKind = "unknown"


class Pointer(Record):
    """What one pointer leads to.

    ``kind`` is one of the names above. Of what is inside, ``position`` is where in the file's view, with ``room`` bytes
    to the end of the ``section`` of that number; ``symbol`` is the name of what is undefined. ``address`` is what the
    pointer holds at run time, or the offset from the start of ``section`` in objects.
    """

    kind: PointerKind
    address: int = 0
    position: int = 0
    room: int = 0
    section: int | None = None
    symbol: str = ""


NULL_POINTER = Pointer(NULL)
UNKNOWN_POINTER = Pointer(UNKNOWN)

#: LIMIT: bytes of data that are searched for pointers. Libraries have some tens of MB that are not code.
_SEARCHED = 256 << 20

#: LIMIT: pointers to an image that are taken from a program's data, which has two or so.
_OF_AN_IMAGE = 4


class PointerSearch(Record):
    """Pointers of a program that were searched for: address → value.

    ``unsearched`` says which limit has ended the search, "" if there was none, and ``hint`` how to raise it. It
    ``is_exact`` if relocations state each of them; else some may be numbers, or text.
    """

    values: dict[int, int]
    unsearched: str = ""
    hint: str = ""
    is_exact: bool = False


def max_pointers() -> int:
    """Return how many pointers are taken from a program's data."""
    return _OF_AN_IMAGE * limits.IMAGES


def too_many_pointers(values: dict[int, int]) -> PointerSearch:
    """Return a search that has ended because there are too many pointers."""
    text = f"only {len(values)} pointers to images are followed, and there are more"
    return PointerSearch(values, text, limits.advice("IMAGES"))


def words_between(
    ranges: Iterable[tuple[int, View]], word: int, order: ByteOrder, low: int, high: int
) -> PointerSearch:
    """Return address and value of the aligned words of a program's data that lie between two values, both included.

    ``ranges`` are the parts of the data, with their addresses.
    """
    from array import array  # loads all of collections, and most files ask nothing of this

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
    """Return address and value of those words at some addresses of a program that lie between two values.

    Both are included. ``places`` are those that relocations name.
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
    """The ranges of a program that are loaded: which bytes of the file an address means.

    ``rows`` are (address, size in the file, position in the file, section number); such that lie outside the file are
    left out. Where ranges overlap, which no linker makes, the one that starts last has the address.
    """

    def __init__(self, rows: Sequence[tuple[int, int, int, int]], file_size: int) -> None:
        self.rows = sorted(row for row in rows if row[1] and row[2] + row[1] <= file_size)
        self._starts = [row[0] for row in self.rows]

    def at(self, address: int) -> Pointer:
        """Return what an address leads to."""
        from bisect import bisect_right

        number = bisect_right(self._starts, address) - 1
        if number >= 0:
            start, size, position, section = self.rows[number]
            inside = address - start
            if inside < size:
                return Pointer(INSIDE, address, position + inside, size - inside, section)
        return Pointer(OUTSIDE, address)
