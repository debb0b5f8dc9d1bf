"""Archives built in code, from the documents and not from fatpack's own tables."""

from __future__ import annotations

import struct
from collections.abc import Sequence

GNU, THIN = b"!<arch>\n", b"!<thin>\n"


def header(name: bytes, size: int) -> bytes:
    """Return a member header with zero dates and owners."""
    return b"%-16s%-12d%-6d%-6d%-8s%-10d`\n" % (name, 0, 0, 0, b"644", size)


def member(name: bytes, data: bytes) -> bytes:
    """Return a member whose header spells the name as given, padded to an even length."""
    return header(name, len(data)) + data + b"\n" * (len(data) % 2)


def bsd_member(name: bytes, data: bytes, padding: int = 0) -> bytes:
    """Return a member with its name in front of the data."""
    return member(b"#1/%d" % (len(name) + padding), name + bytes(padding) + data)


def gnu_symbols(offsets: Sequence[int], code: str = ">I", name: bytes = b"/") -> bytes:
    """Return a GNU symbol table with one symbol per header offset."""
    numbers = (len(offsets), *offsets)
    names = b"".join(b"s%d\0" % number for number in range(len(offsets)))
    return member(name, struct.pack(f"{code[0]}{len(numbers)}{code[1]}", *numbers) + names)


def bsd_symbols(offsets: Sequence[int], code: str = "<I", name: bytes = b"__.SYMDEF") -> bytes:
    """Return a BSD symbol table with one symbol ``s`` per header offset."""
    pairs = [number for offset in offsets for number in (0, offset)]
    width = struct.calcsize(code)
    table = struct.pack(f"{code[0]}{len(pairs)}{code[1]}", *pairs)
    return member(
        name, struct.pack(code, len(table)) + table + struct.pack(code, 2 if width == 4 else 8) + b"s\0" + bytes(width)
    )


def microsoft_symbols(member_offsets: Sequence[int], symbol_members: Sequence[int]) -> bytes:
    """Return Microsoft's second table: member offsets, then symbols as 1-based member numbers."""
    count, symbols = len(member_offsets), len(symbol_members)
    return member(
        b"/",
        struct.pack(f"<I{count}I", count, *member_offsets)
        + struct.pack(f"<I{symbols}H", symbols, *symbol_members)
        + b"".join(b"s%d\0" % number for number in range(symbols)),
    )
