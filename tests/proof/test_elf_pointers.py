"""Pointers of a library into device code that moved: the proof finds those that loaders relocate, and the symbols."""

from __future__ import annotations

import struct
from collections.abc import Mapping

import pytest
from tests.builders import linked_elf
from tests.proof.elf_forgeries import REDUCED, WHOLE, patched

from fatpack.io.source import BytesSource
from fatpack.proof import prove

#: tags of the dynamic section: a table, its size in bytes
RELR, REL, HASH = (36, 35), (17, 18), 4

#: a library with room for entries of its dynamic section, for relocations, and for words in its data
SPARE, ROWS = 4, 4
LIBRARY = linked_elf.build(WHOLE, more_strings=SPARE, more_relocations=ROWS)
DATA, TABLE = LIBRARY.places[".data"][0] + 64, LIBRARY.places[".data"][0] + 48 + 128
FIRST, SECOND = LIBRARY.containers
END = SECOND + len(WHOLE[1])
EDITED = linked_elf.zeroed(LIBRARY, REDUCED)

LOST, IN_CODE = "pointer or symbol that no record is", "table of the loader in device code"

#: addresses around device code, and whether a pointer to them leads elsewhere in the edited library
TARGETS = {FIRST - 1: False, FIRST: False, FIRST + 1: True, SECOND: True, SECOND + 9: True, END - 1: True, END: False}


def found_in(places: Mapping[int, bytes], *tags: tuple[int, int], beside: str = "") -> list[int]:
    """Return where pointers were lost, in two libraries with other bytes at some places, and more dynamic entries.

    ``beside`` is what else may differ.
    """
    pair = []
    for library in (LIBRARY.data, EDITED):
        data = library
        for at, new in places.items():
            data = patched(data, at, new)
        for number, entry in enumerate(tags, len(linked_elf.TAGS)):
            data = patched(data, LIBRARY.places[".dynamic"][0] + 16 * number, struct.pack("<QQ", *entry))
        pair.append(data)
    differences = prove(*(BytesSource(data, name).view() for data, name in zip(pair, "ab", strict=True))).differences
    assert {each.what for each in differences} <= {LOST, beside}
    return sorted(each.address or 0 for each in differences if each.what == LOST)


def words(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}Q", *values)


@pytest.mark.parametrize("row", range(len(WHOLE), len(WHOLE) + ROWS))
def test_an_addend_is_found_by_its_value(row: int) -> None:
    at = LIBRARY.places[".rela.dyn"][0] + 24 * row
    for target, is_lost in TARGETS.items():
        relocation = struct.pack("<QQq", DATA + 8, linked_elf.RELATIVE, target)
        assert found_in({at: relocation}) == [DATA + 8] * is_lost, hex(target)


def test_a_word_without_an_addend_is_found_by_its_value() -> None:
    for target, is_lost in TARGETS.items():
        places = {DATA + 8: words(target), TABLE: words(DATA, 8, DATA + 8, 8)}
        assert found_in(places, (REL[0], TABLE), (REL[1], 32)) == [DATA + 8] * is_lost, hex(target)


@pytest.mark.parametrize(
    ("entries", "found"),
    [
        ([DATA], [0]),
        ([DATA + 16], [16]),
        ([DATA, DATA + 8], [0, 8]),
        ([DATA, 0b1], [0]),
        ([DATA, 0b11], [0, 8]),
        ([DATA, 0b101], [0, 16]),
        ([DATA, 0b1001, DATA + 16], [0, 16, 24]),
        ([DATA - 62 * 8, 1 << 63 | 1], [8]),  # the last bit is for the 63rd word behind the address
        ([DATA - 64 * 8, 0b1, 0b11], [0]),  # the next bits go on behind those 63 words
        ([DATA - 64 * 8, 0b1, 0b101], [8]),
        ([], []),
    ],
)
def test_relative_words_are_found_by_addresses_and_bits(entries: list[int], found: list[int]) -> None:
    """(gABI, "Relative Relocation Table".)"""
    places = {DATA: words(*[SECOND + 9 if 8 * number in found else 0 for number in range(4)]), TABLE: words(*entries)}
    tags = (RELR[0], TABLE), (RELR[1], 8 * len(entries))
    assert found_in(places, *tags) == [DATA + at for at in found]


def test_tables_of_relocations_end_where_they_say() -> None:
    lost = {DATA: words(SECOND + 9, SECOND + 9)}
    for size, found in ((0, []), (8, [0]), (16, [0, 8]), (12, [0]), (7, [])):
        places = lost | {TABLE: words(DATA, DATA + 8)}
        assert found_in(places, (RELR[0], TABLE), (RELR[1], size)) == [DATA + at for at in found], size
    for size, found in ((0, []), (16, [0]), (32, [0, 8])):
        places = lost | {TABLE: words(DATA, 8, DATA + 8, 8)}
        assert found_in(places, (REL[0], TABLE), (REL[1], size)) == [DATA + at for at in found], size
    assert found_in(lost | {TABLE: words(DATA, DATA + 8)}, (RELR[0], TABLE)) == []


@pytest.mark.parametrize(("section", "is_defined"), [(0, False), (6, True), (9, True), (0xFFF1, True)])
def test_a_dynamic_symbol_is_found_by_its_value(section: int, is_defined: bool) -> None:
    at = LIBRARY.places[".dynsym"][0] + 24
    for target, is_lost in TARGETS.items():
        symbol = struct.pack("<IBBHQQ", 1, 0x12, 0, section, target, 4)
        assert found_in({at: symbol}) == [at] * (is_lost and is_defined), hex(target)


@pytest.mark.parametrize("count", [0, 1, 2, 1 << 20, 0xFFFFFFFF])
def test_symbols_are_read_as_far_as_the_file_has_them(count: int) -> None:
    """A hash table that states more of them than there are hides none."""
    at = LIBRARY.places[".dynsym"][0] + 24
    symbol = struct.pack("<IBBHQQ", 1, 0x12, 0, 9, SECOND + 9, 4)
    found = found_in({at: symbol, TABLE: struct.pack("<II", 1, count)}, (HASH, TABLE), beside=IN_CODE)
    assert (at in found) == (count > 1)


@pytest.mark.parametrize("tags", [REL, (7, 8)])
def test_relocations_are_read_as_far_as_the_file_has_them(tags: tuple[int, int]) -> None:
    """A table that states a larger size hides none of its rows."""
    rows = words(DATA, 8, DATA + 8, 8) if tags == REL else struct.pack("<QQq", DATA, linked_elf.RELATIVE, SECOND + 9)
    at = LIBRARY.places[".dynamic"][0] + 16 * linked_elf.TAGS.index(7)
    places = {DATA: words(SECOND + 9, 0), TABLE: rows}
    if tags == REL:
        assert DATA in found_in(places, (REL[0], TABLE), (REL[1], 1 << 40))
    else:
        places[LIBRARY.places[".rela.dyn"][0] + 24 * len(WHOLE)] = rows
        assert DATA in found_in(places | {at + 24: words(1 << 40)}, beside=IN_CODE)
