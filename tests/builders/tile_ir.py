"""Modules of CUDA Tile IR bytecode, built after its public reader and writer and not from fatpack's reader."""

from __future__ import annotations

from collections.abc import Sequence

MAGIC = b"\x7fTileIR\0"
STRINGS, FUNCTIONS, DEBUG, CONSTANTS, TYPES, GLOBALS, PRODUCER = range(1, 8)
PRIVATE, KERNEL, HINTS = 1, 2, 4

#: hints of one architecture with one number: {string 0: {string 0: 2 of type 3}}
HINT = b"\x0b\x01\x00\x0a\x01\x00\x01\x03\x02"


def varint(number: int) -> bytes:
    out = b""
    while number > 0x7F:
        out += bytes((number & 0x7F | 0x80,))
        number >>= 7
    return out + bytes((number,))


def strings(*texts: bytes) -> bytes:
    out = varint(len(texts))
    out += b"\xcb" * (-len(out) % 4) if texts else b""
    at = 0
    for text in texts:
        out += at.to_bytes(4, "little")
        at += len(text)
    return out + b"".join(texts)


def function(name: int, flags: int = KERNEL, body: bytes = b"\0" * 5, attributes: bytes = b"") -> bytes:
    return varint(name) + varint(300) + bytes((flags,)) + varint(1) + attributes + varint(len(body)) + body


def functions(*rows: bytes, count: int | None = None) -> bytes:
    return varint(len(rows) if count is None else count) + b"".join(rows)


def section(at: int, kind: int, content: bytes, alignment: int = 1) -> bytes:
    """Return a section that starts at a position of the module."""
    out = bytes((kind | (0x80 if alignment > 1 else 0),)) + varint(len(content))
    if alignment > 1:
        out += varint(alignment)
        out += b"\xcb" * (-(at + len(out)) % alignment)
    return out + content


def module(
    *sections: tuple[int, bytes],
    version: tuple[int, int] = (13, 3),
    tag: int = 0,
    alignment: int = 8,
    end: bytes = b"\0",
) -> bytes:
    """Return a module with (kind, content) of its sections, in that order."""
    out = MAGIC + bytes(version) + tag.to_bytes(2, "little")
    for kind, content in sections:
        out += section(len(out), kind, content, alignment)
    return out + end


def kernels(names: Sequence[bytes], version: tuple[int, int] = (13, 3)) -> bytes:
    """Return a module with kernels of these names, and a function of the device between them."""
    rows = [function(number) for number in range(len(names))]
    rows.insert(len(rows) // 2, function(0, PRIVATE))
    return module((FUNCTIONS, functions(*rows)), (STRINGS, strings(*names)), version=version)
