"""Pointers of a DLL into device code that moved: the proof finds those that the loader relocates, and the exports."""

from __future__ import annotations

import struct
import tracemalloc
from collections.abc import Mapping, Sequence
from functools import cache
from typing import NamedTuple

import pytest
from tests.builders import linked_pe
from tests.builders.linked_pe import Image
from tests.proof.elf_forgeries import patched
from tests.proof.pe_forgeries import WHOLE, shrink

from fatpack.io.source import BytesSource
from fatpack.proof import prove

#: types of base relocations: padding, the upper and the lower half of a word, a word of 32 bits and of 64
ABSOLUTE, HIGH, LOW, HIGHLOW, DIR64 = 0, 1, 2, 3, 10

#: bytes of a block's head
HEAD = 8

#: numbers of data directories
EXPORTS, RELOCATIONS = 0, 5

#: a section of more than a page for words of the tests, and a place in it; their values are in the second container,
#: which moves
DATA, ROOM, INSIDE = ".cask_re", 0x288, 200

#: where the tests put their tables, with no number in common with a multiple of their size
EXPORTS_AT, RELOCATIONS_AT = 0x20C, 0x6C


@cache
def made(bits: int) -> tuple[Image, bytes]:
    """Return a DLL, and the same with less device code."""
    image = linked_pe.build(WHOLE, bits=bits, checksum=False, own=[bytes(0x1100)])
    return image, shrink(image)


def block(page: int, entries: Sequence[int], length: int | None = None) -> bytes:
    """Return a block of base relocations; its entries are types and offsets in the page."""
    data = struct.pack(f"<II{len(entries)}H", page, HEAD + 2 * len(entries), *entries)
    return data if length is None else patched(data, 4, struct.pack("<I", length))


def found_in(
    image: Image,
    edited: bytes,
    places: Mapping[tuple[str, int], bytes],
    section_of: str = ".reloc",
    **tables: int,
) -> list[int]:
    """Return the addresses of lost pointers, in two DLLs with other bytes at some places of sections.

    The tables are ``exports`` and ``relocations``, by size; the latter are in ``section_of``.
    """
    pair = []
    for whole, cut in ((image.data, 0), (edited, len(image.data) - len(edited))):
        data = whole
        for (section, at), content in places.items():
            data = patched(data, image.places[section][1] - cut + at, content)
        directory = image.optional + (112 if image.word == 8 else 96)
        for number, address, size in (
            (EXPORTS, image.places[".rdata"][0] + EXPORTS_AT, tables.get("exports", 0)),
            (RELOCATIONS, image.places[section_of][0] + RELOCATIONS_AT, tables.get("relocations", 0)),
        ):
            data = patched(data, directory + 8 * number, struct.pack("<II", address, size))
        pair.append(data)
    differences = prove(*(BytesSource(data, name).view() for data, name in zip(pair, "ab", strict=True))).differences
    assert all(each.what == "pointer or symbol that no record is" for each in differences), differences
    return [each.address or 0 for each in differences]


class Case(NamedTuple):
    """Blocks of base relocations, the offsets of the pointers that are found then, and a size of the table."""

    blocks: bytes
    found: tuple[int, ...]
    size: int | None = None


def _cases(bits: int) -> dict[str, Case]:
    page, word = made(bits)[0].places[DATA][0], bits // 8
    whole, other = (DIR64, HIGHLOW) if bits == 64 else (HIGHLOW, DIR64)
    first, second, third, last = ROOM, ROOM + word + 4, ROOM + 6 * word, 0x1000 - word

    def at(offset: int, kind: int = whole) -> int:
        return kind << 12 | offset

    both = block(page, [at(first), at(second)])
    return {
        "no block": Case(b"", ()),
        "one word": Case(block(page, [at(first)]), (first,)),
        "words of a block": Case(block(page, [at(third), at(first), at(second)]), (third, first, second)),
        "padding, halves, and words of another size": Case(
            block(page, [at(first, kind) for kind in (ABSOLUTE, HIGH, LOW, other, 4, 9, 11, 15)]), ()
        ),
        "a word between others": Case(block(page, [at(first, ABSOLUTE), at(second), at(third, other)]), (second,)),
        "words of two blocks": Case(block(page, [at(first)]) + block(page, [at(second)]), (first, second)),
        "an empty block before": Case(block(page, []) + both, (first, second)),
        "an empty block behind": Case(both + block(page, []), (first, second)),
        "a block where nothing is loaded": Case(block(0xA0000000, [at(0)]) + both, (first, second)),
        "a block that ends in an entry": Case(
            block(page, [at(first), at(third)], HEAD + 3)[:-1] + both, (first, first, second)
        ),
        "a block without a head": Case(block(page, [at(first)], HEAD - 1) + both, ()),
        "a block of no bytes": Case(block(page, [at(first)], 0) + both, ()),
        "a block past the table": Case(both + block(page, [at(third)]), (first, second), len(both) + HEAD + 1),
        "a head past the table": Case(both + block(page, [at(third)]), (first, second), len(both) + HEAD - 1),
        "a block behind the table": Case(both + block(page, [at(third)]), (first, second), len(both)),
        "a block that is the table": Case(both + block(page, [at(third)]), (first, second, third)),
        "a page that begins elsewhere": Case(block(page + first, [at(second - first)]), (second,)),
        "the last word of a page": Case(block(page, [at(last)]), (last,)),
        "a word that begins in a page": Case(block(page, [at(0xFFE)]), (0xFFE,)),
    }


