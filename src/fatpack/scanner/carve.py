"""Containers outside the places where they belong: in ``.rodata``, ``.data``, sections of a producer's own, anywhere.

Bytes that no host has named are searched for magics, and every hit is read as a container, strictly: a program that
only knows the magic (a driver, a compiler, this text) has it in its data as well. What does not hold at least one
image, all of it intact, is no container here and no damage either. But a file that was cut short may end in a container
of which something is left (:mod:`fatpack.scanner.truncated`): that is taken with its damage.

Device images that are in no container are looked for in what is left of the data of programs, and if all of a file is
to be searched (:mod:`fatpack.scanner.bare_images`).

Everything stays linear: each block is searched once from front to back, a container that was read is stepped over,
and a file with too many false hits is given up.
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

#: LIMIT: hits that turn out to be no container, per file. Compilers and drivers have a few dozen.
_FALSE_HITS = 1000

#: LIMIT: bytes that these hits claim to have, as long as they are there: so many times the file, and as many more.
#: Their entries are walked until one is wrong, and thousands of hits could lead into the same entries.
_FALSE_RATIO = 4
_FALSE_BYTES = 1 << 20

#: A search starts with blocks of this size, and doubles them while it finds nothing.
_FIRST_BLOCK = 8 << 10

#: What is wrong with a container that goes on behind the end of the file.
_CUT = "the file looks cut short"

#: The fewest bytes that hold a container with an image: what lies between two sections is shorter, as a rule.
_LEAST = 32

#: Ranges that are not further from each other than this are searched as one: neighbours with padding between them.
_NEAR = 64

# What plug-ins read is searched for too, and this module is imported where something is searched.
formats.add_plugins()

#: What a search looks for: the magics of formats that have a room.
_READABLE = tuple(magic for magic, name in formats.MAGICS.items() if name in formats.MODULES)
_LONGEST_MAGIC = max(map(len, formats.MAGICS))


#: Patterns of three classes of bytes that a word of each magic may have; all others are of class 0. The more of them
#: differ, the fewer bytes have the pattern by chance.
_PATTERNS = (b"\1\2\3", b"\1\2\2", b"\1\1\2")

#: LIMIT: words of a block that belong to no magic. Beyond these it is searched for one magic after the other. Random
#: bytes have about 50 in a MiB, and to compare 1000 takes as long as to search a MiB.
_FALSE_WORDS = 1000


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
    for at in sorted(range(len(magic) - 2), key=lambda at: sum(map(_COMMON.count, magic[at : at + 3]))):
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


class MagicSearcher:
    """Where a magic occurs next: one block of the bytes is looked at at a time, and each only once.

    All magics are looked for at once, or one after the other in a block with many false words. None of them starts with
    what another ends in, so that the first word is that of the first magic.
    """

    def __init__(self, view: View, magics: Sequence[bytes] = tuple(formats.MAGICS)) -> None:
        self._view = view
        self._magics = magics
        self._words = _words(tuple(magics))
        self._size = len(view)
        #: a block, the same translated, where it starts and up to where magics may start in it
        self._block = self._translated = b""
        self._start, self._end = 0, 0
        #: where each magic occurs next, if they are looked for one after the other
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
                self._step = _FIRST_BLOCK  # most hits are containers, whose bytes are stepped over
                return found
            at = self._end
        return self._size

    def _first(self, at: int) -> int:
        """Return where the first magic of the block is from a position on, the size of the view for none."""
        if self._words is None:
            self._next = dict.fromkeys(self._magics, -1)
            return self._one_by_one(self._next, at)
        words, pattern, block, translated = self._words.found, self._words.pattern, self._block, self._translated
        low = at - self._start
        hit = translated.find(pattern, low)
        while hit >= 0:
            magic, place = words.get(block[hit : hit + 3], (b"", 0))
            if magic and hit - place >= low and block.startswith(magic, hit - place):
                return self._start + hit - place
            self._false_words += 1
            if self._false_words > _FALSE_WORDS:
                self._next = dict.fromkeys(self._magics, -1)
                return self._one_by_one(self._next, at)
            hit = translated.find(pattern, hit + 1)
        return self._size

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
    """Yield the parts of ``size`` bytes that lie in none of some ranges, in order."""
    reached = 0
    for start, end in sorted(ranges):
        if start > reached:
            yield reached, start
        reached = max(reached, end)
    if reached < size:
        yield reached, size


def intersect_ranges(some: Sequence[tuple[int, int]], others: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the parts that lie in both of two lists of ranges, in order; neighbours become one."""
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
    """Yield ranges in order, with those that overlap or are near to each other as one."""
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
    view: View, ranges: Iterable[tuple[int, int]], *, may_be_cut: bool = False
) -> Iterator[tuple[Container, View] | Finding]:
    """Yield the containers in some ranges of a view, each with its own bytes.

    The ranges are half open, relative to the view, in order, and do not overlap. With ``may_be_cut`` a container that
    goes on behind the end of the view is taken too, with findings of severity ``error``; one of which nothing can be
    read is a finding itself. Yields a finding when the search is given up.
    """
    hits_left, bytes_left = _FALSE_HITS, _FALSE_RATIO * len(view) + _FALSE_BYTES
    for start, end in ranges:
        if end - start < _LEAST:
            continue
        region = view.slice(start, end - start)
        magics = MagicSearcher(region, _READABLE)
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
                # What is inside may be a container that can be read in parts.
                yield left
                at = magics.after(at + 4)
                continue
            if left is not None:
                yield left, region.slice(at, left.span.size)
                at = magics.after(resume_position(region, left))
                continue
            hits_left -= 1
            bytes_left -= size if size <= len(region) - at else 0
            if hits_left < 0 or bytes_left < 0:
                many = f"more than {_FALSE_HITS}" if hits_left < 0 else "many large"
                text = f"{many} places have a magic and no container; the rest is not searched"
                yield finding("FP1005", region.span(at), text)
                return
            at = magics.after(at + 1)


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


def _cut(name: str, region: View, at: int) -> Container | Finding | None:
    """Return the container at a magic that goes on behind the region, or why nothing of it can be read.

    None if it is whole, or does not look like one.
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
    """Return where a walk goes on: behind the container, or at a magic that a too large size has swallowed."""
    start, end = container.span.start - view.start, container.span.end - view.start
    unknown = container.unknown[-1] if container.unknown else None
    if unknown is not None and unknown.end == container.span.end:
        # A damaged size that is too large ends in bytes no field describes, and in them the next container starts.
        used = unknown.start - container.span.start
        following = start + used + -used % 8
        if following > start and formats.format_by_magic(view.head(following, 24)):
            return following
    return end


class SectionIndex:
    """Which section of a host a position lies in; made of (start, end, name, number) rows that do not overlap."""

    def __init__(self, rows: Sequence[tuple[int, int, str, int]]) -> None:
        self._rows = sorted(rows)
        self._starts = [row[0] for row in self._rows]

    def at(self, position: int) -> tuple[str | None, int | None]:
        """Return name and number of the section at a position, None for bytes of no section."""
        from bisect import bisect_right

        number = bisect_right(self._starts, position) - 1
        if number < 0 or position >= self._rows[number][1]:
            return None, None
        return self._rows[number][2] or None, self._rows[number][3]
