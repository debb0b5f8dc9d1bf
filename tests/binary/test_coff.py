"""Symbols of COFF files in archives."""

from __future__ import annotations

import struct

import pytest
from tests.builders import pe
from tests.builders.coff import Section, Symbol, build, section_symbol

from fatpack import limits
from fatpack.binary import symbols
from fatpack.binary.symbols import archive_symbols
from fatpack.errors import BadValue, FormatError, LimitExceeded, Truncated
from fatpack.io.source import BytesSource

EXTERNAL, STATIC, FILE, SECTION, WEAK = 2, 3, 103, 104, 105
UNDEFINED, ABSOLUTE = 0, -1
TEXT = Section(b".text", b"code")
#: section count, symbol offset, symbol count of a classic header
COUNTS_AT, SYMBOLS_AT = 2, 8


def listed(data: bytes) -> list[bytes] | None:
    found = archive_symbols(BytesSource(data, "x.obj").view())
    return None if found is None else list(found)


def search(how: int) -> bytes:
    return struct.pack("<II", 0, how)


@pytest.mark.parametrize("big", [False, True])
def test_what_others_may_need_is_listed_in_stored_order(big: bool) -> None:
    stored = [
        Symbol(b".file", 0, 0, FILE, [b"a.c"]),
        section_symbol(b".text", 1, 4),
        Symbol(b"static", 1, 0, STATIC),
        Symbol(b"function", 1),
        Symbol(b"a name behind the symbols", 1),
        Symbol(b"undefined", UNDEFINED),
        Symbol(b"common", UNDEFINED, 8),
        Symbol(b"section", 1, 0, SECTION),
        Symbol(b"function", 1),
    ]
    expected = [b"function", b"a name behind the symbols", b"common", b"function"]
    assert listed(build([TEXT], stored, big=big)) == expected


def test_weak_symbols_count_where_the_object_has_their_default() -> None:
    stored = [Symbol(b"alias", 0, 0, WEAK, [search(3)]), Symbol(b"library", 0, 0, WEAK, [search(2)])]
    assert listed(build([TEXT], [*stored, Symbol(b"alone", 0, 0, WEAK)])) == [b"alias", b"alone"]


def test_absolute_symbols_count_unless_they_define_a_section() -> None:
    stored = [("@feat.00", b""), ("appdomain", b"x")]
    rows = [Symbol(name.encode(), ABSOLUTE, 1, EXTERNAL, [aux] if aux else []) for name, aux in stored]
    assert listed(build([TEXT], rows)) == [b"@feat.00"]


def test_names_of_eight_bytes_have_no_end_and_long_ones_do() -> None:
    stored = [Symbol(b"12345678", 1), Symbol(b"1234567", 1), Symbol(b"n" * 5000, 1)]
    assert listed(build([TEXT], stored)) == [b"12345678", b"1234567", b"n" * 5000]


def imported(name: bytes, kind: int = 0, machine: int = 0x8664) -> bytes:
    return struct.pack("<HHHHIIHH", 0, 0xFFFF, 0, machine, 0, len(name) + 7, 0, kind) + name + b"\0x.dll\0"


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (imported(b"f"), [b"__imp_f", b"f"]),
        (imported(b"constant", 2), [b"__imp_constant", b"constant"]),
        (imported(b"data", 1), [b"__imp_data"]),
        (imported(b"#f", machine=0xA641), [b"__imp_f", b"f", b"__imp_aux_f", b"#f"]),
        (imported(b"?f@$$hXZ", machine=0xA64E), [b"__imp_?f@XZ", b"?f@XZ", b"__imp_aux_?f@XZ", b"?f@$$hXZ"]),
        (imported(b"f$$h", machine=0xA641), [b"__imp_f$$h", b"f$$h", b"__imp_aux_f$$h", b"f$$h"]),
        (imported(b"#data", 1, 0xA641), [b"__imp_data"]),
    ],
)
def test_imports_have_a_pointer_and_code_to_jump_through(data: bytes, expected: list[bytes]) -> None:
    assert listed(data) == expected


def test_an_image_that_kept_its_symbols_lists_them() -> None:
    data = bytearray(pe.build([pe.Section(b".text", b"code")]))
    header = int.from_bytes(data[0x3C:0x40], "little") + 4
    struct.pack_into("<II", data, header + SYMBOLS_AT, len(data), 1)
    assert listed(bytes(data) + struct.pack("<8sIhHBBI", b"main", 0, 1, 0, EXTERNAL, 0, 4)) == [b"main"]
    assert listed(b"MZ" + bytes(100)) is None


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0\0\0",
        b"hello",
        bytes.fromhex("0000000020000000ffff0000ffff0000") + bytes(16),
        struct.pack("<HHHHI", 0, 0xFFFF, 1, 0x8664, 0) + bytes.fromhex("38feb30ca5d9ab4dac9bd6b6222653c2"),
    ],
    ids=["nothing", "three bytes", "text", "resource", "intermediate code"],
)
def test_other_files_have_no_symbols_by_nature(data: bytes) -> None:
    assert listed(data) is None


def test_a_file_of_zeros_is_an_object_without_symbols() -> None:
    assert listed(bytes(100)) == []


def damaged(at: int, code: str, value: int) -> bytes:
    data = bytearray(build([TEXT], [Symbol(b"a name behind the symbols", 1)]))
    struct.pack_into(code, data, at, value)
    return bytes(data)


@pytest.mark.parametrize(
    ("data", "error", "words"),
    [
        (bytes(19), Truncated, "file header"),
        (damaged(COUNTS_AT, "<H", 3), Truncated, "section table"),
        (damaged(SYMBOLS_AT, "<I", 1 << 30), Truncated, "symbol table"),
        (damaged(SYMBOLS_AT + 4, "<I", 1 << 30), Truncated, "symbol table"),
        (damaged(20 + 40 + 4 + 4, "<I", 2), BadValue, "string table"),
        (damaged(20 + 40 + 4 + 4, "<I", 1 << 20), BadValue, "string table"),
        (build([TEXT], [Symbol(b"a name behind the symbols", 1)])[:-1], BadValue, "string table"),
        (imported(b"f")[:21], Truncated, "import name"),
        (build([TEXT], [Symbol(b"w", 0, 0, WEAK, [search(3)])])[: -4 - 12], Truncated, "symbol table"),
    ],
)
def test_damage_is_an_error_with_its_place(data: bytes, error: type[FormatError], words: str) -> None:
    with pytest.raises(error, match=words) as caught:
        listed(data)
    assert (caught.value.format, caught.value.chain) == ("coff", ("x.obj",))
    assert caught.value.offset is not None


def test_many_symbols_with_one_long_name_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "STRING_FLOOR", 1)
    one = build([TEXT], [Symbol(b"n" * 1000, 1)])
    at = 20 + 40 + 4
    data = bytearray(one[:at] + 100 * one[at : at + 18] + one[at + 18 :])
    struct.pack_into("<I", data, SYMBOLS_AT + 4, 100)
    with pytest.raises(LimitExceeded):
        listed(bytes(data))


def test_the_machines_are_twenty_one() -> None:
    assert len(symbols._MACHINES) == 21
