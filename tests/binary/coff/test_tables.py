"""The one walk over symbols and relocations of COFF, at the ends of tables and of blocks."""

from __future__ import annotations

import struct

import pytest
from tests.builders import coff as build

from fatpack.binary.coff import tables
from fatpack.binary.coff.layout import BIG_SYMBOL, SYMBOL
from fatpack.binary.coff.reader import CoffObject
from fatpack.binary.coff.tables import relocation_rows, symbol_name_offset, symbol_rows
from fatpack.errors import Truncated
from fatpack.io.source import BytesSource, View
from fatpack.layout import Layout


def view(data: bytes) -> View:
    return BytesSource(data).view()


@pytest.mark.parametrize("layout", [SYMBOL, BIG_SYMBOL])
def test_auxiliary_records_belong_to_the_symbol_before_them(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "_ROWS", 7)
    monkeypatch.setattr(tables, "_MOST_TOGETHER", 4)
    data, expected, number = b"", [], 0
    for index in range(40):
        row = (b"name%04d" % index, index, -1 if index % 2 else index, 0x20, 2, index % 4)
        records = bytes([index]) * (layout.size * row[5])
        expected.append((number, row, records))
        data += layout.pack(*row) + records
        number += 1 + row[5]
    assert list(symbol_rows(view(data + b"cut"), layout)) == expected
    cut = list(symbol_rows(view(data[: -layout.size]), layout))
    assert cut[:-1] == expected[:-1]
    assert cut[-1] == (*expected[-1][:2], expected[-1][2][: -layout.size])


def test_names_in_place_and_in_the_string_table() -> None:
    assert symbol_name_offset(b"eightlet") is None
    assert symbol_name_offset(bytes(4) + (0x1234).to_bytes(4, "little")) == 0x1234
    data = build.build([build.Section(b".text", b"x")], [build.Symbol(b"short", 1), build.Symbol(b"longer than 8", 1)])
    coff = CoffObject(view(data))
    assert [coff.symbol_name(row[0]) for _, row, _ in symbol_rows(coff.symbol_table(), SYMBOL)] == [
        "short",
        "longer than 8",
    ]
    assert coff.symbol_name(bytes(4) + b"\xff" * 4) == ""


@pytest.mark.parametrize("big", [False, True])
def test_relocations_of_a_section(big: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "_ROWS", 3)
    rows = [(8 * number, number % 3, 1) for number in range(10)]
    section = build.Section(b".data", bytes(80), relocations=rows)
    coff = CoffObject(view(build.build([section], [build.Symbol(b"a", 1)], big=big)))
    assert list(relocation_rows(coff.relocation_table(next(coff.sections())))) == rows
    assert list(relocation_rows(view(b""))) == []


def test_the_record_with_the_number_of_relocations_is_none_of_them() -> None:
    rows = [(5, 0, 0), *((8 * number, 0, 1) for number in range(4))]  # the first counts itself
    data = bytearray(build.build([build.Section(b".data", bytes(40), relocations=rows)], [build.Symbol(b"a", 1)]))
    struct.pack_into("<H", data, 20 + 32, 0xFFFF)
    struct.pack_into("<I", data, 20 + 36, build.READ_ONLY | 0x01000000)
    coff = CoffObject(view(bytes(data)))
    (section,) = coff.sections()
    assert coff.relocation_count(section) == 5
    assert list(relocation_rows(coff.relocation_table(section))) == rows[1:]
    with pytest.raises(Truncated):
        coff.relocation_table(section.replace(flags=build.READ_ONLY))
