"""Targets of pointers: through relocations of objects and libraries, and in place."""

from __future__ import annotations

import struct

import pytest
from tests.builders import coff as build_coff
from tests.builders import elf as build
from tests.builders import pe as build_pe

from fatpack import binary
from fatpack.binary import CodeSection
from fatpack.binary.pointers import NULL_POINTER, UNKNOWN_POINTER, LoadedRanges, Pointer, open_pointers
from fatpack.io.source import BytesSource, View

#: (bits, order) → machine, and its types of relocation: base added, whole pointer to a symbol
MACHINES = {(64, "little"): (62, 8, 1), (32, "little"): (3, 8, 1), (64, "big"): (22, 12, 22), (32, "big"): (20, 22, 1)}


def view_of(data: bytes) -> View:
    return BytesSource(data, "x").view()


def followed(data: bytes, host: str, index: int, offsets: list[int]) -> list[Pointer]:
    """Return the targets of pointers in the section of that number."""
    view = view_of(data)
    start, end, name, _ = next(row for row in binary.sections(host, view) if row[3] == index)
    return open_pointers(view, host).pointers(CodeSection(view.slice(start, end - start, name), name, index), offsets)


@pytest.mark.parametrize("kind", MACHINES)
@pytest.mark.parametrize("type", [build.RELA, build.REL])
def test_a_relocation_of_an_object_leads_into_another_section(kind: tuple[int, str], type: int) -> None:
    bits, order = kind
    machine, _, absolute = MACHINES[kind]
    word = bits // 8
    elf = build.Elf(bits=bits, order=order, machine=machine)
    elf.add(".other", bytes(40), align=8)
    code = "Q" if bits == 64 else "I"
    in_place = elf.pack(code, 12 if type == build.REL else 0)
    pointers = elf.add(".pointers", in_place + bytes(3 * word) + in_place, align=8)
    section, unknown = elf.symbol("", 1, value=4), elf.symbol("__hip_fatbin_1", 0, info=0x10)
    addends = [(12,), (0,), (12,)] if type == build.RELA else [()] * 3
    elf.relocations(
        pointers,
        (0, section, absolute, *addends[0]),
        (2 * word, unknown, absolute, *addends[1]),
        (4 * word, section, 99, *addends[2]),
        type=type,
    )
    data = elf.build()
    offsets = [0, word, 2 * word, 4 * word]
    inside, null, undefined, strange = followed(data, "elf", pointers, offsets)
    at = build.section_field(data, 1, "offset")
    assert inside == Pointer("inside", 16, at + 16, 24, 1)
    assert null == NULL_POINTER
    assert undefined == Pointer("undefined", symbol="__hip_fatbin_1")
    assert strange == UNKNOWN_POINTER


def test_a_relocation_past_the_end_of_a_section_leads_outside() -> None:
    elf = build.Elf()
    elf.add(".other", bytes(40))
    elf.add(".bss", type=build.NOBITS, size=40)
    pointers = elf.add(".pointers", bytes(16))
    elf.relocations(pointers, (0, elf.symbol("", 1), 1, 40), (8, elf.symbol("", 2), 1, 0))
    assert [item.kind for item in followed(elf.build(), "elf", pointers, [0, 8])] == ["outside", "outside"]


def test_a_value_without_a_relocation_means_nothing_in_an_object() -> None:
    elf = build.Elf()
    pointers = elf.add(".pointers", struct.pack("<Q", 64))
    assert followed(elf.build(), "elf", pointers, [0]) == [UNKNOWN_POINTER]


@pytest.mark.parametrize("kind", MACHINES)
def test_a_library_has_addresses_in_place_or_as_relocations(kind: tuple[int, str]) -> None:
    bits, order = kind
    machine, relative, _ = MACHINES[kind]
    elf = build.Elf(bits=bits, order=order, machine=machine, type=build.SHARED)
    elf.add(".images", bytes(64), flags=build.ALLOC, addr=0x1000)
    word, code = bits // 8, "Q" if bits == 64 else "I"
    content = b"".join(elf.pack(code, value) for value in (0x1010, 0, 0, 0x5000))
    pointers = elf.add(".pointers", content, flags=build.ALLOC | build.WRITE, addr=0x2000)
    entry = elf.pack(code * 2 + code.lower(), 0x2000 + word, relative, 0x1020)
    other = elf.pack(code * 2 + code.lower(), 0x9000, relative, 0x1030)
    elf.add(".rela.dyn", other + entry + other, type=build.RELA, flags=build.ALLOC, entsize=3 * word)
    data = elf.build()
    at = build.section_field(data, 1, "offset")
    assert followed(data, "elf", pointers, [number * word for number in range(4)]) == [
        Pointer("inside", 0x1010, at + 0x10, 0x30, 1),
        Pointer("inside", 0x1020, at + 0x20, 0x20, 1),
        NULL_POINTER,
        Pointer("outside", 0x5000),
    ]


def _dynamic(symbol: bytes) -> bytes:
    """Return a library whose one pointer is a relocation against a symbol of its dynamic table."""
    elf = build.Elf(type=build.SHARED)
    elf.add(".images", bytes(64), flags=build.ALLOC, addr=0x1000)
    elf.add(".pointers", bytes(8), flags=build.ALLOC | build.WRITE, addr=0x2000)
    strings = elf.add(".dynstr", b"\0image\0", type=build.STRTAB, flags=build.ALLOC)
    table = elf.add(".dynsym", bytes(24) + symbol, type=11, flags=build.ALLOC, link=strings, entsize=24)
    row = struct.pack("<QQq", 0x2000, 1 << 32 | 1, 8)
    elf.add(".rela.dyn", row, type=build.RELA, flags=build.ALLOC, link=table, entsize=24)
    return elf.build()


