"""Objects for host processors."""

from __future__ import annotations

import struct

import pytest
from tests.builders.device_elf import device_elf
from tests.reference import run

from fatpack import images
from fatpack.io.open import open_source
from fatpack.io.source import BytesSource


def recognise(data: bytes) -> images.ImageInfo:
    return images.identify_image(BytesSource(data).view())


@pytest.mark.parametrize(
    ("machine", "bits", "order", "triple"),
    [
        (62, 64, "<", "x86_64"),
        (3, 32, "<", "i386"),
        (183, 64, "<", "aarch64"),
        (243, 64, "<", "riscv64"),
        (243, 32, "<", "riscv32"),
        (21, 64, "<", "powerpc64le"),
        (21, 64, ">", "powerpc64"),
        (22, 64, ">", "s390x"),
        (205, 64, "<", "spir64_gen"),
        (9999, 64, "<", ""),
    ],
)
def test_the_machine_of_an_elf_is_the_first_part_of_its_triple(machine, bits, order, triple):
    data = device_elf(machine, bits=bits, order=order, file_type=1)
    recognised = recognise(data)
    assert (recognised.form, recognised.triple, recognised.arch) == ("object", triple, "")
    assert recognised.detail == f"ELF{bits} relocatable, {triple or 'machine 9999'}"
    assert recognised.size == len(data)


def coff(machine: int, sections: int = 1, symbols: int = 60, optional: int = 0) -> bytes:
    return struct.pack("<HHIIIHH", machine, sections, 0, symbols, 0, optional, 0) + bytes(40 * max(sections, 1))


@pytest.mark.parametrize(("machine", "triple"), [(0x8664, "x86_64"), (0xAA64, "aarch64"), (0x14C, "i386")])
def test_a_coff_object_is_known_by_a_header_that_makes_sense(machine, triple):
    assert recognise(coff(machine)) == images.ImageInfo("object", triple=triple, detail=f"COFF, {triple}")


@pytest.mark.parametrize(
    "data",
    [coff(0x8664, sections=2)[:90], coff(0x8664, symbols=1 << 31), coff(0x8664, optional=240), coff(0x1234), b"d\x86"],
    ids=["sections past the end", "symbols past the end", "optional header", "unknown machine", "two bytes"],
)
def test_two_bytes_alone_make_no_coff_object(data):
    assert recognise(data).form == ""


def test_a_large_coff_object_has_a_class_id():
    data = struct.pack("<HHHH", 0, 0xFFFF, 2, 0x8664) + bytes(4) + bytes.fromhex("c7a1bad1eebaa94baf20faf66aa4dcb8")
    assert recognise(data + bytes(28)).detail == "COFF, x86_64"
    assert recognise(data[:12] + bytes(44)).form == ""


def test_a_portable_executable_is_found_through_its_dos_header():
    data = b"MZ" + bytes(58) + struct.pack("<I", 0x80) + bytes(64) + b"PE\0\0\x64\x86"
    assert recognise(data) == images.ImageInfo("object", triple="x86_64", detail="PE, x86_64")
    assert recognise(data[:-2]).form == recognise(data[:60]).form == ""


@pytest.mark.parametrize(
    ("start", "detail"),
    [
        (b"\xcf\xfa\xed\xfe\x0c\0\0\x01", "Mach-O 64-bit, arm64"),
        (b"\xfe\xed\xfa\xcf\x01\0\0\x07", "Mach-O 64-bit, x86_64"),
        (b"\xce\xfa\xed\xfe\x07\0\0\0", "Mach-O 32-bit, i386"),
        (b"\xcf\xfa\xed\xfe\x63\0\0\0", "Mach-O 64-bit"),
        (b"\xca\xfe\xba\xbe\0\0\0\x02", "universal Mach-O"),
        (b"\xca\xfe\xba\xbf\0\0\0\x02", "universal Mach-O"),
    ],
)
def test_mach_o_is_known_by_its_magic(start, detail):
    recognised = recognise(start + bytes(32))
    assert (recognised.form, recognised.detail) == ("object", detail)


def test_a_java_class_is_no_universal_mach_o():
    assert recognise(b"\xca\xfe\xba\xbe\0\0\0\x34" + bytes(32)).form == ""


@pytest.mark.reference
@pytest.mark.parametrize(
    ("target", "triple", "kind"),
    [
        ("x86_64-pc-linux-gnu", "x86_64", "ELF64 relocatable"),
        ("aarch64-linux-gnu", "aarch64", "ELF64 relocatable"),
        ("x86_64-pc-windows-msvc", "x86_64", "COFF"),
        ("aarch64-pc-windows-msvc", "aarch64", "COFF"),
        ("i686-pc-windows-msvc", "i386", "COFF"),
        ("x86_64-apple-macos", "x86_64", "Mach-O 64-bit"),
        ("arm64-apple-macos", "arm64", "Mach-O 64-bit"),
    ],
)
def test_what_clang_compiles_for_a_host_comes_back(target, triple, kind, tmp_path):
    source = tmp_path / "a.c"
    source.write_text("int f(int x) { return x + 1; }\n")
    run("clang", f"--target={target}", "-c", source, "-o", tmp_path / "a.o")
    with open_source(tmp_path / "a.o") as file:
        recognised = images.identify_image(file.view())
    assert (recognised.form, recognised.triple, recognised.detail) == ("object", triple, f"{kind}, {triple}")


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize(
    ("machine", "is_device"), [(62, False), (183, False), (190, True), (224, True), (0x7777, False)]
)
def test_a_file_for_a_host_is_no_device_image(machine: int, is_device: bool, order: str) -> None:
    data = device_elf(machine, 0, order=order)
    assert images.is_device_elf(BytesSource(data).view()) is is_device
