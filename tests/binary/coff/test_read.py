"""Detecting COFF objects, finding device code in them, and labelling their bytes."""

from __future__ import annotations

import random
import struct

import pytest
from tests.builders.coff import AMD64, BASE64, OFFLOADING, Section, Symbol, build, section_symbol

from fatpack.binary import CodeSection, coff
from fatpack.errors import FatpackError
from fatpack.io.source import BytesSource, View
from fatpack.model import Finding

DEVICE = Section(b".llvm.offloading", b"device code", OFFLOADING)
TEXT = Section(b".text", b"\x90" * 7, 0x60000020, [(1, 0, 4)])


def view(data: bytes) -> View:
    return BytesSource(data, "x.obj").view()


def sections(data: bytes) -> list[tuple[str | None, int | None, bytes]]:
    return [
        (site.section, site.index, site.data.tobytes())
        for site in coff.locate(view(data))
        if isinstance(site, CodeSection)
    ]


def codes(data: bytes) -> list[str]:
    return [item.code for item in coff.locate(view(data)) if isinstance(item, Finding)]


def assert_labels_tile(data: bytes) -> None:
    at = 0
    for label in coff.labels(view(data)):
        assert label.span.start == at
        assert label.span.end > at
        at = label.span.end
    assert at == len(data)


@pytest.mark.parametrize("big", [False, True])
@pytest.mark.parametrize("machine", [0x14C, 0x8664, 0xAA64, 0x1C4, 0xA641, 0xA64E])
def test_device_code_is_found_in_classic_and_big_objects_of_every_machine(big: bool, machine: int) -> None:
    data = build([TEXT, DEVICE], [Symbol(b"f", 1)], big=big, machine=machine)
    assert coff.detect(view(data))
    assert sections(data) == [(".llvm.offloading", 2, b"device code")]
    assert codes(data) == []
    assert_labels_tile(data)


@pytest.mark.parametrize(
    "name",
    [
        b".llvm.offloading",
        b".llvm.offloading.relocatable",
        b"__CLANG_OFFLOAD_BUNDLE__hip-amdgcn-amd-amdhsa--gfx90a",
        b".hip_fatbin",
        b".nv_fatbin",
        b".nv_fatbin$m",
        b"__nv_relfatbin",
    ],
)
def test_names_of_device_code(name: bytes) -> None:
    assert sections(build([TEXT, Section(name, b"1")])) == [(name.decode(), 2, b"1")]


@pytest.mark.parametrize("name", [b".llvm.of", b".nv_fatbinary", b".hipFatB", b".nvFatBi", b".hip_fat", b".tgtsyms"])
def test_names_of_something_else(name: bytes) -> None:
    assert sections(build([TEXT, Section(name, b"1")])) == []


@pytest.mark.parametrize(
    "name",
    [
        b".hipFatBinSegment",
        b".nvFatBinSegment",
        b"__nv_module_id",
        b".tgtimg",
        b".tgtsym",
        b"__CLANG_OFFLOAD_BUNDLE_SIZE__sycl-spir64-unknown-unknown",
    ],
)
def test_what_is_reported_about_device_code_is_listed_as_a_table(name: bytes) -> None:
    (site,) = coff.locate(view(build([TEXT, Section(name, b"facts")])))
    assert isinstance(site, CodeSection)
    assert (site.section, site.index, site.content, site.data.tobytes()) == (name.decode(), 2, "table", b"facts")


@pytest.mark.parametrize(
    ("others", "expects"), [([], "image"), ([b".tgtimg"], "images"), ([b".tgtimg", b"host"], "image")]
)
def test_a_table_and_no_host_tell_the_images_of_a_program_from_a_fat_object(others: list[bytes], expects: str) -> None:
    prefix = b"__CLANG_OFFLOAD_BUNDLE__"
    names = [prefix + b"host-x86_64-pc-windows-msvc" if name == b"host" else name for name in others]
    data = build([Section(name, b"\0") for name in (prefix + b"sycl-spir64", *names)])
    assert next(site.content for site in coff.locate(view(data)) if isinstance(site, CodeSection)) == expects