def test_a_pointer_to_a_symbol_of_a_library_is_followed() -> None:
    (found,) = followed(_dynamic(struct.pack("<IBBHQQ", 1, 0x11, 0, 1, 0x1010, 8)), "elf", 2, [0])
    assert (found.kind, found.address, found.section) == ("inside", 0x1018, 1)


def test_a_symbol_that_another_library_defines_is_named() -> None:
    (found,) = followed(_dynamic(struct.pack("<IBBHQQ", 1, 0x11, 0, 0, 0, 0)), "elf", 2, [0])
    assert found == Pointer("undefined", symbol="image")


@pytest.mark.parametrize("link", [0, 1, 77])
def test_a_relocation_with_a_broken_symbol_table_is_unknown(link: int) -> None:
    data = build.with_section(_dynamic(bytes(24)), 5, link=link, size=24)
    assert followed(data, "elf", 2, [0])[0].kind in ("unknown", "undefined")


def test_relocations_of_many_blocks_are_read_to_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fatpack.binary.elf.table.BLOCK", 48)
    elf = build.Elf(type=build.SHARED)
    elf.add(".images", bytes(64), flags=build.ALLOC, addr=0x1000)
    elf.add(".pointers", bytes(80), flags=build.ALLOC | build.WRITE, addr=0x2000)
    rows = [struct.pack("<QQq", 0x2000 + 8 * number, 8, 0x1000 + number) for number in range(10)]
    elf.add(".rela.dyn", b"".join(reversed(rows)), type=build.RELA, flags=build.ALLOC, entsize=24)
    found = followed(elf.build(), "elf", 2, [8 * number for number in range(10)])
    assert [item.address - 0x1000 for item in found] == list(range(10))


def test_loaded_ranges_leave_out_what_the_file_does_not_have() -> None:
    loaded = LoadedRanges([(0x1000, 16, 100, 1), (0x2000, 16, 990, 2), (0x3000, 0, 0, 3)], 1000)
    assert loaded.at(0x100F) == Pointer("inside", 0x100F, 115, 1, 1)
    assert [loaded.at(address).kind for address in (0xFFF, 0x1010, 0x2000, 0x3000, 1 << 63)] == ["outside"] * 5


@pytest.mark.parametrize(("bits", "base"), [(64, 0x180000000), (32, 0x10000000)])
def test_addresses_of_pe_images_include_the_base(bits: int, base: int) -> None:
    code = "<Q" if bits == 64 else "<I"
    content = b"".join(struct.pack(code, value) for value in (base + 0x3004, 0, base + 0x9000, 0x3004))
    data = build_pe.build(
        [
            build_pe.Section(b".data", content, address=0x1000),
            build_pe.Section(b".images", b"\1" * 20, address=0x3000),
        ],
        bits=bits,
        base_address=base,
    )
    found = followed(data, "pe", 1, [number * bits // 8 for number in range(4)])
    assert [item.kind for item in found] == ["inside", "null", "outside", "outside"]
    assert (found[0].section, found[0].room) == (2, 16)
    assert data[found[0].position : found[0].position + found[0].room] == b"\1" * 16


@pytest.mark.parametrize(("machine", "type", "code"), [(0x8664, 1, "<Q"), (0x14C, 6, "<I"), (0xAA64, 14, "<Q")])
def test_relocations_of_coff_objects_are_followed(machine: int, type: int, code: str) -> None:
    word = struct.calcsize(code)
    content = struct.pack(code, 4) + bytes(3 * word)
    relocations = [(0, 0, type), (word, 1, type), (3 * word, 0, type + 1)]
    sections = [
        build_coff.Section(b".data", content, relocations=relocations),
        build_coff.Section(b".images", b"\1" * 20),
    ]
    symbols = [build_coff.Symbol(b".images", 2, 8), build_coff.Symbol(b"__hip_fatbin_1", 0)]
    data = build_coff.build(sections, symbols, machine=machine)
    inside, undefined, null, strange = followed(data, "coff", 1, [0, word, 2 * word, 3 * word])
    assert (inside.kind, inside.address, inside.room, inside.section) == ("inside", 12, 8, 2)
    assert data[inside.position : inside.position + 8] == b"\1" * 8
    assert (undefined, null, strange) == (Pointer("undefined", symbol="__hip_fatbin_1"), NULL_POINTER, UNKNOWN_POINTER)


@pytest.mark.parametrize("bits", [32, 64])
def test_any_cut_or_flip_gives_pointers_or_a_fatpack_error(bits: int) -> None:
    from fatpack.errors import FatpackError

    elf = build.Elf(bits=bits, machine=62 if bits == 64 else 3)
    elf.add(".other", bytes(40))
    pointers = elf.add(".pointers", bytes(16))
    elf.relocations(pointers, (0, elf.symbol("", 1), 1, 4))
    good = elf.build()
    for at in range(len(good)):
        for damaged in (good[:at], good[:at] + bytes([good[at] ^ 0xFF]) + good[at + 1 :]):
            view = view_of(damaged)
            try:
                open_pointers(view, "elf").pointers(CodeSection(view_of(bytes(16)), ".pointers", pointers), [0, 8])
            except FatpackError:
                pass
