"""Small ELF files of any machine, word size and byte order, from the gABI and not from fatpack's own tables."""

from __future__ import annotations

import struct
from collections.abc import Sequence

SYMTAB, STRTAB, NOTE, NOBITS, DYNSYM = 2, 3, 7, 8, 11

#: (bits) → struct codes of the header behind e_ident, of a section header, of a program header
_HEADER = {64: "HHIQQQIHHHHHH", 32: "HHIIIIIHHHHHH"}
_SECTION = {64: "IIQQQQIIQQ", 32: "IIIIIIIIII"}
_SEGMENT = {64: "IIQQQQQQ", 32: "IIIIIIII"}


def symbol(bits: int, order: str, name: int, kind: tuple[int, int, int]) -> bytes:
    """Return one symbol with value and size 0; ``kind`` is (st_info, st_other, st_shndx)."""
    if bits == 64:
        return struct.pack(order + "IBBHQQ", name, *kind, 0, 0)
    return struct.pack(order + "IIIBBH", name, 0, 0, *kind)


def device_elf(
    machine: int,
    flags: int = 0,
    *,
    bits: int = 64,
    order: str = "<",
    osabi: int = 0,
    abi_version: int = 0,
    file_type: int = 2,
    version: int = 1,
    sections: Sequence[tuple[int, bytes]] = (),
    symbols: Sequence[tuple[bytes, int, int, int]] = (),
    symbol_table: int = SYMTAB,
    segments: Sequence[tuple[int, int]] = (),
    has_sections: bool = True,
    segments_last: bool = False,
    large_count: bool = False,
    without_bytes: Sequence[int] = (NOBITS,),
) -> bytes:
    """Return an ELF: header, sections, symbols (name, st_info, st_other, st_shndx) with their names, tables.

    ``sections`` are (type, content); of a section of a type ``without_bytes`` the content gives the size only.
    ``segments`` are (offset, file size). ``large_count`` stores the number of sections where the gABI puts numbers
    above 65279.
    """
    header_size, section_size, segment_size = (
        16 + struct.calcsize(order + _HEADER[bits]),
        struct.calcsize(order + _SECTION[bits]),
        struct.calcsize(order + _SEGMENT[bits]),
    )
    body = b""
    rows = []
    for kind, content in sections:
        rows.append((kind, header_size + len(body), len(content), 0, 0))
        body += b"" if kind in without_bytes else content
    if symbols:
        names, table = b"\0", symbol(bits, order, 0, (0, 0, 0))
        for name, *kind in symbols:
            table += symbol(bits, order, len(names), kind)
            names += name + b"\0"
        entry = len(symbol(bits, order, 0, (0, 0, 0)))
        rows.append((symbol_table, header_size + len(body), len(table), len(rows) + 2, entry))
        body += table
        rows.append((STRTAB, header_size + len(body), len(names), 0, 0))
        body += names
    count = len(rows) + 1 if has_sections else 0
    first = struct.pack(order + _SECTION[bits], *(0, 0, 0, 0, 0, count if large_count else 0, 0, 0, 0, 0))
    table = first + b"".join(
        struct.pack(order + _SECTION[bits], 0, kind, 0, 0, offset, size, link, 0, 1, entry)
        for kind, offset, size, link, entry in rows
    )
    table = table if has_sections else b""
    programs = b"".join(
        struct.pack(order + _SEGMENT[bits], 1, 5, offset, 0, 0, size, size, 1)
        if bits == 64
        else struct.pack(order + _SEGMENT[bits], 1, offset, 0, 0, size, size, 5, 1)
        for offset, size in segments
    )
    end = header_size + len(body)
    shoff, phoff = (end, end + len(table)) if segments_last else (end + len(programs), end)
    header = struct.pack(
        order + _HEADER[bits],
        *(file_type, machine, version, 0),
        phoff if programs else 0,
        shoff if has_sections else 0,
        *(flags, header_size, segment_size, len(segments), section_size if has_sections else 0),
        *(0 if large_count else count, 0),
    )
    ident = b"\x7fELF" + bytes((bits // 32, 1 if order == "<" else 2, 1, osabi, abi_version)) + bytes(7)
    return ident + header + body + (table + programs if segments_last else programs + table)
