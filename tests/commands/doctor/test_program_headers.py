"""Program headers that lead out of a file are damage: drivers load device images by them, and not by sections."""

from __future__ import annotations

import contextlib
import io
import struct
from pathlib import Path

import pytest
from tests.builders import fatbin
from tests.laws.rooms import FIXTURES

import fatpack
from fatpack.main import main

CUBIN = (FIXTURES / "cuda" / "cubin" / "tiny.cuda12.4.sm_90a.cubin").read_bytes()
HSACO = (FIXTURES / "kernels" / "needs.v6.gfx90a.hsaco").read_bytes()
FAR = 0x7FFFFFFF0000

#: places in an ELF64 header and in a program header (gABI, chapters 2 and 7), and how many bytes are there
PHOFF, PHENTSIZE, PHNUM = (0x20, "<Q"), (0x36, "<H"), (0x38, "<H")
TYPE, OFFSET, FILE_SIZE, MEMORY_SIZE = (0, "<I"), (8, "<Q"), (32, "<Q"), (40, "<Q")


def read(data: bytes, field: tuple[int, str], at: int = 0) -> int:
    value: int = struct.unpack_from(field[1], data, at + field[0])[0]
    return value


def with_field(data: bytes, field: tuple[int, str], value: int, at: int = 0) -> bytes:
    broken = bytearray(data)
    struct.pack_into(field[1], broken, at + field[0], value)
    return bytes(broken)


def first_load(data: bytes) -> tuple[int, int]:
    """Return number and place of the first PT_LOAD that has bytes in the file."""
    start = read(data, PHOFF)
    places = [(number, start + 56 * number) for number in range(read(data, PHNUM))]
    return next((n, at) for n, at in places if read(data, TYPE, at) == 1 and read(data, FILE_SIZE, at))


def listed(path: Path) -> int:
    with contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO(), "utf-8")), contextlib.redirect_stderr(io.StringIO()):
        return main(["inspect", "--kernels", str(path)])


def assert_damaged(path: Path, data: bytes, text: str, at: int, code: str = "FP1104") -> None:
    path.write_bytes(data)
    found = fatpack.doctor(path)
    assert (found.verdict, found.exit_code) == ("damaged", 3)
    (told,) = [item for item in found.findings if item.message.startswith(text)]
    assert (told.code, told.severity, told.span.start) == (code, "error", at)
    assert "get it again, or build it again" in told.hint
    checked = fatpack.check(path, verify=True)
    assert (checked.verdict, checked.exit_code) == ("unreadable", 3)
    assert any(f"{told.message} [{code}]" in item.message for item in checked.violations)


@pytest.mark.parametrize("image", [CUBIN, HSACO], ids=["cubin", "hsaco"])
def test_a_table_outside_the_image_is_damage(image: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x"
    size, count = len(image), read(image, PHNUM)
    path.write_bytes(image)
    assert (fatpack.doctor(path).verdict, listed(path)) == ("healthy", 0)
    for field, value, text in (
        (
            PHOFF,
            FAR,
            f"program_offset: the program headers lie outside the file (expected at most {size - 56 * count:#x}",
        ),
        (PHOFF, size - 56 * count + 1, "program_offset: the program headers lie outside the file"),
        (PHENTSIZE, 57, "program_entry_size: wrong size of a program header (expected 56, found 57)"),
        (
            PHNUM,
            0xFFFF,
            f"program_count: so many program headers do not fit into the file (expected at most "
            f"{(size - 64) // 56}, found 65535)",
        ),
    ):
        assert_damaged(path, with_field(image, field, value), text, field[0])
        assert listed(path) == 3


@pytest.mark.parametrize("image", [CUBIN, HSACO], ids=["cubin", "hsaco"])
def test_a_segment_outside_the_image_is_damage(image: bytes, tmp_path: Path) -> None:
    number, at = first_load(image)
    name, path, size = f"program[{number}]", tmp_path / "x", len(image)
    start, stored = read(image, OFFSET, at), read(image, FILE_SIZE, at)
    for field, value, text in (
        (
            OFFSET,
            FAR,
            f"{name}.offset: a loaded segment lies outside the file (expected at most {size:#x}, found {FAR:#x})",
        ),
        (
            FILE_SIZE,
            FAR,
            f"{name}.file_size: a loaded segment ends outside the file (expected at most {size - start:#x}",
        ),
        (FILE_SIZE, size - start + 1, f"{name}.file_size: "),
        (MEMORY_SIZE, stored - 1, f"{name}.memory_size: a loaded segment has fewer bytes in memory than in the file"),
    ):
        assert_damaged(path, with_field(image, field, value, at), text, at + field[0])
        assert listed(path) == 3


def test_a_segment_without_bytes_may_be_anywhere(tmp_path: Path) -> None:
    start = read(CUBIN, PHOFF)
    places = [start + 56 * number for number in range(read(CUBIN, PHNUM))]
    empty = next((at for at in places if read(CUBIN, TYPE, at) == 1 and not read(CUBIN, FILE_SIZE, at)), None)
    data = CUBIN
    if empty is None:
        empty = first_load(CUBIN)[1]
        data = with_field(data, FILE_SIZE, 0, empty)
    path = tmp_path / "x.cubin"
    path.write_bytes(with_field(data, OFFSET, FAR, empty))
    assert fatpack.doctor(path).verdict == "healthy"


def test_relocatable_images_have_no_program_headers(tmp_path: Path) -> None:
    image = (FIXTURES / "kernels" / "needs.cuda13.0.rdc.sm_90.cubin").read_bytes()
    assert not read(image, PHNUM)
    path = tmp_path / "x.cubin"
    path.write_bytes(with_field(with_field(image, PHENTSIZE, 0), PHOFF, 0))
    assert fatpack.doctor(path).verdict == "healthy"


def test_an_image_of_a_container_is_damaged_too(tmp_path: Path) -> None:
    number, at = first_load(CUBIN)
    path = tmp_path / "x.fatbin"
    path.write_bytes(fatbin.fatbin(fatbin.entry(CUBIN, sm=90)))
    assert fatpack.doctor(path).verdict != "damaged"
    path.write_bytes(fatbin.fatbin(fatbin.entry(with_field(CUBIN, OFFSET, FAR, at), sm=90)))
    found = fatpack.doctor(path)
    assert found.verdict == "damaged"
    assert any(f"program[{number}].offset" in item.message and item.code == "FP1104" for item in found.findings)
    assert listed(path) == 3


def test_the_table_of_a_host_is_checked(tmp_path: Path) -> None:
    program = (FIXTURES / "gcc" / "gcc14.acc.nv").read_bytes()
    path = tmp_path / "x"
    path.write_bytes(program)
    assert fatpack.doctor(path).verdict == "healthy"
    text = "program_offset: the program headers lie outside the file"
    assert_damaged(path, with_field(program, PHOFF, 0x10000000000040), text, 0x20, "FP1001")
