"""Pointers that would lead astray: to where a container was that is elsewhere now, or has become shorter.

The records of the runtimes are followed for themselves. Whatever else in the program leads into device code, a word
that the loader relocates or a symbol that other files see, must find there what was there. Of other words only those
are minded that hold the address of a container that moved, or of an image in it: any may be a number, or text.
"""

from __future__ import annotations

import sys
from array import array

from fatpack.errors import format_hex
from fatpack.proof.ledger import find_range, merge_ranges, subtract_ranges

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from fatpack.proof.containers.model import ProofContainer
    from fatpack.proof.ledger import DifferenceLog, Range
    from fatpack.proof.memory import ProgramMemory

    MovedPair = tuple[ProofContainer, ProofContainer | None]
    PointerFinder = Callable[[ProgramMemory, int, int], Iterator[tuple[int, int]]]
    """Yields the pointers and visible symbols of a program that lead between two addresses: where each is, and where
    it leads."""


def check_dangling_pointers(
    before: ProgramMemory,
    pairs: Iterable[MovedPair],
    records: Collection[int],
    ranges: Sequence[Range],
    leading: PointerFinder,
    ledger: DifferenceLog,
) -> None:
    """Check that nothing but ``records`` leads to bytes of containers that are not where they were.

    ``ranges`` are device code: no pointers are in it.
    """
    gone = merge_ranges(_gone(old, new) for old, new in pairs if not _is_as_it_was(old, new))
    if not gone:
        return
    for place, value in leading(before, gone[0][0], gone[-1][1]):
        if place not in records and not find_range(place, ranges) and find_range(value, gone):
            expected = f"what it leads to, {format_hex(value)}, where it was"
            ledger.differ(
                "pointer or symbol that no record is", address=place, expected=expected, found="something else"
            )


def _gone(old: ProofContainer, new: ProofContainer | None) -> Range:
    """Return the addresses at which other bytes are now; a container that starts where it did can be found there."""
    return (old.start if new is None or new.start != old.start else old.start + 1), old.end


def _is_as_it_was(old: ProofContainer, new: ProofContainer | None) -> bool:
    def facts(container: ProofContainer) -> object:
        images = [(image.title, image.size, image.digest, image.rest) for image in container.images]
        return container.start, container.end, container.head, container.method, images

    return new is not None and facts(old) == facts(new)


def check_dangling_words(
    before: ProgramMemory,
    ranges: Sequence[Range],
    pairs: Collection[MovedPair],
    records: Collection[int],
    ledger: DifferenceLog,
) -> None:
    """Check that no word outside of device code but ``records`` holds the address of a container that moved.

    Whether the loader relocates it or not: nobody knows how such a container is reached. In a program that is not
    relocated no word leads to an image in one that is not what it was, either.
    """
    moved = {old.start + before.base for old, new in pairs if new is None or new.start != old.start}
    if before.is_fixed:
        moved |= {at + before.base for old, new in pairs if not _is_as_it_was(old, new) for at in old.inner}
    if not moved:
        return
    loaded = subtract_ranges([(item.start, item.filled) for item in before.stretches], ranges)
    for place, value in find_words(before, loaded, moved):
        if place in records:
            continue
        ledger.differ(
            "container that moved or shrank, led to by no record",
            address=value - before.base,
            expected="the address that a word of the program holds",
            found=place,
        )
        return


def find_words(memory: ProgramMemory, ranges: Iterable[Range], values: Collection[int]) -> Iterator[tuple[int, int]]:
    """Yield the words at multiples of their size that hold one of some values: address and value."""
    wanted = frozenset(values)
    for start, end in ranges:
        for address, data in memory.windows(start + -start % memory.word, end):
            words = split_into_words(memory, data)
            if not wanted.isdisjoint(words):
                yield from ((address + at * memory.word, word) for at, word in enumerate(words) if word in wanted)


def find_words_between(
    memory: ProgramMemory, ranges: Iterable[Range], low: int, high: int
) -> Iterator[tuple[int, int]]:
    """Yield the words at multiples of their size that hold an address from ``low`` to below ``high``.

    Both are with what pointers have on top; address and value are yielded as the program's own.
    """
    for start, end in ranges:
        for address, data in memory.windows(start + -start % memory.word, end):
            for number, value in enumerate(split_into_words(memory, data)):
                if low <= value < high:
                    yield address + number * memory.word, value - memory.base


def split_into_words(memory: ProgramMemory, data: bytes) -> array[int]:
    """Return bytes as words of the program; what is left over at their end is dropped."""
    words = array("Q" if memory.word == 8 else "I", data[: len(data) - len(data) % memory.word])
    if sys.byteorder != memory.order:
        words.byteswap()
    return words
