"""What in a PE image leads into device code: words that the loader relocates, and exports.

Base relocations come in blocks: the address of a page, the bytes of the block, then 16 bits for each word, four of
which say how it is changed (Microsoft's PE format specification, "The .reloc Section").
"""

from __future__ import annotations

import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.proof.memory import ProgramMemory
    from fatpack.proof.pe.reader import ProofPeFile

_EXPORTS, _RELOCATIONS = 0, 5

_BLOCK = struct.Struct("<II")
_PAGE = 4096

#: How a word is changed, by word size: IMAGE_REL_BASED_DIR64, IMAGE_REL_BASED_HIGHLOW.
_WHOLE_WORD = {8: 10, 4: 3}

#: Export directory: number of functions, and the address of the table of their addresses.
_EXPORT_COUNT_AT, _EXPORT_TABLE_AT = 20, 28


class PointersToDeviceCode:
    """The pointers and exports of an image, by where they lead."""

    def __init__(self, pe: ProofPeFile) -> None:
        self._pe = pe

    def __call__(self, memory: ProgramMemory, low: int, high: int) -> Iterator[tuple[int, int]]:
        """Yield the pointers and exports that lead to addresses in ``[low, high)``: where they are, and these."""
        yield from self._exports(memory, low, high)
        start, size = self._pe.directory(_RELOCATIONS)
        at = start
        while at + _BLOCK.size <= start + size:
            head = memory.read(at, _BLOCK.size)
            page, length = (0, 0) if head is None else _BLOCK.unpack(head)
            entries = memory.read(at + _BLOCK.size, length - _BLOCK.size) if length > _BLOCK.size else None
            if length < _BLOCK.size or at + length > start + size:
                return
            yield from _relocated(memory, page, entries or b"", low, high)
            at += length

    def _exports(self, memory: ProgramMemory, low: int, high: int) -> Iterator[tuple[int, int]]:
        start, size = self._pe.directory(_EXPORTS)
        count, table = (memory.number(start + at, 4) for at in (_EXPORT_COUNT_AT, _EXPORT_TABLE_AT))
        stretch = memory.stretch(table or 0)
        if not size or not count or table is None or stretch is None:
            return
        data = memory.read(table, 4 * min(count, (stretch.end - table) // 4)) or b""
        for number, (value,) in enumerate(struct.iter_unpack("<I", data)):
            if low <= value < high:
                yield table + 4 * number, value


def _relocated(memory: ProgramMemory, page: int, entries: bytes, low: int, high: int) -> Iterator[tuple[int, int]]:
    """Yield the words of a page that are relocated and lead between two addresses."""
    word, kind = memory.word, _WHOLE_WORD[memory.word]
    stretch = memory.stretch(page)
    if stretch is None:
        return
    data = memory.read(page, min(_PAGE + word, stretch.end - page)) or b""
    for (entry,) in struct.iter_unpack("<H", entries[: len(entries) // 2 * 2]):
        if entry >> 12 == kind:
            at = entry & 0xFFF
            value = int.from_bytes(data[at : at + word], "little") - memory.base
            if low <= value < high:
                yield page + at, value
