"""Sections added to and removed from COFF files like with llvm-objcopy: changes and refusals.

``test_objcopy_reference`` compares every byte with the tool; these tests do without it.
"""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import pytest
from tests.builders import pe
from tests.builders.bulk import Untouchable, edited_sparse
from tests.builders.coff import Section, Symbol, build, section_symbol
from tests.objcopy import BUNDLES, PREFIX, joined

from fatpack import binary
from fatpack.binary.coff.objcopy import add_sections, remove_sections
from fatpack.binary.coff.reader import CoffObject
from fatpack.errors import BadValue, FatpackError, FormatError, HostError, LimitExceeded, UsageError
from fatpack.io.source import BytesSource, View

TEXT = Section(b".text", b"\x90" * 7, 0x60000020, [(1, 3, 4), (3, 4, 4)])
DATA = Section(b".data", b"d" * 8, 0xC0000040)
MIDDLE = Section(PREFIX.encode() + b"old", b"image", 0x40000800)
SYMBOLS = [
    Symbol(b".file", -2, 0, 103, [b"source.c"]),
    Symbol(b"gone", 2),
    Symbol(b"function_of_text", 1),
    Symbol(b".data", 3, 0, 3, [struct.pack("<IHHIHB3x", 8, 0, 0, 0, 3, 0)]),
]


def view(data: bytes) -> View:
    return BytesSource(data, "x.obj").view()


def added(data: bytes, *additions: tuple[str, bytes]) -> bytes:
    return joined(add_sections(view(data), [(name, [content]) for name, content in additions]))


def removed(data: bytes, prefix: str = PREFIX) -> bytes:
    return joined(remove_sections(view(data), prefix))


def contents(data: bytes) -> dict[str, bytes]:
    coff = CoffObject(view(data))
    strings = coff.strings()
    return {
        coff.name(section.stored_name, strings).decode(): data[section.raw_offset :][: section.raw_size]
        for section in coff.sections()
    }


def records(data: bytes) -> list[bytes]:
    coff = CoffObject(view(data))
    width = coff.symbol_layout.size
    return [data[at : at + width] for at in range(coff.symbol_offset, coff.symbol_end, width)]


def test_the_rooms_offer_both_functions() -> None:
    data = build([TEXT._replace(relocations=())])
    assert joined(binary.get_objcopy("coff").add_sections(view(data), [("x", [b"1"])])) == added(data, ("x", b"1"))


@pytest.mark.parametrize("big", [False, True])
def test_added_sections_come_last_and_linkers_drop_them(big: bool) -> None:
    data = build([TEXT._replace(relocations=()), DATA], [Symbol(b"symbol", 1)], big=big)
    fat = added(data, *BUNDLES)
    assert contents(fat) == {**contents(data), **dict(BUNDLES)}
    *_, host, image, empty = CoffObject(view(fat)).sections()
    assert [section.flags for section in (host, image, empty)] == [0x40000800] * 3
    assert (empty.raw_offset, image.virtual_size, empty.virtual_address) == (0, 360, 361)
    assert removed(fat) == added(data)
    assert not CoffObject(view(fat)).is_big


def test_numbers_of_sections_and_symbols_follow() -> None:
    slim = removed(build([TEXT, MIDDLE, DATA], SYMBOLS))
    assert list(contents(slim)) == [".text", ".data"]
    text, _ = CoffObject(view(slim)).sections()
    relocations = slim[text.relocation_offset :][:20]
    assert list(struct.iter_unpack("<IIH", relocations)) == [(1, 2, 4), (3, 3, 4)]
    _, _, function, data, definition = records(slim)
    assert (struct.unpack_from("<h", function, 12), struct.unpack_from("<h", data, 12)) == ((1,), (2,))
    assert struct.unpack("<IHHIHB3x", definition) == (8, 0, 0, 0, 2, 0)


def test_file_names_take_as_many_records_as_they_need() -> None:
    name = b"a_source_file_with_a_name_of_more_than_36_bytes.c"
    parts = [name[at : at + 20] for at in range(0, len(name), 20)]
    big = build([DATA], [Symbol(b".file", -2, 0, 103, parts), Symbol(b"symbol", 1)], big=True)
    classic = records(added(big))
    assert len(classic) == len(records(big)) == 5
    assert b"".join(classic[1:4]).rstrip(b"\0") == name


def test_an_empty_file_name_would_damage_the_table_and_is_refused() -> None:
    with pytest.raises(HostError, match="empty"):
        added(build([DATA], [Symbol(b".file", -2, 0, 103, [bytes(18)])]))


