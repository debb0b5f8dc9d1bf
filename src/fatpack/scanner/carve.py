"""Search for containers outside the sections for device code: in ``.rodata``, ``.data``, custom sections, anywhere.

The bytes are searched for magic numbers, and every hit is read as a container, strictly: a program that only uses the
magic number (a driver, a compiler, this module) has it in its data as well. A container must have at least one image
and be intact; any other hit is ignored, and is no damage. The exception is a file that was truncated within a container
(:mod:`fatpack.scanner.truncated`): its rest is listed with the damage.

Device images outside containers are found by :mod:`fatpack.scanner.bare_images`.

The search is linear: each block is searched once from front to back, a container is skipped after it was read, and the
search of a file with too many false hits ends.
"""

from __future__ import annotations

from functools import lru_cache

from fatpack import formats, limits
from fatpack.errors import FormatError, Unsupported
from fatpack.findings import finding
from fatpack.model import Finding
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from fatpack.io.source import View
    from fatpack.model import Container

#: LIMIT: containers without images in the data of a file. Of the 24,000 in cuFFT 4,200 lose their images for a device.
_EMPTY = 1 << 16

#: bytes of an empty fat binary, and what follows its magic: version and size of its header
_EMPTY_SIZE, _EMPTY_HEAD = 16, b"\1\0\x10\0"

#: LIMIT: false hits per file. Compilers and drivers have a few dozen.
_FALSE_HITS = 1000

#: LIMIT: total size of false hits according to their headers, if the file has these bytes: a multiple of the file's
#: size, and a constant. Their entries are read until one is invalid, and thousands of hits could share their entries.
_FALSE_RATIO = 4
_FALSE_BYTES = 1 << 20

#: A search starts with blocks of this size, and doubles them while it finds nothing.
_FIRST_BLOCK = 8 << 10

#: Problem of a container that extends beyond the end of the file.
_CUT = "the file looks cut short"

#: Least size of a container with an image. Gaps between sections are shorter, as a rule.
_LEAST = 32

#: Ranges at most so far from each other are searched as one: neighbours with padding between them.
_NEAR = 64

# Formats of plug-ins are searched too, and this module is imported only for a search.
formats.add_plugins()

#: Magic numbers of the formats that this version reads.
_READABLE = tuple(magic for magic, name in formats.MAGICS.items() if name in formats.MODULES)
_LONGEST_MAGIC = max(map(len, formats.MAGICS))


#: Patterns of three classes of bytes that a word of each magic may have; all other bytes are of class 0. The more
#: classes differ, the fewer bytes have the pattern by chance.
_PATTERNS = (b"\1\2\3", b"\1\2\2", b"\1\1\2")

#: LIMIT: words of a block that belong to no magic. Beyond these it is searched for one magic after the other. Random
#: bytes have about 50 in a MiB, tables of programs some thousands; to compare so many takes as long as that search.
_FALSE_WORDS = 1 << 14


#: LIMIT: positions that are kept for a second search. Compilers have dozens; beyond these the bytes are searched twice.
_MOST_PASSED = 100_000

#: Bytes that programs have most of: a word without them has the pattern of fewer others.
_COMMON = b"\0\xff\1\2"


class _Words(Record):
    """A translation of bytes into classes after which one ``pattern`` is in each magic; ``found`` has the magic and its
    position in it by the bytes of its word.
    """

    pattern: bytes
    table: bytes
    found: dict[bytes, tuple[bytes, int]]


@lru_cache(maxsize=8)
def _words(magics: tuple[bytes, ...]) -> _Words | None:
    """Return a translation with which one search finds all magics, None if there is none.

    The word of a magic are three of its bytes. A byte is of one class in all words: then a search for the pattern in
    the translated bytes is a search for all magics at once.
    """
    # The shorter a magic is, the less choice there is.
    ordered = sorted(magics, key=len)
    for pattern in _PATTERNS:
        classes: dict[int, int] = {}
        found: dict[bytes, tuple[bytes, int]] = {}
        if _assign(ordered, pattern, classes, found):
            table = bytes(classes.get(byte, 0) for byte in range(256))
            return _Words(pattern, table, found)
    return None


