"""CUDA fat binaries from numbers, and images to put into them, without fatpack's own tables."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from tests.builders.device_elf import device_elf

PTX, ELF, LTOIR, INDEX, RELOCATABLE_PTX, TILE_IR, GROUP = 1, 2, 8, 0x20, 0x40, 0x80, 0x100

#: sh_type of .nv.compat
COMPAT = 0x70000086


def padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 8)


def fatbin(*entries: bytes, size: int | None = None, version: int = 1, header_size: int = 16) -> bytes:
    """Return a fat binary of these entries; the other numbers are what its header says."""
    body = b"".join(entries)
    return struct.pack("<IHHQ", 0xBA55ED50, version, header_size, len(body) if size is None else size) + body


def entry(
    image: bytes = b"",
    kind: int = ELF,
    *,
    sm: int = 80,
    flags: int = 0x11,
    compressed: int | None = None,
    inflated: int = 0,
    identifier: bytes = b"",
    options: bytes | None = None,
    code: tuple[int, int] = (8, 1),
    key: int = 0,
    version: int = 0x0101,
    **changed: int,
) -> bytes:
    """Return an entry: header, strings, image, padding.

    ``compressed`` is the size of a compressed image, by default all of it if ``inflated`` is given. ``changed`` are
    numbers that are not what they should be: ``header_size``, ``padded_size``, ``options_offset``,
    ``identifier_offset``, ``identifier_size``.
    """
    area, identifier_at, options_at = b"", 0, 0
    if identifier:
        identifier_at = 64
        area += padded(identifier + b"\0")
    if options is not None:
        options_at = 64 + len(area)
        area += struct.pack("<II", options_at + 8, len(options)) + padded(options + b"\0")
    if compressed is None:
        compressed = len(image) if inflated else 0
    header = struct.pack(
        "<HHIQIIHHIIIQQQ",
        kind,
        version,
        changed.get("header_size", 64 + len(area)),
        changed.get("padded_size", len(padded(image))),
        compressed,
        changed.get("options_offset", options_at),
        *code,
        sm,
        changed.get("identifier_offset", identifier_at),
        changed.get("identifier_size", len(identifier)),
        flags,
        key,
        inflated,
    )
    return header + area + padded(image)


def member(image_at: int, size: int, kind: int = ELF, **facts: int) -> bytes:
    """Return a member of a group whose image lies there in the inflated bytes."""
    return entry(b"", kind, header_size=image_at, padded_size=size, **facts)  # type: ignore[arg-type]


def group(
    stream: bytes,
    inflated: int,
    members: Sequence[bytes],
    *,
    flags: int = 0x8011,
    count: int | None = None,
    table_size: int | None = None,
    table_at: int = 64,
) -> bytes:
    """Return a group of members; ``count``, ``table_size`` and ``table_at`` are what it says of them."""
    rows = b"".join(members)
    table = struct.pack(
        "<II",
        len(members) if count is None else count,
        8 + len(rows) if table_size is None else table_size,
    )
    header = struct.pack(
        "<HHIQIIHHIIIQQQ",
        GROUP,
        0x0101,
        64 + len(table + rows),
        len(padded(stream)),
        len(stream),
        table_at,
        1,
        0,
        0,
        0,
        0,
        flags,
        0,
        inflated,
    )
    return header + table + rows + padded(stream)


def cubin(
    sm: int = 80,
    *,
    code: bytes = bytes(64),
    is_old: bool = False,
    compat: bytes = b"",
    bits: int = 64,
    accelerated: bool = False,
    kernels: Sequence[bytes] = (),
) -> bytes:
    """Return the least that is a cubin: its header and sections; with ``compat`` one that can be finalized.

    ``accelerated`` is what the header of 12.x says of a variant ``a``, ``kernels`` are the names of its entries.
    """
    sections = [(1, code), *([(COMPAT, compat)] if compat else [])]
    if is_old:
        return device_elf(190, sm, osabi=0x33, abi_version=7, sections=sections, bits=bits)
    flags = sm << 8 | (2 if compat else 0) | (8 if accelerated else 0) | 0x06000000
    symbols = [(name, 0x12, 0x10, 1) for name in kernels]
    return device_elf(190, flags, osabi=0x41, abi_version=8, sections=sections, symbols=symbols, bits=bits)


def ptx(text: str = "", version: str = "9.0", target: str = "sm_80") -> bytes:
    return f".version {version}\n.target {target}\n.address_size 64\n{text}".encode()


def of_words(words: str) -> bytes:
    """Return a fat binary of images in few words: ``90a`` is a cubin, ``p90`` PTX with a kernel, ``L80`` LTO-IR.

    ``R80`` is relocatable PTX.
    """
    bits = {"": 0, "a": 1 << 20, "f": 1 << 21}
    entries = []
    for word in words.split():
        kind = {"p": PTX, "L": LTOIR, "R": RELOCATABLE_PTX}.get(word[0], ELF)
        number = word.lstrip("pLR")
        digits = number.rstrip("af")
        text = f".version 8.0\n.target sm_{number}\n.address_size 64\n.visible .entry k{digits}() {{ ret; }}\n\0"
        image = {LTOIR: b"BC\xc0\xde", ELF: device_elf(190, int(digits))}.get(kind, text.encode())
        options = None if kind == ELF else b""
        entries.append(entry(image, kind, sm=int(digits), flags=0x11 | bits[number[len(digits) :]], options=options))
    return fatbin(*entries)