def test_what_relocations_need_stays() -> None:
    data = build([TEXT, MIDDLE, DATA], SYMBOLS)
    with pytest.raises(HostError, match=r"relocation target '.data' \(3\) not found") as caught:
        removed(data, ".data")
    assert ".text needs" in caught.value.hint
    assert caught.value.chain == ("x.obj",)


def test_sections_that_are_kept_with_a_removed_one_go_too() -> None:
    definition = struct.pack("<IHHIHB3x", 1, 0, 0, 0, 2, 5)
    symbols = [Symbol(b".gone", 2, 0, 3, [struct.pack("<IHHIHB3x", 1, 0, 0, 0, 2, 2)])]
    symbols += [Symbol(b".after", 3, 0, 3, [definition]), Symbol(b"data", 1)]
    sections = [DATA, Section(b".gone", b"g"), Section(b".after", b"a")]
    slim = removed(build(sections, symbols), ".gone")
    assert (list(contents(slim)), len(records(slim))) == ([".data"], 1)


def test_sections_of_symbol_numbers_follow_the_symbols() -> None:
    table = struct.pack("<2I", 3, 4)
    sections = [MIDDLE, DATA, Section(b".gfids$y", table)]
    symbols = [Symbol(b"gone", 1), section_symbol(b".gfids$y", 3, 8), Symbol(b"first", 2), Symbol(b"second", 2)]
    slim = removed(build(sections, symbols))
    new = struct.pack("<2I", 2, 3)
    assert contents(slim)[".gfids$y"] == new
    assert struct.unpack_from("<I", records(slim)[1], 8) == (zlib.crc32(new, 0xFFFFFFFF) ^ 0xFFFFFFFF,)
    with pytest.raises(HostError, match=r"contains a .symidx \(9\) that is incorrect or was stripped"):
        added(build([Section(b".gfids$y", struct.pack("<I", 9))], [section_symbol(b".gfids$y", 1, 4)]))
    with pytest.raises(HostError, match="does not have the corresponding symbol"):
        added(build([Section(b".gfids$y", table)], [Symbol(b"x", 1)]))
    with pytest.raises(HostError, match="are no symbol numbers"):
        added(build([Section(b".gfids$y", b"odd")], [section_symbol(b".gfids$y", 1, 3)]))


def test_uninitialised_data_becomes_zeros_and_missing_code_breakpoints() -> None:
    data = build([Section(b".bss", b"0" * 100_000, 0xC0000080), Section(b".text", b"1" * 70, 0x60000020)])
    for at in (20, 60):  # no pointer to the contents: the sixth word of a section header
        data = data[: at + 20] + bytes(4) + data[at + 24 :]
    assert contents(added(data)) == {".bss": bytes(100_000), ".text": b"\xcc" * 70}


def test_relocations_of_empty_sections_would_overwrite_the_header_and_are_refused() -> None:
    with pytest.raises(HostError, match="over the header"):
        added(build([Section(b".text", b"", relocations=[(0, 0, 1)])], [Symbol(b"s", 1)]))


@pytest.mark.parametrize("name", ["", "a\0b", "\ud800"])
def test_impossible_names_are_refused(name: str) -> None:
    with pytest.raises(UsageError):
        added(build([DATA]), (name, b""))


def test_damaged_objects_are_named_as_such() -> None:
    data = build([TEXT, MIDDLE, DATA], SYMBOLS)
    coff = CoffObject(view(data))
    raw, relocations = coff.table_offset + 16, coff.table_offset + 32
    lies = {
        "the contents of section 1 do not lie inside": (raw, b"\xff\xff\xff\x7f"),
        "the relocations of section 1 do not lie inside": (relocations, b"\xff\x7f"),
        "SymbolTableIndex out of range": (coff.table_offset + 120 + 7 + 4, b"\x63"),
        "invalid SymbolTableIndex": (coff.table_offset + 120 + 7 + 4, b"\x01"),
        "section number out of range": (coff.symbol_offset + 36 + 12, b"\x09"),
        "run over the end of the table": (coff.symbol_offset + 36 + 17, b"\x09"),
        "a name lies outside the string table": (coff.symbol_offset + 54 + 4, b"\xff\xff"),
    }
    for problem, (at, lie) in lies.items():
        with pytest.raises(BadValue, match=problem):
            added(data[:at] + lie + data[at + len(lie) :])
    with pytest.raises(FormatError):
        added(data[:-1])


def test_sections_over_the_same_bytes_are_refused_not_multiplied() -> None:
    data = build([Section(b".s%d" % number, b"x") for number in range(50)] + [Section(b".all", b"c" * 100_000)])
    for number in range(50):
        at = 20 + 40 * number + 16
        data = data[:at] + struct.pack("<II", 100_000, 20 + 40 * 51) + data[at + 8 :]
    with pytest.raises(LimitExceeded, match="overlap"):
        added(data)


