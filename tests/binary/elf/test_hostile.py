"""Damaged and hostile files: every function gives a result or one of our errors, in bounded time and memory."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from contextlib import suppress

import pytest
from tests.builders import elf as build
from tests.effort import some

from fatpack.binary import CodeSection, elf
from fatpack.binary.elf import objcopy
from fatpack.binary.elf.file import ElfFile
from fatpack.errors import FatpackError
from fatpack.io.source import BytesSource, View
from fatpack.testing.helpers import TracedMemory

KINDS = [(32, "little"), (32, "big"), (64, "little"), (64, "big")]
each_kind = pytest.mark.parametrize(("bits", "order"), KINDS)
#: FATPACK_FUZZ=20 runs the random sweeps twenty times as long.
ROUNDS = int(os.environ.get("FATPACK_FUZZ", "1"))


def small(bits: int, order: str) -> bytes:
    """Return an object with everything that the editors read: symbols, relocations, a group, a wide index table."""
    file = build.Elf(bits=bits, order=order, machine=build.AARCH64, segments=[(0, 40)])
    device = file.add(".llvm.offloading", b"D" * 12, type=build.OFFLOADING, flags=build.EXCLUDE, align=8)
    data = file.add(".data", bytes(12), flags=build.ALLOC, align=4)
    file.symbol("$d", device)
    file.symbol("kernel", data, size=4)
    file.relocations(data, (4, 2, 1, 0))
    file.add(".group", file.pack("2I", 1, data), type=build.GROUP, align=4, link=-1, info=2, entsize=4)
    file.add(".bss", type=build.NOBITS, size=64)
    return file.build()


def drop(data: bytes) -> None:
    """Call every function with a file; anything except a result or a FatpackError fails the test."""
    view = build.as_view(data)
    elf.detect(view)
    for door in DOORS:
        try:
            door(data)
        except FatpackError as error:
            assert str(error)


def _locate(data: bytes) -> None:
    taken = 0
    for item in elf.locate(build.as_view(data)):
        if isinstance(item, CodeSection):
            item.data.tobytes()
            taken += len(item.data)
    assert taken <= len(data)


def _labels(data: bytes) -> None:
    at = 0
    for label in elf.labels(build.as_view(data)):
        assert label.span.start == at
        at = label.span.end
    assert at == len(data)


def _edit(edit: Callable[[build.View], list[object]]) -> Callable[[bytes], None]:
    def run(data: bytes) -> None:
        before = build.as_view(data)
        result = build.as_bytes(edit(before))  # type: ignore[arg-type]
        assert len(result) < 4 * len(data) + (1 << 17)
        elf.verify(before, build.as_view(result))

    return run


def _rewrite(edit: Callable[[build.View], list[object]]) -> Callable[[bytes], None]:
    """Return a rewrite, whose result is parsed; nothing else checks it."""

    def run(data: bytes) -> None:
        pieces = edit(build.as_view(data))
        # Alignment may ask for many zeros: the file may be large, but not in memory.
        if sum(map(len, pieces)) < 8 * len(data) + (1 << 17):  # type: ignore[arg-type]
            ElfFile(build.as_view(build.as_bytes(pieces)))  # type: ignore[arg-type]
        assert len(pieces) < 1 << 16

    return run


DOORS: list[Callable[[bytes], None]] = [
    _locate,
    _labels,
    _edit(lambda view: elf.embed(view, [b"E" * 24])),  # type: ignore[arg-type,return-value]
    _edit(lambda view: elf.embed(view, [b"E"], name=".other", keep_trailing=True)),  # type: ignore[arg-type,return-value]
    _edit(lambda view: elf.replace(view, 1, [b"R" * 99])),  # type: ignore[arg-type,return-value]
    _edit(lambda view: elf.remove(view, [1])),  # type: ignore[arg-type,return-value]
    _rewrite(lambda view: objcopy.add_sections(view, [("x", [b"content"])])),  # type: ignore[arg-type,return-value]
    _rewrite(lambda view: objcopy.remove_sections(view, ".llvm")),  # type: ignore[arg-type,return-value]
]


@each_kind
def test_the_whole_file_passes_all_doors(bits: int, order: str) -> None:
    for door in DOORS:
        door(small(bits, order))


@each_kind
def test_every_truncation_gives_a_result_or_an_error(bits: int, order: str) -> None:
    data = small(bits, order)
    for size in some(range(len(data))):
        drop(data[:size])


@each_kind
def test_flipped_bytes_give_a_result_or_an_error(bits: int, order: str) -> None:
    """Each kind of file has other bytes changed; the sweep tries all bytes in all kinds."""
    data = small(bits, order)
    for at in some(range(KINDS.index((bits, order)), len(data), len(KINDS))):
        drop(data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :])


@pytest.mark.slow
@each_kind
@pytest.mark.parametrize("mask", [0xFF, 0x01, 0x80])
def test_every_flipped_byte_gives_a_result_or_an_error(bits: int, order: str, mask: int) -> None:
    data = small(bits, order)
    for at in range(len(data)):
        drop(data[:at] + bytes([data[at] ^ mask]) + data[at + 1 :])


@pytest.mark.slow
@each_kind
@pytest.mark.parametrize("filler", [b"\0", b"\xff", b"\x7f"])
def test_every_word_set_to_an_extreme_gives_a_result_or_an_error(bits: int, order: str, filler: bytes) -> None:
    data = small(bits, order)
    for width in (2, 4, 8):
        for at in range(0, len(data) - width + 1, width):
            drop(data[:at] + filler * width + data[at + width :])


@each_kind
def test_fields_that_contradict_each_other_give_a_result_or_an_error(bits: int, order: str) -> None:
    data = small(bits, order)
    values = [0, 1, 2, 7, 8, 63, 64, len(data) - 1, len(data), len(data) + 1, 1 << 16, (1 << bits) - 1, (1 << bits) - 8]
    dice = random.Random(f"{bits} {order}")
    names = list(build.SECTION_FIELDS[bits])
    for _ in some(range(200 * ROUNDS)):
        changed = data
        for _ in range(dice.randint(1, 4)):
            index = dice.randrange(ElfFile(build.as_view(data)).section_count)
            name = dice.choice(names)
            limit = 1 << (32 if name in ("name", "type", "link", "info") else bits)
            changed = build.with_section(changed, index, **{name: dice.choice(values) % limit})
        drop(changed)


def test_rubbish_after_the_identification_gives_a_result_or_an_error() -> None:
    dice = random.Random(7)
    for _ in range(300 * ROUNDS):
        ident = b"\x7fELF" + bytes([dice.randint(1, 2), dice.randint(1, 2), 1])
        drop(ident + dice.randbytes(dice.randint(0, 300)))


class _Counting(BytesSource):
    """A source that counts the bytes read from it: this shows too much work on any machine."""

    count = 0

    def read(self, offset: int, size: int) -> bytes:
        self.count += size
        return super().read(offset, size)


def _bounded(work: Callable[[View], object], data: bytes, size: int) -> int:
    """Run ``work`` on hostile bytes; check the peak of memory, and return how many bytes were read."""
    source = _Counting(data, "hostile.o")
    with TracedMemory() as memory, suppress(FatpackError):
        work(source.view())
    assert memory.peak < size, f"{memory.peak} bytes"
    return source.count


def test_memory_does_not_follow_the_numbers_in_the_file() -> None:
    data = build.device_object().build()
    lies = [
        build.with_header(data, "shnum", 0xFFFE),
        build.with_section(build.with_header(data, "shnum", 0), 0, size=1 << 40),
        build.with_section(data, 2, size=1 << 60),
        build.with_section(data, 8, size=1 << 60),
        build.with_section(data, 3, addralign=1 << 62),
        build.with_section(data, 2, addralign=1 << 62, offset=0),
        build.with_section(data, 6, size=1 << 50, entsize=24),
        build.with_header(build.device_object(segments=[(0, 64)]).build(), "phnum", 0xFFFF),
    ]
    for lie in lies:
        _bounded(lambda view: drop(view.tobytes()), lie, 1 << 20)


def test_thousands_of_sections_over_the_same_bytes_cost_no_more_than_one() -> None:
    file = build.Elf()
    for _ in range(1500):
        file.add(".hip_fatbin")
    last = file.add(".llvm.offloading", b"c" * 500_000, type=build.OFFLOADING)
    data = file.build()
    at = build.section_field(data, last, "offset")
    rows = bytearray(data)
    table = build.header_field(data, "shoff")
    for index in range(1, last):
        rows[table + 64 * index + 24 : table + 64 * index + 40] = file.pack("QQ", at, 400_000)
    data = bytes(rows)
    assert _bounded(lambda view: list(elf.locate(view)), data, 20 << 20) < 20 << 20  # a block for each name
    _bounded(lambda view: drop(view.tobytes()), data, 40 << 20)


def test_thousands_of_long_overlapping_names_cost_little() -> None:
    file = build.Elf()
    for _ in range(3000):
        file.add("", b"x", type=build.OFFLOADING)
    file.add("n" * 200_000, b"")
    data = bytearray(file.build())
    table = build.header_field(bytes(data), "shoff")
    for index in range(1, 3001):
        data[table + 64 * index : table + 64 * index + 4] = file.pack("I", index)
    assert _bounded(lambda view: list(elf.locate(view)), bytes(data), 40 << 20) < 3200 * 8192


def test_many_symbol_tables_over_the_same_bytes_are_refused_not_read() -> None:
    file = build.device_object()
    for number in range(20000):
        file.symbol(f"s{number}", 1)
    for _ in range(500):
        file.add(".symtab2", type=build.SYMTAB, entsize=24)
    data = file.build()
    table = next(
        section for section in ElfFile(build.as_view(data)).sections() if section.type == build.SYMTAB and section.size
    )
    rows = bytearray(data)
    start = build.header_field(data, "shoff")
    for index in range(6, 506):
        rows[start + 64 * index + 24 : start + 64 * index + 40] = file.pack("QQ", table.offset, table.size)
    assert _bounded(lambda view: elf.remove(view, [2]), bytes(rows), 40 << 20) < 8 * len(rows)


def test_reading_is_linear_in_the_number_of_sections() -> None:
    def bytes_read(count: int) -> int:
        file = build.Elf()
        for number in range(count):
            file.add(f".text.function_{number}", b"\xc3", flags=build.ALLOC)
        file.add(".llvm.offloading", b"device!!", type=build.OFFLOADING)
        return _bounded(lambda view: list(elf.locate(view)), file.build(), 64 << 20)

    assert bytes_read(30000) < 11 * bytes_read(3000)
