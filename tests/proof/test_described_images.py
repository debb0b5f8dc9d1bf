"""Images that records of OpenMP and SYCL describe: one may become zeros, if a whole record is there, and no other."""

from __future__ import annotations

import struct
from collections.abc import Mapping

import pytest
from tests.builders import linked_elf
from tests.builders.linked_elf import fatbin
from tests.proof.elf_forgeries import SM80, patched

from fatpack.io.source import BytesSource
from fatpack.proof import prove
from fatpack.proof.ledger import ProofResult

WORD, IMAGE, ROWS = 8, 48, 24

#: a library with four images, and room for records: where the images are, and the room
LIBRARY = linked_elf.build([fatbin(SM80)], images=bytes(range(1, 1 + 4 * IMAGE)), more_relocations=ROWS)
IMAGES, ROOM = LIBRARY.places[".llvm.offloading"][0], LIBRARY.places[".data"][0] + 64
ENTRIES = LIBRARY.places[".nvFatBinSegment"][0]


def image(number: int) -> tuple[int, int]:
    """Return where an image begins and ends."""
    return IMAGES + IMAGE * number, IMAGES + IMAGE * (number + 1)


def with_words(pointers: Mapping[int, int], numbers: Mapping[int, bytes]) -> bytes:
    """Return the library with pointers that the loader relocates, and other bytes, both by their offset in the room."""
    data = LIBRARY.data
    for row, (at, value) in enumerate(pointers.items(), 1):
        place = LIBRARY.places[".rela.dyn"][0] + 24 * row
        data = patched(data, place, struct.pack("<QQq", ROOM + at, linked_elf.RELATIVE, value))
    for at, number in numbers.items():
        data = patched(data, ROOM + at, number)
    return data


def without(data: bytes, *gone: int) -> ProofResult:
    """Return the proof of a library in which some images became zeros."""
    after = data
    for number in gone:
        after = patched(after, image(number)[0], bytes(IMAGE))
    return prove(BytesSource(data, "a.so").view(), BytesSource(after, "b.so").view())


def openmp(count: int) -> tuple[dict[int, int], dict[int, bytes]]:
    """Return a descriptor behind the records of some images: pointers and numbers, by their offsets."""
    entries = (ENTRIES, ENTRIES + WORD)
    pointers: dict[int, int] = {}
    for number in range(count):
        for step, value in enumerate((*image(number), *entries)):
            pointers[(4 * number + step) * WORD] = value
    at = 4 * count * WORD
    pointers |= {at + WORD: ROOM, at + 2 * WORD: entries[0], at + 3 * WORD: entries[1]}
    return pointers, {at: struct.pack("<II", count, 0)}


@pytest.mark.parametrize("count", [1, 2, 4])
def test_images_of_openmp_may_become_zeros(count: int) -> None:
    data = with_words(*openmp(count))
    for gone in range(count):
        found = without(data, gone)
        assert found.is_proved, found.differences
        start = [each.container for each in found.dropped]
        assert start == [image(gone)[0]]
        assert {each.container for each in found.kept} >= {image(n)[0] for n in range(count) if n != gone}
    assert without(data, *range(count)).is_proved
    if count < 4:
        assert not without(data, count).is_proved


@pytest.mark.parametrize("count", [1, 2, 3])
def test_every_word_of_a_descriptor_of_openmp_counts(count: int) -> None:
    pointers, numbers = openmp(count)
    others = {(4 * number + step) * WORD for number in range(count - 1) for step in (0, 1)}
    for at in pointers.keys() - others:  # other images may have other bounds
        for step in (-WORD, WORD):
            changed = with_words(pointers | {at: pointers[at] + step}, numbers)
            assert not without(changed, count - 1).is_proved, (at, step)
    (at,) = numbers
    for head in [(count - 1, 0), (count + 1, 0), (count, 1), (count, 1 << 24), (0, count), (1 << 31, 0)]:
        assert not without(with_words(pointers, {at: struct.pack("<II", *head)}), count - 1).is_proved, head


def test_the_descriptor_may_be_anywhere() -> None:
    """Records and descriptor need not lie side by side, and words of other values may lie between them."""
    pointers, numbers = openmp(2)
    (at,) = numbers
    far = 1024
    moved = {place + far if place > at else place: value for place, value in pointers.items()}
    assert without(with_words(moved, {at + far: numbers[at]}), 1).is_proved


#: words of a record of SYCL between its first one and the pointers to the image, by version
BETWEEN = {1: 5, 2: 5, 3: 3}


def sycl(version: int, kind: int, between: int, more: bytes = b"") -> bytes:
    """Return the library with a record of SYCL for the second image."""
    start, end = image(1)
    at = (1 + between) * WORD
    head = struct.pack("<HB", version, kind) + more
    return with_words({128 + at: start, 128 + at + WORD: end}, {128: head})


@pytest.mark.parametrize("kind", range(10))
@pytest.mark.parametrize("version", range(5))
def test_an_image_of_sycl_may_become_zeros_where_its_record_is_known(version: int, kind: int) -> None:
    for between in range(2, 7):
        is_known = BETWEEN.get(version) == between and kind in (4, 8)
        assert without(sycl(version, kind, between), 1).is_proved == is_known, between


def test_a_record_of_sycl_has_a_format_and_zeros_behind_it() -> None:
    for more, is_known in ((b"\5", True), (b"\0\1", False), (b"\0\0\0\0\1", False), (b"", True)):
        assert without(sycl(2, 4, 5, more), 1).is_proved == is_known, more


def test_only_the_image_that_a_record_describes_may_become_zeros() -> None:
    data = sycl(3, 4, 3)
    assert not without(data, 0).is_proved
    assert not without(data, 1, 2).is_proved
    partly = patched(data, image(1)[0], bytes(IMAGE - 1))
    assert not prove(BytesSource(data, "a").view(), BytesSource(partly, "b").view()).is_proved


@pytest.mark.parametrize(("value", "is_proved"), [
    (image(1)[0], False), (image(1)[0] + 1, True), (image(1)[1] - 1, True), (image(1)[1], True), (image(2)[0], True),
])  # fmt: skip
def test_words_of_a_fixed_program_count_where_they_hold_the_begin_of_an_image(value: int, is_proved: bool) -> None:
    """Any word may be a number there; where the loader relocates words, one that leads into an image counts."""
    start, end = image(1)
    words = {128: struct.pack("<HB", 3, 4), 160: struct.pack("<QQ", start, end), 512: struct.pack("<Q", value)}
    relocations, size = LIBRARY.places[".rela.dyn"]
    fixed = patched(patched(with_words({}, words), 16, b"\2"), relocations, bytes(size))
    assert without(fixed, 1).is_proved == is_proved
    assert not without(fixed, 0).is_proved
    relocated = with_words({160: start, 168: end, 512: value}, {128: words[128]})
    assert without(relocated, 1).is_proved == (not start <= value < end)


@pytest.mark.parametrize("more", [-IMAGE, 0, 1, 64])
def test_a_record_ends_where_its_symbol_leads(more: int) -> None:
    """The end of its image is in the section, wherever the addend alone would lead."""
    start, end = image(3)
    data = with_words({160: start, 168: end - IMAGE}, {128: struct.pack("<HB", 3, 4)})
    symbol = LIBRARY.places[".dynsym"][0] + 24 + 8
    relocation = LIBRARY.places[".rela.dyn"][0] + 24 * 2 + 8
    data = patched(patched(data, symbol, struct.pack("<Q", IMAGE + more)), relocation, struct.pack("<Q", 1 << 32 | 1))
    assert without(data, 3).is_proved == (more == 0)