def test_several_sections_are_found_in_the_order_of_the_table() -> None:
    data = build([DEVICE, TEXT, Section(b".hip_fatbin", b"2"), DEVICE])
    assert [(name, index) for name, index, _ in sections(data)] == [
        (".llvm.offloading", 1),
        (".hip_fatbin", 3),
        (".llvm.offloading", 4),
    ]


def test_names_beyond_ten_million_are_in_base64() -> None:
    data = build([TEXT, DEVICE], strings=bytes(10_000_000))
    assert b"//AAmJaE" in data[:100]
    assert sections(data) == [(".llvm.offloading", 2, b"device code")]


def test_a_section_without_contents_is_no_finding() -> None:
    assert list(coff.locate(view(build([TEXT, Section(b".llvm.offloading", b"", OFFLOADING)])))) == []


def test_a_section_of_uninitialised_data_has_no_device_code() -> None:
    assert codes(build([TEXT, Section(b".llvm.offloading", b"123", OFFLOADING | 0x80)])) == ["FP2003"]


def test_contents_outside_the_object_are_a_finding_and_the_others_are_listed() -> None:
    data = build([DEVICE, Section(b".hip_fatbin", b"12345")])
    at = data.index(struct.pack("<I", 5))
    data = data[:at] + struct.pack("<I", 5000) + data[at + 4 :]
    assert codes(data) == ["FP2201"]
    assert [name for name, _, _ in sections(data)] == [".llvm.offloading"]
    assert_labels_tile(data)


def test_a_cut_object_says_that_names_are_missing() -> None:
    data = build([DEVICE, TEXT, DEVICE], [Symbol(b"f", 1)])
    assert codes(data[:-10]) == ["FP2202"]


def test_a_name_outside_the_string_table_is_a_finding() -> None:
    data = build([DEVICE, Section(b".hip_fatbin", b"1")]).replace(b"/4\0", b"/9999\0", 1)
    assert codes(build([DEVICE]).replace(b"/4\0\0\0\0", b"/9999\0", 1)) == ["FP2202"]
    assert_labels_tile(data)


def test_a_cut_section_table_is_a_finding_after_what_is_there() -> None:
    data = build([DEVICE, TEXT, DEVICE], big=True)
    assert "FP2203" in codes(data[: 56 + 50])
    assert_labels_tile(data[: 56 + 50])


def test_sections_over_the_same_bytes_are_read_once() -> None:
    data = build([DEVICE, Section(b".hip_fatbin", b"1")])
    second = data.index(struct.pack("<I", 1), 60) + 4
    data = data[:second] + data[20 + 20 : 20 + 24] + data[second + 4 :]
    assert codes(data) == ["FP1203"]
    assert [index for _, index, _ in sections(data)] == [1]
    assert_labels_tile(data)


def test_import_objects_have_no_sections_and_intermediate_code_is_named() -> None:
    imported = struct.pack("<HHHHIIHH", 0, 0xFFFF, 0, AMD64, 0, 4, 0, 0) + b"f\0k\0"
    compiled = struct.pack("<HHHHI16s", 0, 0xFFFF, 1, AMD64, 0, b"0123456789abcdef") + bytes(32)
    assert coff.detect(view(imported))
    assert list(coff.locate(view(imported))) == []
    assert coff.detect(view(compiled))
    assert codes(compiled) == ["FP1006"]
    assert_labels_tile(imported)
    assert_labels_tile(compiled)


