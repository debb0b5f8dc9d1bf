"""Containers outside the places where they belong: in ``.rodata``, ``.data``, sections of a producer's own, anywhere.

Bytes that no host has named are searched for magics, and every hit is read as a container, strictly: a program that
only knows the magic (a driver, a compiler, this text) has it in its data as well. What does not hold at least one
image, all of it intact, is no container here and no damage either.

Everything stays linear: each magic is searched for once from front to back, a container that was read is stepped over,
and a file with too many false hits is given up.
"""

from __future__ import annotations

from bisect import bisect_right

from fatpack import formats
from fatpack.errors import FormatError, Unsupported
from fatpack.findings import finding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fatpack.io.source import View
    from fatpack.model import Container, Finding

#: LIMIT: hits that turn out to be no container, per file. Each costs at most one walk over a table of entries;
#: compilers and drivers have a few dozen.
_FALSE_HITS = 1000


class NextMagic:
    """Where each magic occurs next: every search goes on where the last one ended."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._next = dict.fromkeys(formats.MAGICS, -1)

    def after(self, at: int) -> int:
        """Return the first position of any magic at or after ``at``, or the end of the view."""
        for magic, place in self._next.items():
            if place < at:
                hit = self._view.find(magic, at)
                self._next[magic] = hit if hit >= 0 else len(self._view)
        return min(self._next.values())


def search(view: View, known: Sequence[tuple[int, int]]) -> Iterator[tuple[Container, View] | Finding]:
    """Yield the containers in the bytes of a view that lie outside the ``known`` ranges, each with its own bytes.

    The ranges are half open, relative to the view and in any order. Yields a finding when the search is given up.
    """
    false_hits = 0
    for start, end in _between(known, len(view)):
        region = view.slice(start, end - start)
        magics = NextMagic(region)
        at = magics.after(0)
        while at < len(region):
            container = _genuine(region, at)
            if container is not None:
                yield container, region.slice(at, container.span.size)
                at = magics.after(at + max(container.span.size, 4))
                continue
            false_hits += 1
            if false_hits > _FALSE_HITS:
                text = f"more than {_FALSE_HITS} places have a magic and no container; the rest is not searched"
                yield finding("FP1005", region.span(at), text)
                return
            at = magics.after(at + 1)


def _between(known: Sequence[tuple[int, int]], size: int) -> Iterator[tuple[int, int]]:
    reached = 0
    for start, end in sorted(known):
        if start > reached:
            yield reached, start
        reached = max(reached, end)
    if reached < size:
        yield reached, size


def _genuine(region: View, at: int) -> Container | None:
    """Return the container at a magic if it is whole and holds an image, else None."""
    name = formats.sniff(region.head(at, 24))
    if name is None or name not in formats.ROOMS:
        return None
    try:
        container = formats.room(name).parse(region, at)
    except (FormatError, Unsupported):
        return None
    is_damaged = any(item.severity == "error" for item in container.findings)
    return container if container.images and not is_damaged and container.span.size else None


class Sections:
    """Which section of a host a position lies in; made of (start, end, name, number) rows that do not overlap."""

    def __init__(self, rows: Sequence[tuple[int, int, str, int]]) -> None:
        self._rows = sorted(rows)
        self._starts = [row[0] for row in self._rows]

    def at(self, position: int) -> tuple[str | None, int | None]:
        """Return name and number of the section at a position, None for bytes of no section."""
        number = bisect_right(self._starts, position) - 1
        if number < 0 or position >= self._rows[number][1]:
            return None, None
        return self._rows[number][2] or None, self._rows[number][3]
