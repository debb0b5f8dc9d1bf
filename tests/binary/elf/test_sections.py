"""Sections of images in bulk: the same as read one by one, and hostile files cost no more."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.builders.device_elf import device_elf

from fatpack.binary.elf import table
from fatpack.binary.elf.device_elf import DeviceElfSections
from fatpack.binary.elf.layout import SYMTAB
from fatpack.binary.elf.symbols import ElfSymbolTable
from fatpack.errors import BadValue, LimitExceeded
from fatpack.io.open import open_source
from fatpack.io.source import BytesSource

FIXTURES = Path(__file__).parents[2] / "fixtures"


def sections(contents: list[bytes]) -> DeviceElfSections:
    return DeviceElfSections(BytesSource(device_elf(190, 0, sections=[(1, content) for content in contents])).view())


def names(stored: bytes) -> table.NameTable:
    return table.NameTable(BytesSource(stored).view(), "symbol name", 0, len(stored))


@pytest.mark.parametrize("ahead", [[], [1, 2, 3], [2], range(4)], ids=str)
def test_sections_that_were_read_ahead_have_the_same_bytes(ahead: list[int]) -> None:
    contents = [b"one", b"", b"three" * 100]
    found = sections(contents)
    found.read_ahead(ahead)
    assert [found.bytes_of(index) for index in (3, 1, 2)] == [contents[2], contents[0], contents[1]]
    assert [found.names[index] for index in range(4)] == [row.name.encode() for row in found.rows[:4]]


def test_sections_that_were_read_ahead_are_walked_once() -> None:
    found = sections([b"x" * 600])
    found.read_ahead([1])
    with pytest.raises(BadValue, match="overlaps sections that were read"):
        for _ in range(10):
            found.bytes_of(1)


def test_a_name_may_be_longer_than_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "_USUAL", 8)
    monkeypatch.setattr(table, "_TOGETHER", 2)
    stored = b"\0a\0" + b"long" * 10 + b"\0end\0"
    assert names(stored).take([1, 3, 0, 44, 4], 0) == [b"a", b"long" * 10, b"", b"end", b"ong" + b"long" * 9]


def test_the_name_that_is_outside_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "_TOGETHER", 2)
    with pytest.raises(BadValue) as caught:
        names(b"\0a\0").take([1, 0, 1, 99, 98], 1000, 24)
    assert (caught.value.offset, "0x63 is outside the 3 bytes" in str(caught.value)) == (1000 + 3 * 24, True)


def test_names_that_share_one_string_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fatpack.limits.STRING_FLOOR", 5000)
    monkeypatch.setattr("fatpack.limits.STRING_RATIO", 1)
    stored = b"n" * 3000 + b"\0"
    assert len(names(stored).take([0], 0)[0]) == 3000
    with pytest.raises(LimitExceeded, match="far longer than the image"):
        names(stored).take([0] * 5000, 0)


def test_places_of_symbols_are_those_of_each() -> None:
    with open_source(FIXTURES / "cuda" / "cubin" / "tiny.cuda11.2.sm_52.cubin") as source:
        symbols = ElfSymbolTable(source.view(), (SYMTAB,))
        indexes = [*reversed(range(len(list(symbols))))]
        places = symbols.places(indexes)
        assert places == [symbols.place(index) for index in indexes]
        assert len(set(places)) > 2
    assert ElfSymbolTable(BytesSource(device_elf(190, 0)).view(), (SYMTAB,)).places([]) == []


@pytest.mark.parametrize("way", ["bulk", "other order", "large"])
def test_defined_symbols_are_those_of_a_walk(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By columns, as for nearly all images, and row by row for the others."""
    monkeypatch.setattr("fatpack.binary.elf.symbols._FEW", 0)
    if way == "other order":
        monkeypatch.setattr("sys.byteorder", "big")
    elif way == "large":
        monkeypatch.setattr(table, "BLOCK", 64)
    functions = bytes(info & 15 == 2 for info in range(256))
    entries = bytes(other & 0x10 != 0 for other in range(256))
    found = 0
    for path in sorted((FIXTURES / "cuda" / "cubin").glob("*.cubin")):
        with open_source(path) as source:
            symbols = ElfSymbolTable(source.view(), (SYMTAB,))
            rows = [row for row in symbols if row[1] & 15 == 2 and row[3]]
            assert symbols.defined(functions) == ([row[0] for row in rows], bytes(row[1] for row in rows))
            rows = [row for row in rows if row[2] & 0x10]
            assert symbols.defined(functions, entries) == ([row[0] for row in rows], bytes(row[1] for row in rows))
            found += len(rows)
    assert found > 2