def _assign(
    magics: Sequence[bytes], pattern: bytes, classes: dict[int, int], found: dict[bytes, tuple[bytes, int]]
) -> bool:
    """Choose a word of each magic and the classes of its bytes, and return whether that can be done."""
    if not magics:
        return True
    magic = magics[0]
    common = [byte in _COMMON for byte in magic]
    for at in sorted(range(len(magic) - 2), key=lambda at: common[at] + common[at + 1] + common[at + 2]):
        word = magic[at : at + 3]
        wanted = dict(zip(word, pattern, strict=True))
        is_alike = all(wanted[byte] == kind for byte, kind in zip(word, pattern, strict=True))
        if not is_alike or word in found or any(classes.get(byte, kind) != kind for byte, kind in wanted.items()):
            continue
        new = [byte for byte in wanted if byte not in classes]
        classes.update(wanted)
        found[word] = magic, at
        if _assign(magics[1:], pattern, classes, found):
            return True
        del found[word]
        for byte in new:
            del classes[byte]
    return False


class PassedMagics:
    """Positions of other magics that a search passes, so that a second search for these reads nothing again.

    ``magics`` are the other ones. ``positions`` are relative to the whole view; None if they are not complete.
    ``ranges`` are the parts of the view that were searched to their end.
    """

    def __init__(self, magics: Sequence[bytes]) -> None:
        self.magics = frozenset(magics) if _words((*_READABLE, *magics)) else frozenset[bytes]()
        self.positions: set[int] | None = set() if self.magics else None
        self.ranges: list[tuple[int, int]] = []

    def add(self, position: int) -> None:
        """Take note of a position; too many are none."""
        if self.positions is not None:
            self.positions.add(position)
            if len(self.positions) > _MOST_PASSED:
                self.positions = None

    def searcher(self, start: int, end: int) -> PassedSearcher | None:
        """Return the positions in a range, relative to its start; None if not all of it was searched."""
        is_searched = any(low <= start and end <= high for low, high in self.ranges)
        if self.positions is None or not is_searched:
            return None
        return PassedSearcher(sorted(place - start for place in self.positions if start <= place < end), end - start)


class PassedSearcher:
    """The positions of magics that another search passed, with the interface of :class:`MagicSearcher`."""

    def __init__(self, positions: Sequence[int], size: int) -> None:
        self._positions = positions
        self._size = size

    def after(self, at: int) -> int:
        """Return the first position at or after ``at``, or the end of the view."""
        from bisect import bisect_left

        number = bisect_left(self._positions, at)
        return self._positions[number] if number < len(self._positions) else self._size


