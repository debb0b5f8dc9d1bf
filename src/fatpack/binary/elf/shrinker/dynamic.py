"""The dynamic table of a linked file: which of its entries are addresses, and what they lead to."""

from __future__ import annotations

from bisect import bisect_left

from fatpack.binary.elf import constants
from fatpack.binary.elf.table import read_table_rows

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.binary.elf.shrinker.linked import LinkedElfFile

#: Tags whose values are no addresses: sizes, counts, flags and places in the table of strings (gABI, "Dynamic
#: Section", and glibc's elf.h for those of GNU and Sun).
_NUMBERS = {1, 2, 8, 9, 10, 11, 14, 15, 16, 18, 19, 20, 22, 24, 27, 28, 29, 30, 33, 35, 37} | {
    0x6FFFFFF9,
    0x6FFFFFFA,
    0x6FFFFFFB,
    0x6FFFFFFD,
    0x6FFFFFFF,
    0x7FFFFFFD,
    0x7FFFFFFF,
}
#: DT_VALRNGLO to DT_VALRNGHI: numbers, too
_FIRST_NUMBER, _LAST_NUMBER = 0x6FFFFD00, 0x6FFFFDFF

#: LIMIT: entries of a dynamic table that are read. Real ones have some dozen, and one for each library they need.
_MOST = 1 << 16


class DynamicTable:
    """The entries of a file's dynamic table that hold addresses; none of a file without one."""

    #: type of a section → tag by which the table leads to it, and nothing else does
    TAGS = {  # noqa: RUF012  (nobody changes it)
        5: 4,
        0x6FFFFFF6: 0x6FFFFEF5,
        constants.DYNSYM: 6,
        constants.STRTAB: 5,
        0x6FFFFFFF: 0x6FFFFFF0,
        0x6FFFFFFD: 0x6FFFFFFC,
        0x6FFFFFFE: 0x6FFFFFFE,
    }

    def __init__(self, elf: LinkedElfFile) -> None:
        self._elf = elf
        #: (address, tag, position of the address in the file), by address
        self._entries: list[tuple[int, int, int]] = []
        import struct

        word, order = elf.layouts.word, "<" if elf.layouts.order == "little" else ">"
        row = struct.Struct(order + ("QQ" if word == 8 else "II"))
        table = next((each for each in elf.segments if each.type == constants.DYNAMIC), None)
        self.is_present = table is not None
        if table is None:
            return
        for number, (tag, value) in enumerate(
            read_table_rows(elf.view, table.offset, min(table.file_size // row.size, _MOST), row)
        ):
            if not tag:
                break
            if tag not in _NUMBERS and not _FIRST_NUMBER <= tag <= _LAST_NUMBER:
                self._entries.append((value, tag, table.offset + number * row.size + word))
        self._entries.sort()

    def leading(self, address: int, size: int) -> list[tuple[int, int]]:
        """Return (address, tag) of the entries that lead to some bytes."""
        return [(value, tag) for value, tag, _ in self._between(address, address + size)]

    def patches(self, low: int, high: int, shift: int) -> dict[int, bytes]:
        """Return position → bytes for the entries that lead to addresses between two, moved by a distance."""
        word, order = self._elf.layouts.word, self._elf.layouts.order
        return {at: (value + shift).to_bytes(word, order) for value, _, at in self._between(low, high)}

    def _between(self, low: int, high: int) -> list[tuple[int, int, int]]:
        return self._entries[bisect_left(self._entries, (low,)) : bisect_left(self._entries, (high,))]