@pytest.mark.parametrize("bits", [64, 32])
@pytest.mark.parametrize("name", _cases(64))
def test_relocated_words_that_lead_to_what_moved_are_found(name: str, bits: int) -> None:
    case, (image, edited) = _cases(bits)[name], made(bits)
    value = (image.base + image.containers[1] + INSIDE).to_bytes(image.word, "little")
    places = {(DATA, offset): value for offset in case.found} | {(".reloc", RELOCATIONS_AT): case.blocks}
    if not case.found or case.size:
        places |= {(DATA, ROOM + step): value for step in (0, 6 * image.word)}
    found = found_in(image, edited, places, relocations=len(case.blocks) if case.size is None else case.size)
    assert found == [image.places[DATA][0] + offset for offset in case.found]


def _targets(image: Image) -> dict[int, bool]:
    """Return addresses around device code, and whether a pointer to them would lead elsewhere in the edited DLL.

    The first container begins where it did and so may be led to, but not into.
    """
    first, second = image.containers
    end = second + len(WHOLE[1])
    return {first - 1: False, first: False, first + 1: True, second - 1: True, end - 1: True, end: False, 0: False}


@pytest.mark.parametrize("bits", [64, 32])
def test_a_relocated_word_is_found_by_its_value(bits: int) -> None:
    image, edited = made(bits)
    page = image.places[DATA][0]
    row = block(page, [(DIR64 if bits == 64 else HIGHLOW) << 12 | ROOM])
    for target, is_lost in _targets(image).items():
        word = (image.base + target).to_bytes(image.word, "little")
        places = {(DATA, ROOM): word, (".reloc", RELOCATIONS_AT): row}
        assert found_in(image, edited, places, relocations=len(row)) == [page + ROOM] * is_lost, hex(target)


@pytest.mark.parametrize("bits", [64, 32])
def test_an_exported_address_is_found_by_its_value(bits: int) -> None:
    image, edited = made(bits)
    table = image.places[DATA][0] + ROOM
    head = struct.pack("<20xIIIII", 3, 0, table, 0, 0)
    for number in range(3):
        for target, is_lost in _targets(image).items():
            rows = [0x1000] * 3
            rows[number] = target
            places = {(".rdata", EXPORTS_AT): head, (DATA, ROOM): struct.pack("<3I", *rows)}
            assert found_in(image, edited, places, exports=40) == [table + 4 * number] * is_lost, (number, hex(target))


def test_exports_are_read_up_to_their_number_and_the_end_of_the_section() -> None:
    """A table that is not loaded has no exports, and one that states more rows than are loaded has those."""
    image, edited = made(64)
    table = image.places[DATA][0] + ROOM
    lost = struct.pack("<I", image.containers[1] + INSIDE)
    for size, count, at, found in (
        (40, 1, table, [0]),
        (0, 1, table, []),
        (40, 0, table, []),
        (40, 1, table - 4, []),
        (40, 2, table - 4, [0]),
        (40, 1 << 31, table, [0]),
        (40, 1 << 31, table - 2, []),
        (40, 1, 0, []),
        (40, 1, 0xA0000000, []),
    ):
        head = struct.pack("<20xIIIII", count, 0xFF, at, 0xFF, 0xFF)
        rows = found_in(image, edited, {(".rdata", EXPORTS_AT): head, (DATA, ROOM): lost}, exports=size)
        assert [address - table for address in rows] == found, (size, count, hex(at))


@pytest.mark.parametrize("number", range(8))
def test_exports_at_the_end_of_a_section_are_read(number: int) -> None:
    """The file has 0x1200 bytes of the section, and eight rows are the last of them."""
    image, edited = made(64)
    at = 0x1200 - 32
    table = image.places[DATA][0] + at
    rows = struct.pack("<8I", *(image.containers[1] + INSIDE if row == number else 0 for row in range(8)))
    head = struct.pack("<20xIIIII", 1 << 31, 0xFF, table, 0xFF, 0xFF)
    places = {(".rdata", EXPORTS_AT): head, (DATA, at): rows}
    assert found_in(image, edited, places, exports=40) == [table + 4 * number]


def test_zeros_that_the_loader_makes_take_no_memory() -> None:
    """A block of relocations and a table of exports state gigabytes, of which the file has some bytes."""
    image, edited = made(64)
    section = image.optional + 240 + 40 * list(image.places).index(".bss") + 8
    start = image.places[".bss"][0]
    places = {
        (".reloc", RELOCATIONS_AT): struct.pack("<II", image.places[DATA][0], 0xB0000000),
        (".rdata", EXPORTS_AT): struct.pack("<20xIIIII", 1 << 29, 0, start + RELOCATIONS_AT, 0, 0),
    }
    pair = []
    for data, cut in ((image.data, 0), (edited, len(image.data) - len(edited))):
        stored = image.places[".reloc"][1] - cut
        pair.append(patched(data, section, struct.pack("<IIII", 0xC0000000, start, 0x200, stored)))
    tracemalloc.start()
    try:
        found_in(image._replace(data=pair[0]), pair[1], places, ".bss", exports=40, relocations=0xBF000000)
        assert tracemalloc.get_traced_memory()[1] < 32 << 20
    finally:
        tracemalloc.stop()