class MagicSearcher:
    """Finds the next magic number in a view, block by block, reading each block once.

    All magics are searched at once, or one after the other in a block with many false words. No magic starts with the
    end of another one, so the first word belongs to the first magic. ``passed`` gets the positions of its own magics
    that lie before those; the view starts at ``start`` of its view.
    """

    def __init__(
        self,
        view: View,
        magics: Sequence[bytes] = tuple(formats.MAGICS),
        passed: PassedMagics | None = None,
        start: int = 0,
    ) -> None:
        self._view = view
        self._magics = magics
        self._passed = passed if passed is not None and passed.positions is not None else None
        self._origin = start
        self._words = _words((*magics, *self._passed.magics) if self._passed else tuple(magics))
        self._size = len(view)
        #: a block, its translation, its start, and the end of the positions where a magic may start in it
        self._block = self._translated = b""
        self._start, self._end = 0, 0
        #: the next position of each magic, if they are searched one after the other
        self._next: dict[bytes, int] | None = None
        self._false_words = 0
        self._step = _FIRST_BLOCK

    def after(self, at: int) -> int:
        """Return the first position of any magic at or after ``at``, or the end of the view."""
        while at < self._size:
            if not self._start <= at < self._end:
                at = self._view.skip_hole(at)
                self._take(at)
            found = self._first(at) if self._next is None else self._one_by_one(self._next, at)
            if found < self._end:
                self._step = _FIRST_BLOCK  # most hits are containers, whose bytes are skipped
                return found
            at = self._end
        return self._size

    def _first(self, at: int) -> int:
        """Return the first magic of the block at or after a position, the size of the view for none."""
        if self._words is None:
            return self._begin_one_by_one(at)
        passed = self._passed
        words, pattern, block, translated = self._words.found, self._words.pattern, self._block, self._translated
        low = at - self._start
        hit = translated.find(pattern, low)
        while hit >= 0:
            magic, place = words.get(block[hit : hit + 3], (b"", 0))
            if magic and hit - place >= low and block.startswith(magic, hit - place):
                position = self._start + hit - place
                if passed is None or magic not in passed.magics:
                    return position
                if position < self._end:  # the next block has it otherwise
                    passed.add(self._origin + position)
            else:
                self._false_words += 1
                if self._false_words > _FALSE_WORDS:
                    return self._begin_one_by_one(at)
            hit = translated.find(pattern, hit + 1)
        return self._size

    def _begin_one_by_one(self, at: int) -> int:
        for magic in self._passed.magics if self._passed is not None else ():
            hit = self._block.find(magic, at - self._start)
            while self._passed is not None and 0 <= hit < self._end - self._start:
                self._passed.add(self._origin + self._start + hit)
                hit = self._block.find(magic, hit + 1)
        self._next = dict.fromkeys(self._magics, -1)
        return self._one_by_one(self._next, at)

    def _one_by_one(self, following: dict[bytes, int], at: int) -> int:
        for magic, place in following.items():
            if place < at:
                hit = self._block.find(magic, at - self._start)
                following[magic] = self._start + hit if hit >= 0 else self._size
        return min(following.values())

    def _take(self, at: int) -> None:
        self._block = self._view.head(at, self._step + _LONGEST_MAGIC - 1)
        self._translated = self._block.translate(self._words.table) if self._words else b""
        self._start, self._end = at, min(at + self._step, self._size)
        self._next, self._false_words = None, 0
        self._step = min(2 * self._step, limits.CHUNK)


def ranges_between(ranges: Sequence[tuple[int, int]], size: int) -> Iterator[tuple[int, int]]:
    """Yield the parts of ``size`` bytes outside some ranges, in order."""
    reached = 0
    for start, end in sorted(ranges):
        if start > reached:
            yield reached, start
        reached = max(reached, end)
    if reached < size:
        yield reached, size