def test_uninitialised_data_cannot_make_the_object_huge() -> None:
    data = build([Section(b".bss", b"0", 0xC0000080), Section(b".more", b"0", 0xC0000080)])
    for at in (20, 60):
        data = data[: at + 16] + struct.pack("<II", 0xC0000000, 0) + data[at + 24 :]
    with pytest.raises(HostError, match="32-bit offsets"):
        added(data)


SMALL = [
    build([TEXT, MIDDLE, DATA], SYMBOLS),
    build(
        [MIDDLE, Section(b".gfids$y", struct.pack("<I", 3))],
        [*SYMBOLS[1:2], section_symbol(b".gfids$y", 2, 4), Symbol(b"f", 2)],
    ),
    build([MIDDLE, DATA], [Symbol(b"weak", 0, 0, 105, [struct.pack("<II", 2, 3)]), Symbol(b"b", 2)], big=True),
]


@pytest.mark.parametrize("data", SMALL, ids=["plain", "symbol numbers", "big"])
def test_every_cut_and_every_flipped_byte_gives_a_result_or_an_error(data: bytes) -> None:
    damaged = [data[:size] for size in range(len(data))]
    damaged += [data[:at] + bytes([data[at] ^ mask]) + data[at + 1 :] for at in range(len(data)) for mask in (1, 0xFF)]
    for each in damaged:
        for edit in (lambda: add_sections(view(each), [("x", [b"1"])]), lambda: remove_sections(view(each), PREFIX)):  # noqa: B023
            try:
                pieces = edit()
            except FatpackError as error:
                assert str(error)
                continue
            # Uninitialised data may have any stated size, but not in memory.
            assert sum(map(len, pieces)) < 1 << 32


def test_contents_are_passed_on_unread() -> None:
    image = Untouchable(b"i" * 100).view()
    pieces = add_sections(view(build([DATA])), [("x", [b"head", image])])
    assert any(piece is image for piece in pieces)


def test_a_large_host_takes_little_memory(tmp_path: Path) -> None:
    """A sparse file of half a gigabyte: its one large section is copied as a range of the file."""
    size = 1 << 29
    data = build([DATA, Section(b".large", b"x")], None)
    data = data[:76] + struct.pack("<II", size, 4096) + data[84:]
    path, image = tmp_path / "large.obj", (f"{PREFIX}a", [b"image"])
    edited = edited_sparse(path, data, 4096 + size, lambda host: add_sections(host, [image]))
    assert edited.largest == size
    assert edited.peak < 1 << 20


def image(*sections: pe.Section, bits: int = 64) -> bytes:
    """Return a PE image whose optional header states its alignments and its number of data directories."""
    data = bytearray(pe.build(sections, bits=bits))
    struct.pack_into("<II", data, 120 + 24 + 32, 4096, 512)
    struct.pack_into("<I", data, 120 + 24 + (108 if bits == 64 else 92), 16)
    return bytes(data)


@pytest.mark.parametrize("bits", [32, 64])
def test_images_keep_their_alignment(bits: int) -> None:
    data = image(
        pe.Section(b".text", b"t" * 700, flags=0x60000020), pe.Section(b".data", b"d", address=0x2000), bits=bits
    )
    fat = added(data, ("__section_of_an_image", b"x" * 5))
    table = 120 + 24 + (112 if bits == 64 else 96) + 128 + 2 * 40
    name, *fields = struct.unpack_from("<8sIIII", fat, table)
    assert (name[:1], fields) == (b"/", [5, 0x3000, 512, 512 * 4])
    assert fat[2048:2053] == b"xxxxx"
    assert len(fat) % 512 == 0
    assert struct.unpack_from("<I", fat, 120 + 24 + 56) == (0x4000,)
    assert removed(fat, "__section") == added(data)


def test_images_whose_debug_directory_goes_are_refused() -> None:
    data = bytearray(image(pe.Section(b".text", b"t" * 9), pe.Section(b".rdata", bytes(28), address=0x2000)))
    struct.pack_into("<II", data, 120 + 24 + 112 + 48, 0x2000, 28)
    added(bytes(data))
    with pytest.raises(HostError, match="debug directory not found"):
        removed(bytes(data), ".rdata")


def test_images_without_alignment_are_damaged() -> None:
    with pytest.raises(BadValue, match="sections without alignment"):
        added(pe.build([pe.Section(b".text", b"t")]))
