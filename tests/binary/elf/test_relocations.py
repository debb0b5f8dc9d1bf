"""The one walk over relocations: every word size and byte order, and the numbers that other tools see."""

from __future__ import annotations

import random
from typing import Literal

import pytest
from tests.builders import elf as build

from fatpack.binary.elf import layout, table
from fatpack.binary.elf.file import ElfFile
from fatpack.binary.elf.layout import REL, RELA, RELR, elf_layouts
from fatpack.binary.elf.relocations import (
    RelocationShape,
    relative_places,
    relocation_blocks,
    section_relocations,
)
from fatpack.io.source import BytesSource

Row = tuple[int, int, int, int | None]
KINDS: list[tuple[int, Literal["little", "big"]]] = [(32, "little"), (32, "big"), (64, "little"), (64, "big")]


def stored(bits: int, order: Literal["little", "big"], type: int, count: int = 50) -> tuple[bytes, list[Row]]:
    """Return a table as the layouts write it, and its rows."""
    layouts, number = elf_layouts(bits, order), random.Random(bits)
    rows: list[Row] = []
    data = b""
    for _ in range(count):
        place, symbol = number.getrandbits(bits), number.getrandbits(24)
        kind = number.getrandbits(8 if bits == 32 else 32)
        addend = number.getrandbits(bits) - (1 << bits - 1)
        info = symbol << layouts.symbol_shift | kind
        rows.append((place, kind, symbol, addend if type == RELA else None))
        data += layouts.rela.pack(place, info, addend) if type == RELA else layouts.rel.pack(place, info)
    return data, rows


@pytest.mark.parametrize(("bits", "order"), KINDS)
@pytest.mark.parametrize("type", [REL, RELA])
def test_rows_are_those_of_the_layouts(
    bits: int, order: Literal["little", "big"], type: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, rows = stored(bits, order, type)
    shape = RelocationShape(bits, order, 62)
    monkeypatch.setattr(table, "BLOCK", 7 * shape.row_size(type) + 1)  # blocks of seven rows
    view = BytesSource(b"----" + data + b"cut").view()
    found = list(relocation_blocks(view, shape, type, 4, len(data) + 3))
    assert len(found) == 8
    assert [row for block in found for row in block.rows()] == rows
    assert [block.row(number) for block in found for number in range(len(block.places))] == rows
    assert [block.at for block in found] == [4 + 7 * number * shape.row_size(type) for number in range(8)]
    whole = (1 << bits) - 1
    for block in found:
        assert block.overlaps(max(block.places), whole)
        assert not block.overlaps(max(block.places) + 1, whole + 1)
        assert (block.targets is None) == (type == REL)
    targets = [target for block in found for target in block.targets or ()]
    assert targets == [addend & whole for _, _, _, addend in rows if addend is not None]


def test_mips64_stores_the_symbol_first() -> None:
    data = (0x10).to_bytes(8, "little") + (5).to_bytes(4, "little") + bytes((0, 0, 0, 18)) + bytes(8)
    (block,) = relocation_blocks(BytesSource(data).view(), RelocationShape(64, "little", 8), RELA, 0, 24)
    assert list(block.rows()) == [(0x10, 18 << 24, 5, 0)]


def test_a_table_past_the_end_has_the_relocations_that_are_there() -> None:
    data, rows = stored(64, "little", RELA, 3)
    view = BytesSource(data[:-1]).view()
    (block,) = relocation_blocks(view, RelocationShape(64, "little", 62), RELA, 0, 1 << 40)
    assert list(block.rows()) == rows[:2]
    assert list(relocation_blocks(view, RelocationShape(64, "little", 62), RELA, 1 << 40, 24)) == []


@pytest.mark.parametrize(("bits", "order"), KINDS)
def test_sections_of_a_file(bits: int, order: Literal["little", "big"]) -> None:
    data, rows = stored(bits, order, REL)
    file = build.Elf(bits=bits, order=order)
    index = file.add(".rel.text", data, type=build.REL, entsize=2 * bits // 8)
    word = bits // 8
    packed = [0x1000, 1 << 1 | 1 << 4 | 1, 1 << (bits - 1) | 1, 0x2000]
    relr = file.add(".relr.dyn", b"".join(each.to_bytes(word, order) for each in packed), type=layout.RELR)
    elf = ElfFile(build.as_view(file.build()))
    assert [row for block in section_relocations(elf, elf.section(index)) for row in block.rows()] == rows
    # The first bit of an odd word is the word after the address; each odd word covers one word less than it has bits.
    second = 0x1000 + word + (bits - 1) * word
    expected = [0x1000, 0x1000 + word, 0x1000 + 4 * word, second + (bits - 2) * word, 0x2000]
    assert list(relative_places(elf, elf.section(relr))) == expected
    assert elf.section(relr).type == RELR
