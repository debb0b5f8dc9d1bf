"""Symbols of ELF files in archives."""

from __future__ import annotations

import pytest
from tests.builders.device_elf import DYNSYM, device_elf

from fatpack import limits
from fatpack.binary.symbols import archive_symbols
from fatpack.errors import FormatError, LimitExceeded, Truncated
from fatpack.io.source import BytesSource

GLOBAL, WEAK, LOCAL = 0x10, 0x20, 0x00
UNDEFINED, ABSOLUTE, COMMON = 0, 0xFFF1, 0xFFF2


def listed(data: bytes) -> list[bytes] | None:
    found = archive_symbols(BytesSource(data, "x.o").view())
    return None if found is None else list(found)


@pytest.mark.parametrize(("bits", "order"), [(64, "<"), (64, ">"), (32, "<"), (32, ">")])
def test_what_others_may_need_is_listed_in_stored_order(bits: int, order: str) -> None:
    stored = [
        (b"local", LOCAL, 0, 1),
        (b"function", GLOBAL | 2, 0, 1),
        (b"weak", WEAK | 1, 0, 1),
        (b"undefined", GLOBAL, 0, UNDEFINED),
        (b"weak undefined", WEAK, 0, UNDEFINED),
        (b"common", GLOBAL | 1, 0, COMMON),
        (b"absolute", GLOBAL, 0, ABSOLUTE),
        (b"hidden", GLOBAL, 2, 1),
        (b"unique", 0xA1, 0, 1),
        (b"section", GLOBAL | 3, 0, 1),
        (b"file.c", GLOBAL | 4, 0, ABSOLUTE),
        (b"function", GLOBAL | 2, 0, 1),
    ]
    expected = [b"function", b"weak", b"common", b"absolute", b"hidden", b"unique", b"function"]
    assert listed(device_elf(62, bits=bits, order=order, symbols=stored)) == expected


@pytest.mark.parametrize(
    ("machine", "expected"),
    [
        (62, [b"$d.1", b"$x", b"$t", b"$a", b".L0 ", b"", b"f"]),
        (183, [b"$t", b"$a", b".L0 ", b"", b"f"]),
        (40, [b"$x", b".L0 ", b"f"]),
        (252, [b"$x", b"$a", b".L0 ", b"", b"f"]),
        (243, [b"$t", b"$a", b"", b"f"]),
    ],
)
def test_marks_of_code_and_data_are_left_out_where_they_are_marks(machine: int, expected: list[bytes]) -> None:
    names = [b"$d.1", b"$x", b"$t", b"$a", b".L0 ", b"", b"f"]
    assert listed(device_elf(machine, symbols=[(name, GLOBAL, 0, 1) for name in names])) == expected


def test_dynamic_symbols_do_not_count_and_a_stripped_file_is_still_an_object() -> None:
    assert listed(device_elf(224, symbols=[(b"f", GLOBAL, 0, 1)], symbol_table=DYNSYM)) == []
    assert listed(device_elf(224, has_sections=False)) == []


def test_the_first_bytes_of_an_elf_file_are_no_object() -> None:
    data = device_elf(62, symbols=[(b"f", GLOBAL, 0, 1)])
    assert listed(data[:17]) is None
    with pytest.raises(FormatError):
        listed(data[:18])


def test_a_cut_table_is_an_error_with_its_place() -> None:
    data = device_elf(62, symbols=[(b"f", GLOBAL, 0, 1)])
    with pytest.raises(Truncated) as caught:
        listed(data[:-1])
    assert (caught.value.format, caught.value.chain) == ("elf", ("x.o",))


def test_many_symbols_with_one_long_name_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "STRING_FLOOR", 1)
    data = bytearray(device_elf(62, symbols=[(b"n" * 1000, GLOBAL, 0, 1), *[(b"", GLOBAL, 0, 1)] * 30]))
    for at in range(64 + 24, 64 + 31 * 24 + 1, 24):
        data[at : at + 4] = (1).to_bytes(4, "little")
    with pytest.raises(LimitExceeded):
        listed(bytes(data))
