"""PE images built in code, from Microsoft's specification and not from fatpack's own tables."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple


class Section(NamedTuple):
    name: bytes
    data: bytes
    virtual_size: int | None = None
    flags: int = 0x40000040
    address: int = 0x1000


def build(
    sections: Sequence[Section],
    *,
    bits: int = 64,
    pe_offset: int = 120,
    strings: bytes | None = None,
    certificates: bytes = b"",
    align: int = 512,
    base_address: int = 0x180000000,
) -> bytes:
    """Return an image; ``strings`` adds an empty symbol table and a string table, as MinGW's linkers do."""
    directories = [(0, 0)] * 16
    base = 112 if bits == 64 else 96
    optional_size = base + 16 * 8
    head_size = pe_offset + 24 + optional_size + 40 * len(sections)
    at = head_size + -head_size % align
    body, table = b"", b""
    for section in sections:
        stored = section.data + bytes(-len(section.data) % align)
        size = len(section.data) if section.virtual_size is None else section.virtual_size
        table += section.name.ljust(8, b"\0") + struct.pack(
            "<IIIIIIHHI", size, section.address, len(stored), at + len(body) if stored else 0, 0, 0, 0, 0, section.flags
        )
        body += stored
    end = at + len(body)
    symbols = b"" if strings is None else struct.pack("<I", 4 + len(strings)) + strings
    if certificates:
        directories[4] = (end + len(symbols), len(certificates))
    if bits == 64:
        optional = struct.pack("<H22xQ", 0x20B, base_address).ljust(base - 4, b"\0")
    else:
        optional = struct.pack("<H26xI", 0x10B, base_address & 0xFFFFFFFF).ljust(base - 4, b"\0")
    optional += struct.pack("<I", len(directories))
    optional += b"".join(struct.pack("<II", *entry) for entry in directories)
    machine = 0x8664 if bits == 64 else 0x14C
    header = struct.pack("<HHIIIHH", machine, len(sections), 0, 0 if strings is None else end, 0, optional_size, 0x22)
    dos = bytearray(max(pe_offset, 64))
    dos[:2] = b"MZ"
    dos[60:64] = struct.pack("<I", pe_offset)
    head = bytes(dos[:pe_offset]) + b"PE\0\0" + header + optional + table
    return head + bytes(at - len(head)) + body + symbols + certificates
