"""Symbols and relocations of COFF: the one walk over each, for objects, PE images, editors and archives.

Tables are views, so their ends limit what is read, not a stored count; callers that need a whole table slice it from
the file, which raises Truncated. Auxiliary records belong to the symbol before them and have numbers of their own.
``fatpack.proof`` has readers of its own.
"""

from __future__ import annotations

from fatpack.binary.coff.layout import RELOCATION

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TypeAlias

    from fatpack.io.source import View
    from fatpack.layout import Layout

    #: name or reference, value, section, type, storage class, number of auxiliary records
    SymbolRow: TypeAlias = tuple[bytes, int, int, int, int, int]

#: Records per read, more than a symbol and its auxiliary records.
_ROWS = 1 << 14
_MOST_TOGETHER = 256


def symbol_rows(table: View, layout: Layout) -> Iterator[tuple[int, SymbolRow, bytes]]:
    """Yield number, fields and auxiliary records of each symbol in a table.

    Auxiliary records after the end of the table are left out, although the symbol counts them.
    """
    size, unpack = layout.size, layout.struct.unpack_from
    count = len(table) // size
    number = first = 0
    block = b""
    while number < count:
        at = (number - first) * size
        if at + _MOST_TOGETHER * size > len(block) and first + len(block) // size < count:
            first, at = number, 0
            block = table.head(number * size, min(_ROWS, count - number) * size)
        row: SymbolRow = unpack(block, at)
        following = number + 1 + row[5]
        yield number, row, block[at + size : (following - first) * size]
        number = following


def symbol_name_offset(stored: bytes) -> int | None:
    """Return the offset in the string table that a symbol's stored name refers to; None for a name in place."""
    return int.from_bytes(stored[4:], "little") if stored[:4] == b"\0\0\0\0" else None


def relocation_rows(table: View) -> Iterator[tuple[int, int, int]]:
    """Yield address, symbol number and type of each relocation in a table."""
    size = len(table) - len(table) % RELOCATION.size
    step = _ROWS * RELOCATION.size
    for at in range(0, size, step):
        yield from RELOCATION.struct.iter_unpack(table.head(at, min(step, size - at)))