def intersect_ranges(some: Sequence[tuple[int, int]], others: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the intersection of two lists of ranges, in order; neighbours are joined."""
    found: list[tuple[int, int]] = []
    rest = iter(others)
    start, end = next(rest, (0, 0))
    for low, high in _joined(some):
        while end and start < high:
            if end > low:
                found.append((max(start, low), min(end, high)))
            if end > high:
                break
            start, end = next(rest, (0, 0))
    return found


def _joined(ranges: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield ranges in order; ranges that overlap or are near to each other are joined."""
    low = high = 0
    for start, end in sorted(ranges):
        if start <= high + _NEAR and high:
            high = max(high, end)
            continue
        if high:
            yield low, high
        low, high = start, end
    if high:
        yield low, high


def carve(
    view: View, ranges: Iterable[tuple[int, int]], *, may_be_cut: bool = False, passed: PassedMagics | None = None
) -> Iterator[tuple[Container, View] | Finding]:
    """Yield the containers in some ranges of a view, each with its own bytes.

    The ranges are half open, relative to the view, in order, and do not overlap. With ``may_be_cut`` a container that
    extends beyond the end of the view is yielded too, with findings of severity ``error``; if nothing of it can be
    read, it is a finding itself. Yields a finding if the search ends at a limit. ``passed`` gets the positions of other
    magics between the containers.
    """
    hits_left, bytes_left, empty_left = _FALSE_HITS, _FALSE_RATIO * len(view) + _FALSE_BYTES, _EMPTY
    for start, end in ranges:
        if end - start < _LEAST:
            continue
        region = view.slice(start, end - start)
        magics = MagicSearcher(region, _READABLE, passed, start)
        at = magics.after(0)
        while at < len(region):
            name = formats.format_at(region, at) or ""
            size = _claimed(name, region, at) if name in formats.MODULES else 0
            container = _genuine(name, region, at) if 0 < size <= len(region) - at else None
            if container is not None:
                yield container, region.slice(at, container.span.size)
                at = magics.after(at + max(container.span.size, 4))
                continue
            left = _cut(name, region, at) if may_be_cut and end == len(view) else None
            if isinstance(left, Finding):
                # Inside may be a container that can be read in part.
                yield left
                at = magics.after(at + 4)
                continue
            if left is not None:
                yield left, region.slice(at, left.span.size)
                at = magics.after(resume_position(region, left))
                continue
            if size and empty_left and _is_empty(name, region, at, size):
                empty_left -= 1
                at = magics.after(at + size)
                continue
            hits_left -= 1
            bytes_left -= size if size <= len(region) - at else 0
            if hits_left < 0 or bytes_left < 0:
                many = f"more than {_FALSE_HITS}" if hits_left < 0 else "many large"
                text = f"{many} places have a magic and no container; the rest is not searched"
                yield finding("FP1005", region.span(at), text)
                return
            at = magics.after(at + 1)
        if passed is not None:
            passed.ranges.append((start, end))


def _claimed(name: str, region: View, at: int) -> int:
    if name in formats.plugin_names():
        return formats.get_format(name).extent(region, at) or 0
    from fatpack.scanner import truncated

    return truncated.claimed_size(name, region, at)


def _genuine(name: str, region: View, at: int) -> Container | None:
    """Return the container at a magic if it is whole and holds an image, else None."""
    try:
        container = formats.get_format(name).parse(region, at)
    except (FormatError, Unsupported):
        return None
    is_damaged = any(item.severity == "error" for item in container.findings)
    return container if container.images and not is_damaged and container.span.size else None


def _is_empty(name: str, region: View, at: int, size: int) -> bool:
    """Return whether a container is what ``slim`` leaves of one in data: the header of a fat binary alone."""
    return name == "cuda-fatbin" and size == _EMPTY_SIZE and region.head(at + 4, 4) == _EMPTY_HEAD


def _cut(name: str, region: View, at: int) -> Container | Finding | None:
    """Return the container at a magic if it extends beyond the region, or the finding that nothing of it can be read.

    None if it is complete, or no container.
    """
    if name in formats.plugin_names():
        return None
    from fatpack.scanner import truncated

    if not truncated.is_truncated(name, region, at):
        return None
    try:
        return formats.get_format(name).parse(region, at)
    except FormatError as error:
        span = region.span(at)
        return finding("FP1001", span, f"{name}: {error.describe()}", f"{_CUT}; nothing of it is read")
    except Unsupported:
        return None


def resume_position(view: View, container: Container) -> int:
    """Return where a scan continues: after the container, or at a magic inside it if its size is too large."""
    start, end = container.span.start - view.start, container.span.end - view.start
    unknown = container.unknown[-1] if container.unknown else None
    if unknown is not None and unknown.end == container.span.end:
        # If a damaged size is too large, no field describes the last bytes, and the next container starts in them.
        used = unknown.start - container.span.start
        following = start + used + -used % 8
        if following > start and formats.format_by_magic(view.head(following, 24)):
            return following
    return end


class SectionIndex:
    """Finds the section of a host at a position, from (start, end, name, number) rows that do not overlap."""

    def __init__(self, rows: Sequence[tuple[int, int, str, int]]) -> None:
        self._rows = sorted(rows)
        self._starts = [row[0] for row in self._rows]

    def at(self, position: int) -> tuple[str | None, int | None]:
        """Return name and number of the section at a position, None for bytes outside sections."""
        from bisect import bisect_right

        number = bisect_right(self._starts, position) - 1
        if number < 0 or position >= self._rows[number][1]:
            return None, None
        return self._rows[number][2] or None, self._rows[number][3]
