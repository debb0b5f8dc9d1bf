"""Mach-O and universal files built in code, from Apple's headers and not from fatpack's tables."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

ARM64, X86_64, I386, POWERPC = 0x0100000C, 0x01000007, 7, 18
SEGMENT, SYMTAB, SEGMENT_64 = 1, 2, 0x19
ZEROFILL = 1

#: bits, byte order → how the magic is stored
MAGICS = {
    (32, "<"): b"\xce\xfa\xed\xfe",
    (64, "<"): b"\xcf\xfa\xed\xfe",
    (32, ">"): b"\xfe\xed\xfa\xce",
    (64, ">"): b"\xfe\xed\xfa\xcf",
}


class Section(NamedTuple):
    """A section; ``size`` and ``offset`` lie where they are given."""

    segment: bytes
    name: bytes
    data: bytes = b""
    flags: int = 0
    size: int | None = None
    offset: int | None = None
    relocations: int = 0


def build(
    sections: Sequence[Section],
    *,
    bits: int = 64,
    order: str = "<",
    machine: int = ARM64,
    file_type: int = 1,
    segment_file_size: int | None = None,
    nsects: int | None = None,
    ncmds: int | None = None,
    commands_size: int | None = None,
    command_size: int | None = None,
    others: Sequence[bytes] = (),
    tail: bytes = b"",
) -> bytes:
    """Return a file with one segment; ``others`` are load commands behind it, whole."""
    word = "Q" if bits == 64 else "I"
    header_size, row_size = (32, 80) if bits == 64 else (28, 68)
    head_size = struct.calcsize(f"<II16s4{word}4I")
    segment_size = head_size + row_size * len(sections)
    at = first = header_size + segment_size + sum(map(len, others))
    rows = content = b""
    for section in sections:
        at += -at % 16
        content = content.ljust(at - first, b"\0") + section.data
        size = len(section.data) if section.size is None else section.size
        offset = at if section.offset is None else section.offset
        numbers = (0, size, offset, 4, 0, section.relocations, section.flags, 0, 0)
        rows += struct.pack(f"{order}16s16s2{word}7I", section.name, section.segment, *numbers)
        rows += bytes(4) if bits == 64 else b""
        at += len(section.data)
    stored = len(content) if segment_file_size is None else segment_file_size
    kind = SEGMENT_64 if bits == 64 else SEGMENT
    count = len(sections) if nsects is None else nsects
    segment = struct.pack(
        f"{order}II16s4{word}4I",
        kind,
        segment_size if command_size is None else command_size,
        b"",
        0,
        len(content),
        first,
        stored,
        7,
        7,
        count,
        0,
    )
    commands = segment + rows + b"".join(others)
    header = MAGICS[bits, order] + struct.pack(
        f"{order}6I",
        machine,
        0,
        file_type,
        1 + len(others) if ncmds is None else ncmds,
        len(commands) if commands_size is None else commands_size,
        0,
    )
    return header + (bytes(4) if bits == 64 else b"") + commands + content + tail


def universal(slices: Sequence[tuple[int, int, bytes]], *, bits: int = 32, count: int | None = None) -> bytes:
    """Return a universal file of (cputype, cpusubtype, content)."""
    word = "Q" if bits == 64 else "I"
    row_size = 32 if bits == 64 else 20
    at = 8 + row_size * len(slices)
    rows = content = b""
    first = at
    for machine, variant, data in slices:
        at += -at % 16
        content = content.ljust(at - first, b"\0") + data
        rows += struct.pack(f">II2{word}I", machine, variant, at, len(data), 4) + (bytes(4) if bits == 64 else b"")
        at += len(data)
    magic = b"\xca\xfe\xba\xbf" if bits == 64 else b"\xca\xfe\xba\xbe"
    return magic + struct.pack(">I", len(slices) if count is None else count) + rows + content
