"""The dynamic table of programs, compared with pyelftools: this interpreter, and one of its extension modules."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from tests.laws.rooms import FIXTURES

from fatpack.binary.elf.file import ElfFile
from fatpack.binary.elf.segments import needed_libraries, shared_object_name
from fatpack.io.source import BytesSource

PROGRAMS = [Path(os.path.realpath(sys.executable)), FIXTURES / "elf" / "lld-22-sycl.so"]


def needed_of(data: bytes) -> tuple[str, ...]:
    return needed_libraries(ElfFile(BytesSource(data).view(), sections=False))


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.name)
def test_the_libraries_that_a_program_loads(path: Path) -> None:
    from elftools.elf.elffile import ELFFile

    data = path.read_bytes()
    if not data.startswith(b"\x7fELF"):
        pytest.skip("this interpreter is no ELF file")
    with open(path, "rb") as file:
        dynamic = ELFFile(file).get_section_by_name(".dynamic")
        expected = tuple(tag.needed for tag in dynamic.iter_tags("DT_NEEDED"))
    assert needed_of(data) == expected


def test_the_name_of_a_library() -> None:
    libraries = list(Path("/lib").glob("*-linux-gnu/libc.so.6"))
    if not libraries:
        pytest.skip("no C library where Linux has it")
    assert shared_object_name(ElfFile(BytesSource(libraries[0].read_bytes()).view(), sections=False)) == "libc.so.6"
    assert shared_object_name(ElfFile(BytesSource(PROGRAMS[1].read_bytes()).view(), sections=False)) == ""


def test_damage_raises_nothing() -> None:
    data = PROGRAMS[1].read_bytes()
    for end in range(64, min(len(data), 2000), 97):
        assert isinstance(needed_of(data[:end]), tuple)
