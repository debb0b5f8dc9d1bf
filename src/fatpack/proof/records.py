"""Images that records of OpenMP and SYCL describe one by one: each is unchanged, or zeros from begin to end.

::

    OpenMP   descriptor: number of images u32, padding to a word; pointers: records, begin and end of the entries
             record: pointers: begin and end of the image, begin and end of the entries as in the descriptor
    SYCL     record: version u16 (1 to 3), kind u8 (4, 8), format u8, padding to a word; three strings; versions 1 and
             2: begin and end of a manifest; then begin and end of the image

(From the output of llvm/lib/Frontend/Offloading/OffloadWrapper.cpp of LLVM 22.1 and DPC++'s ClangOffloadWrapper.cpp.)
The records themselves are memory that must be unchanged. An image to which another reference leads must be unchanged
too, except for the table ``.tgtimg``, which is for tools.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left

from fatpack.errors import LimitExceeded, format_hex
from fatpack.proof.containers import is_container_start
from fatpack.proof.ledger import (
    ProvedImage,
    compare_views,
    find_range,
    merge_ranges,
    subtract_ranges,
)
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from typing import TypeAlias

    from fatpack.io.source import View
    from fatpack.proof import ProgramPair
    from fatpack.proof.containers.model import ProofContainer
    from fatpack.proof.ledger import DifferenceLog, Range
    from fatpack.proof.memory import ProgramMemory

    PointerResolver = Callable[[ProgramMemory, Collection[int]], Mapping[int, "RecordPointer"]]
    """Returns the values of the pointers at some addresses after the loader has relocated them."""

    FilePart: TypeAlias = tuple[int, int, int]
    """A part of the edited file: its start, its end, and the end of the same part in the other file.

    The last number is the offset of the cut, if the part was cut.
    """

    MovedPair = tuple[ProofContainer, ProofContainer | None]
    PointerFinder = Callable[[ProgramMemory, int, int], Iterator[tuple[int, int]]]
    """Yields the pointers and visible symbols of a program with values between two addresses: their addresses and
    values."""


# The records that register containers, found by their magic at any loaded address.
#
# ::
#
#     0x00  magic u32: 0x466243b1 (CUDA), 0x48495046 (HIP)   0x04  version u32   0x08  pointer to the container
#
# (CUDA's ``fatbinary_section.h``; clang/lib/CodeGen/CGCUDANV.cpp, LLVM 22.1.) A match that leads to no container is not
# a record, and so must be unchanged.

#: magic → versions
_MAGICS = {0x466243B1: (1, 2), 0x48495046: (1,)}

#: bytes of a container's start that are read
_START = 24

#: LIMIT: records of a program. The largest known number is 845.
_MAX_RECORDS = 1 << 16


class RecordPointer(Record):
    """A pointer: ``value`` is the address that it holds when the program runs, ``in_place`` the word in the file.

    ``addend`` is the range from which the loader takes the value if it is not that word: address and size in bytes. The
    value is None if it depends on other files or has an unknown relocation.
    """

    value: int | None
    in_place: int | None
    addend: tuple[int, int] | None = None


def find_records(memory: ProgramMemory, ranges: Sequence[Range], resolve: PointerResolver) -> dict[int, RecordPointer]:
    """Return the pointers of all records that lead to a container, by their addresses, in order.

    ``ranges`` hold device code, in which nothing is searched. Raises LimitExceeded for an implausible number.
    """
    found: set[int] = set()
    for loaded in memory.loaded_ranges:
        for start, end in subtract_ranges([(loaded.start, loaded.filled)], ranges):
            for magic, versions in _MAGICS.items():
                found.update(_find_magic(memory, start, end, magic, versions))
                if len(found) > _MAX_RECORDS:
                    raise LimitExceeded(
                        f"more than {_MAX_RECORDS} places look like records of device code",
                        offset=loaded.at,
                        expected=f"at most {_MAX_RECORDS}",
                        chain=memory.view.chain,
                    )
    pointers = resolve(memory, found)
    return {
        place: pointers[place]
        for place in sorted(found)
        if (value := pointers[place].value) is not None
        and is_container_start(memory.read(value, _START) or _last_bytes(memory, value))
    }


def _last_bytes(memory: ProgramMemory, address: int) -> bytes:
    """Return the loaded bytes at an address, if they are shorter than the longest magic."""
    loaded = memory.loaded_range(address)
    return b"" if loaded is None else memory.read(address, min(_START, loaded.end - address)) or b""


def _find_magic(memory: ProgramMemory, start: int, end: int, magic: int, versions: Sequence[int]) -> list[int]:
    """Return the addresses of pointers after a magic and one of its versions."""
    word, found = memory.word, []
    loaded = memory.loaded_range(start)
    if loaded is None:
        return []
    for version in versions:
        head = magic.to_bytes(4, memory.order) + version.to_bytes(4, memory.order)
        shift = loaded.at - loaded.start
        part = memory.view.slice(start + shift, end - start)
        at = part.find(head)
        while at >= 0:
            if (start + at) % word == 0 and start + at + 8 + word <= end:
                found.append(start + at + 8)
            at = part.find(head, at + 4)
    return found


# The bytes of a file outside its parts: padding between parts, and bytes after the last one.


def compare_padding(
    before: View, after: View, old_parts: Iterable[Range], new_parts: Iterable[FilePart], ledger: DifferenceLog
) -> None:
    """Compare the bytes of two files outside of their parts.

    They are unchanged, except that there may be more or fewer zeros between parts. The bytes after the last part are
    unchanged.
    """
    parts = list(old_parts)
    starts, end = sorted(start for start, _ in parts), max((stop for _, stop in parts), default=0)
    at, old_at = 0, 0
    for start, stop, old_stop in sorted(new_parts):
        if start > at:
            _compare_gap(before, after, (at, start), (old_at, _next(starts, old_at)), ledger)
        if stop >= at:
            at, old_at = stop, old_stop
    compare_views("bytes after the last part", _bytes_after(before, end), _bytes_after(after, at), ledger)


def _bytes_after(view: View, at: int) -> View:
    return view.slice(min(at, len(view)), max(0, len(view) - at))


def _next(starts: Sequence[int], at: int) -> int:
    """Return the start of the first part at or after an offset; the offset if there is none."""
    number = bisect_left(starts, at)
    return starts[number] if number < len(starts) else at


def _compare_gap(before: View, after: View, gap: Range, old: Range, ledger: DifferenceLog) -> None:
    """Compare bytes between two parts: they are unchanged, except for the number of zeros."""
    new, old_size = after.slice(gap[0], gap[1] - gap[0]), max(0, old[1] - old[0])
    if len(new) != old_size and new.is_zero():
        return
    common = min(len(new), old_size)
    if common:
        compare_views("bytes between parts of the file", before.slice(old[0], common), new.slice(0, common), ledger)
    at = new.skip_zeros(common)
    if at < len(new):
        ledger.differ("bytes between parts of the file", offset=new.offset(at), expected="zeros", found="other bytes")


# Dangling pointers: to the old place of a container that was moved or became shorter.
#
# The runtimes' records are compared separately. Any other pointer into device code, a word that the loader relocates or
# a symbol that other files see, must lead to unchanged bytes. Other words count only if they hold the address of a
# moved container or of an image in it: any word may be a number, or text.


def changed_containers(pairs: Iterable[MovedPair]) -> list[Range]:
    """Return the old places of containers that changed, in order."""
    return merge_ranges(_changed_range(old, new) for old, new in pairs if not _is_unchanged(old, new))


def check_tables(tables: Iterable[tuple[str, Range]], gone: Sequence[Range], ledger: DifferenceLog) -> None:
    """Check that no table that the loader reads is in device code that changed: its bytes are not compared there."""
    for name, (start, end) in tables:
        if subtract_ranges([(start, end)], gone) != [(start, end)]:
            ledger.differ("table of the loader in device code", address=start, expected="as it was", found=name)


def check_dangling_pointers(
    before: ProgramMemory,
    gone: Sequence[Range],
    records: Collection[int],
    ranges: Sequence[Range],
    find_pointers: PointerFinder,
    ledger: DifferenceLog,
) -> None:
    """Check that only ``records`` lead to bytes of containers that moved.

    ``gone`` are their old places. ``ranges`` are device code: no pointers are in it.
    """
    if not gone:
        return
    for place, value in find_pointers(before, gone[0][0], gone[-1][1]):
        if place not in records and not find_range(place, ranges) and find_range(value, gone):
            expected = f"what it leads to, {format_hex(value)}, where it was"
            ledger.differ(
                "pointer or symbol that no record is", address=place, expected=expected, found="something else"
            )


def _changed_range(old: ProofContainer, new: ProofContainer | None) -> Range:
    """Return the addresses with other bytes now; a container with the same start can still be found there."""
    return (old.start if new is None or new.start != old.start else old.start + 1), old.end


def _is_unchanged(old: ProofContainer, new: ProofContainer | None) -> bool:
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
    """Check that only ``records`` hold the address of a moved container among the words outside device code.

    This includes words that the loader does not relocate: the references to such a container are unknown. In a program
    that is not relocated no word may lead to an image in a changed container, either.
    """
    moved = {old.start + before.base for old, new in pairs if new is None or new.start != old.start}
    if before.is_fixed:
        moved |= {at + before.base for old, new in pairs if not _is_unchanged(old, new) for at in old.inner}
    if not moved:
        return
    loaded = subtract_ranges([(item.start, item.filled) for item in before.loaded_ranges], ranges)
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
    sought = frozenset(values)
    for start, end in ranges:
        for address, data in memory.windows(start + -start % memory.word, end):
            words = split_into_words(memory, data)
            if not sought.isdisjoint(words):
                yield from ((address + at * memory.word, word) for at, word in enumerate(words) if word in sought)


def find_words_between(
    memory: ProgramMemory, ranges: Iterable[Range], low: int, high: int
) -> Iterator[tuple[int, int]]:
    """Yield the words at multiples of their size that hold an address from ``low`` to below ``high``.

    Both limits include the base of the program's pointers; address and value are yielded without it.
    """
    for start, end in ranges:
        for address, data in memory.windows(start + -start % memory.word, end):
            for number, value in enumerate(split_into_words(memory, data)):
                if low <= value < high:
                    yield address + number * memory.word, value - memory.base


def split_into_words(memory: ProgramMemory, data: bytes) -> array[int]:
    """Return bytes as words of the program; an incomplete word at their end is dropped."""
    words = array("Q" if memory.word == 8 else "I", data[: len(data) - len(data) % memory.word])
    if sys.byteorder != memory.order:
        words.byteswap()
    return words


#: LIMIT: images that records describe. The largest known number in a library is 5204.
_MAX_DESCRIBED_IMAGES = 1 << 16

#: version of a record of SYCL → words between its first ones and the pointers to the image
_SYCL = {1: 5, 2: 5, 3: 3}
_SYCL_KINDS = (4, 8)


class ZeroedImages(Record):
    """The described images after an edit: ``ranges`` are zeros now, ``kept`` and ``dropped`` the images, in order."""

    ranges: Sequence[Range] = ()
    kept: tuple[ProvedImage, ...] = ()
    dropped: tuple[ProvedImage, ...] = ()


def compare_described(pair: ProgramPair, sections: Sequence[Range], tables: Sequence[Range]) -> ZeroedImages:
    """Compare the images that records describe in the ranges ``sections``. ``tables`` point to them for tools alone."""
    before, after, ledger = pair.before, pair.after, pair.ledger
    ranges: list[Range] = []
    kept, dropped = [], []
    for low, high in sections:
        pointers = _pointers_into(pair, low, high)
        found = _record_pointers(pair, pointers)
        words = {place + step for place in found for step in (0, before.word)}
        images = sorted({(pointers[place], pointers[place + before.word]) for place in found})
        referenced = _other_references(before, pointers, words, {start for start, _ in images}, merge_ranges(tables))
        for start, end in images:
            before.charge(end - start)
            fact = ProvedImage("described image", start, end - start, before.digest(start, end - start))
            if before.first_byte(start, end) == end or after.first_byte(start, end) < end:
                kept.append(fact)
                continue
            dropped.append(fact)
            ranges.append((start, end))
            if any(start <= value < end for value in referenced):
                ledger.differ("image that something else than a record leads to", address=start, expected="as it was")
        zeroed = merge_ranges(ranges)
        for start, end in images:
            where = find_range(start, zeroed) or find_range(max(start, end - 1), zeroed)
            if where is not None and not (where[0] <= start and end <= where[1]):
                ledger.differ("image that overlaps one that is gone", address=start, expected="as it was")
    return ZeroedImages(merge_ranges(ranges), tuple(kept), tuple(dropped))


def _other_references(
    memory: ProgramMemory,
    pointers: Mapping[int, int],
    words: Collection[int],
    starts: Collection[int],
    tables: Sequence[Range],
) -> list[int]:
    """Return the images to which references other than records lead.

    In a program that is not relocated any word may be a number: there only the begins of images count.
    """
    found = {value for place, value in pointers.items() if place not in words and not find_range(place, tables)}
    return sorted(found & set(starts) if memory.is_fixed else found)


def _pointers_into(pair: ProgramPair, low: int, high: int) -> dict[int, int]:
    """Return the words that hold values between two addresses, both included, with the values."""
    memory = pair.before
    found = dict(pair.find_pointers(memory, low, high + 1))
    if memory.is_fixed:
        loaded = [(each.start, each.filled) for each in memory.loaded_ranges]
        found |= dict(find_words_between(memory, loaded, low + memory.base, high + 1 + memory.base))
    if len(found) > 4 * _MAX_DESCRIBED_IMAGES:
        raise LimitExceeded(
            f"more than {4 * _MAX_DESCRIBED_IMAGES} words lead to device images",
            expected=f"at most {4 * _MAX_DESCRIBED_IMAGES}",
            chain=memory.view.chain,
        )
    values = {place: pointer.value for place, pointer in pair.resolve(memory, found.keys()).items()}
    return {place: value for place, value in values.items() if value is not None and low <= value <= high}


def _record_pointers(pair: ProgramPair, pointers: Mapping[int, int]) -> list[int]:
    """Return the addresses of the pointers to the begin of each image that a record describes."""
    memory, word = pair.before, pair.before.word
    begins = [place for place in pointers if place + word in pointers and pointers[place] < pointers[place + word]]
    found = {place for place in begins if _is_sycl(memory, place)}
    remaining = {place for place in begins if place not in found}
    if remaining:
        heads = _pointers_into(pair, min(remaining), max(remaining))
        found |= set(_openmp(pair, remaining, heads))
    return sorted(found)


def _is_sycl(memory: ProgramMemory, place: int) -> bool:
    for version, count in _SYCL.items():
        head = memory.read(place - (1 + count) * memory.word, memory.word)
        if head and int.from_bytes(head[:2], memory.order) == version and head[2] in _SYCL_KINDS and not any(head[4:]):
            return True
    return False


def _openmp(pair: ProgramPair, begins: Collection[int], heads: Mapping[int, int]) -> Iterator[int]:
    """Yield the ``begins`` at which records of a descriptor begin; ``heads`` are words that may lead to them."""
    memory, word = pair.before, pair.before.word
    for place, first in heads.items():
        head = memory.read(place - word, word) or b"\xff" * word
        count = int.from_bytes(head[:4], memory.order)
        if any(head[4:]) or not 0 < count <= _MAX_DESCRIBED_IMAGES or first not in begins:
            continue
        records = [first + 4 * word * number for number in range(count)]
        if not all(record in begins for record in records):
            continue
        places = [at + step * word for at, step in ((place, 1), (place, 2))]
        places += [record + step * word for record in records for step in (2, 3)]
        values = [pointer.value for pointer in map(pair.resolve(memory, set(places)).__getitem__, places)]
        if values == values[:2] * (count + 1):
            yield from records
