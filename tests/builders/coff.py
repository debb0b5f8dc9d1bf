"""COFF objects built in code, from Microsoft's specification and not from fatpack's own tables."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

BIG_CLASS = bytes.fromhex("c7a1bad1eebaa94baf20faf66aa4dcb8")
AMD64 = 0x8664

#: Flags of a section of device code as clang writes them, and of one that becomes part of programs
OFFLOADING, READ_ONLY = 0x02400800, 0x40000040
BASE64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"


class Section(NamedTuple):
    name: bytes
    data: bytes = b""
    flags: int = READ_ONLY
    relocations: Sequence[tuple[int, int, int]] = ()
    line_count: int = 0
    virtual_size: int = 0


class Symbol(NamedTuple):
    name: bytes
    section: int
    value: int = 0
    storage_class: int = 2
    aux: Sequence[bytes] = ()


def section_symbol(name: bytes, number: int, size: int, checksum: int = 0) -> Symbol:
    """Return the symbol that compilers write for every section, with its definition."""
    return Symbol(name, number, 0, 3, [struct.pack("<IHHIHB3x", size, 0, 0, checksum, number, 0)])


def build(
    sections: Sequence[Section],
    symbols: Sequence[Symbol] | None = (),
    *,
    big: bool = False,
    machine: int = AMD64,
    room: int = 0,
    strings: bytes = b"",
    tail: bytes = b"",
) -> bytes:
    """Return an object; ``symbols`` None leaves out symbols and strings, ``room`` zeros follow the section table."""
    table = bytearray(strings)

    def stored(name: bytes) -> bytes:
        if len(name) <= 8:
            return name.ljust(8, b"\0")
        offset = 4 + len(table)
        table.extend(name + b"\0")
        if offset <= 9_999_999:
            return f"/{offset}".encode().ljust(8, b"\0")
        return ("//" + "".join(BASE64[offset >> shift & 63] for shift in range(30, -1, -6))).encode()

    header_size = 56 if big else 20
    at = header_size + 40 * len(sections) + room
    headers, body = bytearray(), bytearray()
    for section in sections:
        count = len(section.relocations)
        flags, relocations, records = section.flags, list(section.relocations), count
        if count > 0xFFFE:
            flags, records = flags | 0x01000000, 0xFFFF
            relocations.insert(0, (count + 1, 0, 0))
        raw = at + len(body) if section.data else 0
        body += section.data
        relocated = at + len(body) if relocations else 0
        body += b"".join(struct.pack("<IIH", *relocation) for relocation in relocations)
        headers += stored(section.name) + struct.pack(
            "<IIIIIIHHI",
            section.virtual_size,
            0,
            len(section.data),
            raw,
            relocated,
            0,
            records,
            section.line_count,
            flags,
        )
    records, record_count = b"", 0
    for symbol in symbols or ():
        name = symbol.name.ljust(8, b"\0")
        if len(symbol.name) > 8:
            name = struct.pack("<II", 0, 4 + len(table))
            table.extend(symbol.name + b"\0")
        layout, width = ("<IiHBB", 20) if big else ("<IhHBB", 18)
        number = symbol.section
        records += name + struct.pack(layout, symbol.value, number, 0, symbol.storage_class, len(symbol.aux))
        records += b"".join(aux.ljust(width, b"\0")[:width] for aux in symbol.aux)
        record_count += 1 + len(symbol.aux)
    place = at + len(body) if symbols is not None else 0
    if big:
        header = struct.pack("<HHHHI16s16xIII", 0, 0xFFFF, 2, machine, 0, BIG_CLASS, len(sections), place, record_count)
    else:
        header = struct.pack("<HHIIIHH", machine, len(sections), 0, place, record_count, 0, 0)
    end = records + struct.pack("<I", 4 + len(table)) + table if symbols is not None else b""
    return header + headers + bytes(room) + body + end + tail
