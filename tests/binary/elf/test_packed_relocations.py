"""Relocations in Android's packed encoding, against llvm-readelf, and damaged tables."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests import reference

from fatpack.binary.elf import layout
from fatpack.binary.elf.file import ElfFile
from fatpack.binary.elf.relocations import (
    MAX_RELOCATIONS,
    RelocationShape,
    unpack_relocations,
    unpacked_relocations,
)
from fatpack.errors import FormatError
from fatpack.io.open import open_source
from fatpack.io.source import BytesSource

SOURCE = """
extern int outside, other;
static int inside[64];
int *equal[40] = {%s};
int *mixed[] = {inside + 9, &outside, inside + 3, &other, &outside, inside + 60, 0, inside};
int **chain[] = {equal, mixed, equal + 7};
"""


@pytest.mark.reference
@pytest.mark.parametrize("target", ["x86_64-linux-gnu", "aarch64-linux-gnu"])
def test_what_readelf_reads(tmp_path: Path, target: str) -> None:
    (tmp_path / "a.c").write_text(SOURCE % ", ".join(f"inside + {number}" for number in range(40)))
    reference.run("clang", f"--target={target}", "-fPIC", "-c", "a.c", "-o", "a.o", cwd=tmp_path)
    reference.run("ld.lld", "-shared", "--pack-dyn-relocs=android", "a.o", "-o", "a.so", cwd=tmp_path)
    out = reference.run("llvm-readelf", "-rW", "a.so", cwd=tmp_path).stdout.decode()
    rows = re.findall(r"^([0-9a-f]{16}) +([0-9a-f]{16}) R_\S+ +(.*)$", out, re.MULTILINE)
    expected = [(int(place, 16), int(info, 16), int(rest.split()[-1], 16)) for place, info, rest in rows]
    assert len(expected) > 40
    with open_source(str(tmp_path / "a.so")) as source:
        elf = ElfFile(source.view())
        (table,) = (each for each in elf.sections() if each.type == layout.ANDROID_RELA)
        words = unpack_relocations(elf.contents(table), MAX_RELOCATIONS)
    assert list(zip(words[::3], words[1::3], words[2::3], strict=True)) == expected


@pytest.mark.parametrize(
    "table",
    [
        b"",
        b"APS1\0\0",
        b"APS2",
        b"APS2\x01",
        b"APS2\x01\0\x02\0",  # a group of more than there are
        b"APS2\x01\0\x01\x0b\0\0",  # without the addend
        b"APS2\x7f\0",  # less than none
        b"APS2" + b"\xff" * 10 + b"\x01\0",  # a number of more than 64 bits
        b"APS2\xff\xff\xff\xff\xff\x0f\0\xff\xff\xff\xff\xff\x0f\x03\x08\x08",  # more than are read
    ],
)
def test_damaged_tables(table: bytes) -> None:
    with pytest.raises(FormatError):
        unpack_relocations(BytesSource(table).view(), MAX_RELOCATIONS)


def test_a_group_of_equal_relocations_takes_no_bytes_for_each() -> None:
    words = unpack_relocations(BytesSource(b"APS2\x03\x10\x03\x03\x08\x08").view(), 3)
    assert list(words) == [0x18, 8, 0, 0x20, 8, 0, 0x28, 8, 0]


@pytest.mark.parametrize(("bits", "order"), [(32, "little"), (32, "big"), (64, "little"), (64, "big")])
def test_an_unpacked_table_is_a_block_of_the_file(bits: int, order: str) -> None:
    info = {32: 5 << 8 | 8, 64: 8}[bits]
    data = b"APS2\x03\x10\x03\x03\x08" + bytes((info & 0x7F | 0x80, info >> 7))
    block = unpacked_relocations(BytesSource(data).view(), RelocationShape(bits, order, 62), 3)
    symbol = 5 if bits == 32 else 0
    assert list(block.rows()) == [(place, 8, symbol, 0) for place in (0x18, 0x20, 0x28)]
