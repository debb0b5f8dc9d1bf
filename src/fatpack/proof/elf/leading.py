"""What in an ELF program leads into device code: words that the loader relocates, and symbols that other files see."""

from __future__ import annotations

import struct

from fatpack.proof.elf.tables import symbol_count
from fatpack.proof.memory import WINDOW
from fatpack.proof.stale import split_into_words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.proof.elf.reader import ProofElfFile


def pointers_to_device_code(elf: ProofElfFile, low: int, high: int) -> Iterator[tuple[int, int]]:
    """Yield the pointers and dynamic symbols whose value lies in ``[low, high)``: their addresses and values.

    In a program that is not relocated any word may be a pointer, a number or text: none of those is given.
    """
    yield from _symbols(elf, low, high)
    yield from _with_addends(elf, low, high)
    for place in _in_place(elf):
        value = elf.memory.number(place, elf.memory.word)
        if value is not None and low <= value < high:
            yield place, value


def _tables(elf: ProofElfFile, tag: str, size_tag: str) -> Iterator[tuple[int, bytes]]:
    """Yield address and bytes of a table that the dynamic section leads to, in windows of whole records."""
    start, size = elf.tag(tag), elf.tag(size_tag)
    if start is None or size is None:
        return
    size = min(size, elf.memory.room(start))
    step = WINDOW // 48 * 48  # a multiple of every record's size
    for at in range(start, start + size, step):
        data = elf.memory.read(at, min(step, start + size - at))
        if data is None:
            return
        yield at, data


def _with_addends(elf: ProofElfFile, low: int, high: int) -> Iterator[tuple[int, int]]:
    for _, data in _tables(elf, "DT_RELA", "DT_RELASZ"):
        words = split_into_words(elf.memory, data)
        places, addends = words[::3], words[2::3]
        if len(addends) and min(addends) < high and max(addends) >= low:
            yield from ((places[n], addend) for n, addend in enumerate(addends) if low <= addend < high)


def _in_place(elf: ProofElfFile) -> Iterator[int]:
    """Yield the places of relocations without addends (``DT_REL``, ``DT_RELR``)."""
    word = elf.memory.word
    for _, data in _tables(elf, "DT_REL", "DT_RELSZ"):
        yield from split_into_words(elf.memory, data)[::2]
    base = 0
    for _, data in _tables(elf, "DT_RELR", "DT_RELRSZ"):
        for entry in split_into_words(elf.memory, data):
            if not entry & 1:
                yield entry
                base = entry + word
                continue
            bits, place = entry >> 1, base
            while bits:
                if bits & 1:
                    yield place
                bits >>= 1
                place += word
            base += (8 * word - 1) * word


def _symbols(elf: ProofElfFile, low: int, high: int) -> Iterator[tuple[int, int]]:
    """Yield the dynamic symbols that are defined in the file."""
    start, count = elf.tag("DT_SYMTAB"), symbol_count(elf)
    if start is None or count is None:
        return
    wide = elf.memory.word == 8
    sign = "<" if elf.memory.order == "little" else ">"
    record = struct.Struct(sign + ("IBBHQQ" if wide else "IIIBBH"))
    value_at, section_at = (4, 3) if wide else (1, 5)
    count = min(count, elf.memory.room(start) // record.size)
    step = WINDOW // record.size * record.size
    for at in range(start, start + count * record.size, step):
        data = elf.memory.read(at, min(step, start + count * record.size - at))
        if data is None:
            return
        for number, row in enumerate(record.iter_unpack(data)):
            if low <= row[value_at] < high and row[section_at]:
                yield at + number * record.size, row[value_at]