def test_a_string_table_size_below_four_is_an_empty_table() -> None:
    data = build([TEXT], [Symbol(b"f", 1)])
    data = data[:-4] + bytes(4)
    assert codes(data) == []
    assert_labels_tile(data)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x64\x86",
        b"MZ" + bytes(100),
        b"\x7fELF" + bytes(100),
        struct.pack("<HHIIIHH", AMD64, 0, 0, 0, 0, 0, 0) + bytes(40),
        struct.pack("<HHIIIHH", AMD64, 1, 0, 0, 0, 240, 0x22) + b".text\0\0\0" + bytes(300),
        struct.pack("<HHIIIHH", AMD64, 1, 0, 10, 1, 0, 0) + b".text\0\0\0" + bytes(300),
        struct.pack("<HHIIIHH", AMD64, 1, 0, 0, 0, 0, 0) + bytes(300),
        struct.pack("<HHIIIHH", AMD64, 1, 0, 0, 0, 0, 0) + b"\1\2\3\4\5\6\7\x08" + bytes(300),
        struct.pack("<HHIIIHH", AMD64, 1, 0, 0, 0, 0, 0) + b".text\0x\0" + struct.pack("<IIII", 0, 0, 1, 5) + bytes(16),
        struct.pack("<HHHHI16s", 0, 0xFFFF, 2, 0x1234, 0, b"0123456789abcdef") + bytes(32),
        b"\0\0\xff\xff",
    ],
)
def test_other_files_are_not_taken_for_objects(data: bytes) -> None:
    assert not coff.detect(view(data))


def test_random_bytes_after_a_machine_number_are_not_taken_for_objects() -> None:
    generator = random.Random(1)
    for _ in range(20_000):
        assert not coff.detect(view(struct.pack("<H", AMD64) + generator.randbytes(200)))


def test_bytes_that_nothing_describes_are_labelled_unknown() -> None:
    data = build([TEXT], [Symbol(b"f", 1)], tail=b"something")
    *_, last = coff.labels(view(data))
    assert (last.kind, last.span.size) == ("unknown", 9)


def test_labels_name_contents_relocations_symbols_and_strings() -> None:
    data = build([TEXT, DEVICE], [section_symbol(b".text", 1, 7)])
    names = [label.name for label in coff.labels(view(data)) if label.kind == "data"]
    assert names == ["section[1].data", "section[1].relocations", "section[2].data", "symbols", "strings"]


SMALL = build(
    [TEXT, DEVICE],
    [section_symbol(b".text", 1, 7), section_symbol(b".llvm.offloading", 2, 11), Symbol(b"a_long_symbol", 1)],
)
BIG = build([TEXT, DEVICE], [section_symbol(b".llvm.offloading", 2, 11), Symbol(b"f", 1)], big=True)


def edit_everything(data: bytes) -> None:
    for edit in (
        lambda: coff.embed(view(data), [b"new"]),
        lambda: coff.replace(view(data), 2, [b"other"]),
        lambda: coff.remove(view(data), [2]),
    ):
        try:
            result = b"".join(bytes(piece) if isinstance(piece, bytes) else piece.tobytes() for piece in edit())
            coff.verify(view(data), view(result))
        except FatpackError:
            continue


@pytest.mark.parametrize("data", [SMALL, BIG], ids=["classic", "big"])
def test_every_cut_gives_a_result_or_a_fatpack_error(data: bytes) -> None:
    for size in range(len(data)):
        part = data[:size]
        if coff.detect(view(part)):
            list(coff.locate(view(part)))
            edit_everything(part)
        assert_labels_tile(part)


@pytest.mark.parametrize("data", [SMALL, BIG], ids=["classic", "big"])
def test_every_flipped_byte_gives_a_result_or_a_fatpack_error(data: bytes) -> None:
    for at in range(len(data)):
        for change in (0x01, 0x80, 0xFF):
            damaged = data[:at] + bytes([data[at] ^ change]) + data[at + 1 :]
            if coff.detect(view(damaged)):
                list(coff.locate(view(damaged)))
                edit_everything(damaged)
            assert_labels_tile(damaged)


def test_base64_digits_are_microsofts() -> None:
    from fatpack.binary.coff.layout import name_offset, name_reference

    assert name_reference(9_999_999) == b"/9999999"
    assert name_reference(10_000_000) == b"//AAmJaA"
    assert name_offset(b"//AAmJaA") == 10_000_000
    assert name_offset(b"//AAmJ!A") == name_offset(b"//A") == name_offset(b"/-1\0") == name_offset(b"/\0") == -1
    assert {name_offset(name_reference(1 << bit)) for bit in range(32)} == {1 << bit for bit in range(32)}
    assert len(BASE64) == 64
