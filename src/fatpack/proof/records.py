"""Images that records of OpenMP and SYCL describe one by one: each is what it was, or zeros from begin to end.

::

    OpenMP   descriptor: number of images u32, padding to a word; pointers: records, begin and end of the entries
             record: pointers: begin and end of the image, begin and end of the entries as in the descriptor
    SYCL     record: version u16 (1 to 3), kind u8 (4, 8), format u8, padding to a word; three strings; versions 1 and
             2: begin and end of a manifest; then begin and end of the image

(Read from what llvm/lib/Frontend/Offloading/OffloadWrapper.cpp of LLVM 22.1 and DPC++'s ClangOffloadWrapper.cpp write.)
The records themselves are memory that must be what it was. What else leads into an image keeps it as it is, but for the
table ``.tgtimg``, which is for tools.
"""

from __future__ import annotations

from fatpack.errors import LimitExceeded
from fatpack.proof.ledger import find_range, merge_ranges
from fatpack.proof.stale import find_words_between
from fatpack.proof.verdict import ProvedImage
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from fatpack.proof.both import ProgramPair
    from fatpack.proof.ledger import Range
    from fatpack.proof.memory import ProgramMemory

#: LIMIT: images that records describe. The library with most that is known to us has 5204.
_MAX_DESCRIBED_IMAGES = 1 << 16

#: version of a record of SYCL → words between its first ones and the pointers to the image
_SYCL = {1: 5, 2: 5, 3: 3}
_SYCL_KINDS = (4, 8)


class ZeroedImages(Record):
    """What became of described images: ``ranges`` are zeros now, ``kept`` and ``dropped`` the images, in order."""

    ranges: Sequence[Range] = ()
    kept: tuple[ProvedImage, ...] = ()
    dropped: tuple[ProvedImage, ...] = ()


def compare_described(both: ProgramPair, named: Sequence[Range], tables: Sequence[Range]) -> ZeroedImages:
    """Compare the images that records describe in the ranges ``named``. ``tables`` lead there for tools alone."""
    before, after, ledger = both.before, both.after, both.ledger
    ranges: list[Range] = []
    kept, dropped = [], []
    for low, high in named:
        into = _into(both, low, high)
        found = _records(both, into)
        words = {place + step for place in found for step in (0, before.word)}
        images = sorted({(into[place], into[place + before.word]) for place in found})
        others = _others(before, into, words, {start for start, _ in images}, merge_ranges(tables))
        for start, end in images:
            before.charge(end - start)
            fact = ProvedImage("described image", start, end - start, before.digest(start, end - start))
            if before.first_byte(start, end) == end or after.first_byte(start, end) < end:
                kept.append(fact)
                continue
            dropped.append(fact)
            ranges.append((start, end))
            if any(start <= value < end for value in others):
                ledger.differ("image that something else than a record leads to", address=start, expected="as it was")
        gone = merge_ranges(ranges)
        for start, end in images:
            where = find_range(start, gone) or find_range(max(start, end - 1), gone)
            if where is not None and not (where[0] <= start and end <= where[1]):
                ledger.differ("image that overlaps one that is gone", address=start, expected="as it was")
    return ZeroedImages(merge_ranges(ranges), tuple(kept), tuple(dropped))


def _others(
    memory: ProgramMemory,
    into: Mapping[int, int],
    words: Collection[int],
    starts: Collection[int],
    tables: Sequence[Range],
) -> list[int]:
    """Return where something else than records leads.

    In a program that is not relocated any word may be a number: there only the begins of images count.
    """
    found = {value for place, value in into.items() if place not in words and not find_range(place, tables)}
    return sorted(found & set(starts) if memory.is_fixed else found)


def _into(both: ProgramPair, low: int, high: int) -> dict[int, int]:
    """Return the words that lead between two addresses, both included, and where."""
    memory = both.before
    found = dict(both.leading(memory, low, high + 1))
    if memory.is_fixed:
        loaded = [(each.start, each.filled) for each in memory.stretches]
        found |= dict(find_words_between(memory, loaded, low + memory.base, high + 1 + memory.base))
    if len(found) > 4 * _MAX_DESCRIBED_IMAGES:
        raise LimitExceeded(
            f"more than {4 * _MAX_DESCRIBED_IMAGES} words lead to device images", expected=f"at most {4 * _MAX_DESCRIBED_IMAGES}",
            chain=memory.view.chain,
        )  # fmt: skip
    known = {place: pointer.value for place, pointer in both.resolve(memory, found.keys()).items()}
    return {place: value for place, value in known.items() if value is not None and low <= value <= high}


def _records(both: ProgramPair, into: Mapping[int, int]) -> list[int]:
    """Return the addresses of the pointers to the begin of each image that a record describes."""
    memory, word = both.before, both.before.word
    begins = [place for place in into if place + word in into and into[place] < into[place + word]]
    found = {place for place in begins if _is_sycl(memory, place)}
    left = {place for place in begins if place not in found}
    if left:
        heads = _into(both, min(left), max(left))
        found |= set(_openmp(both, left, heads))
    return sorted(found)


def _is_sycl(memory: ProgramMemory, place: int) -> bool:
    for version, count in _SYCL.items():
        head = memory.read(place - (1 + count) * memory.word, memory.word)
        if head and int.from_bytes(head[:2], memory.order) == version and head[2] in _SYCL_KINDS and not any(head[4:]):
            return True
    return False


def _openmp(both: ProgramPair, begins: Collection[int], heads: Mapping[int, int]) -> Iterator[int]:
    """Yield those of some places at which records of a descriptor begin; ``heads`` are words that may lead to them."""
    memory, word = both.before, both.before.word
    for place, first in heads.items():
        head = memory.read(place - word, word) or b"\xff" * word
        count = int.from_bytes(head[:4], memory.order)
        if any(head[4:]) or not 0 < count <= _MAX_DESCRIBED_IMAGES or first not in begins:
            continue
        rows = [first + 4 * word * number for number in range(count)]
        if not all(row in begins for row in rows):
            continue
        wanted = [at + step * word for at, step in ((place, 1), (place, 2))]
        wanted += [row + step * word for row in rows for step in (2, 3)]
        values = [pointer.value for pointer in map(both.resolve(memory, set(wanted)).__getitem__, wanted)]
        if values == values[:2] * (count + 1):
            yield from rows
