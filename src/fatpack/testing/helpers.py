"""Where the laws damage a file: at the fields that readers know, and here and there between them.

A reader goes by the values of fields, so damage to each of them is worth a try; of the many bytes that are only
passed on, compared or inflated, some are enough. The slow laws try every byte, or many more of them; a quick run takes
:func:`some` places of each file, others in every file.
"""

from __future__ import annotations

from collections.abc import Iterable
from zlib import crc32

from fatpack.model import Label

#: Longer fields are strings and hashes: what holds for one of their bytes holds for its neighbour.
NUMBER = 8

#: Sizes that no file has: negative where there is a sign, and too large for eight bytes or for four.
HUGE = (2**63, 2**40, 2**32 - 1)


def damage_places(labels: Iterable[Label], others: int) -> list[int]:
    """Return each byte of every number that the labels name, and up to ``others`` of the rest."""
    numbers, rest = _parted(labels)
    return sorted([at for start, end in numbers for at in range(start, end)] + _spread(rest, others, 0))


def number_ends(labels: Iterable[Label], others: int, *, last: bool) -> list[int]:
    """Return the first byte of every number, or the last one, and up to ``others`` bytes of the rest."""
    numbers, rest = _parted(labels)
    return sorted([end - 1 if last else start for start, end in numbers] + _spread(rest, others, 0.5 * last))


def number_starts(labels: Iterable[Label], size: int, others: int) -> list[int]:
    """Return where the numbers are that can claim a size, and up to ``others`` places of the rest.

    Eight bytes fit into each place of a file of ``size`` bytes.
    """
    numbers, rest = _parted(labels)
    wide = [start for start, end in numbers if end - start >= 4]
    return sorted(at for at in wide + _spread(rest, others, 0) if at + 8 <= size)


def sample(places: list[int], count: int, name: str) -> list[int]:
    """Return at most ``count`` of the places, at equal distances; the name of the file decides where they begin."""
    return _spread(places, count, crc32(name.encode()) / (1 << 32))


def _parted(labels: Iterable[Label]) -> tuple[list[tuple[int, int]], list[int]]:
    """Return the ranges of numbers, and all other bytes."""
    numbers: list[tuple[int, int]] = []
    rest: list[int] = []
    for label in labels:
        start, end = label.span.start, label.span.end
        if label.kind == "field" and end - start <= NUMBER:
            numbers.append((start, end))
        else:
            rest.extend(range(start, end))
    return numbers, rest


def _spread(places: list[int], count: int, phase: float) -> list[int]:
    """Return at most ``count`` of the places, at equal distances."""
    step = max(1, -(-len(places) // count))
    return places[int(phase * step) :: step]
