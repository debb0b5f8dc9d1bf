"""A library of half a gigabyte with device code, written as a sparse file: it takes two megabytes of disk.

Its shape is that of libcublasLt 13.10, with fewer places: host code, many containers with small images side by side,
then containers that lie megabytes apart, and the section table at the end.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path

import zstandard
from tests.builders import fatbin

SIZE = 552 << 20

#: Containers side by side, and containers far apart.
SMALL, LARGE = 600, 120

#: Where the section with device code starts, and the tables behind it.
START, TABLES = 164 << 20, 551 << 20

_ZSTD = 0x8011


def write_large_library(path: Path, part: int = 1) -> None:
    """Write the library, of ``SMALL + LARGE`` containers of one image each, or one of that part of its size."""
    size, small, large, tables = SIZE // part, SMALL // part, LARGE // part, TABLES // part
    with path.open("wb") as file:
        at = start = START // part
        for _ in range(small):
            file.seek(at)
            at += file.write(fatbin.fatbin(_compressed(fatbin.cubin(80, code=os.urandom(900)))))
        whole = (tables - at) // large // 8 * 8
        for number in range(large):
            # The beginning of an image that nobody inflates to list it; the rest is a hole.
            begun = _compressed(os.urandom(1 << 10) * 64, stored=whole - 80 - 8 * (number % 7))
            file.seek(at)
            file.write(fatbin.fatbin(begun, size=whole - 16 - 8 * (number % 7)))
            at += whole - 8 * (number % 7)
        names = b"\0.nv_fatbin\0.shstrtab\0"
        file.seek(tables)
        file.write(names)
        table = tables + 64
        file.seek(table)
        file.write(bytes(64))
        file.write(_section(1, 1, 2, start, at - start))
        file.write(_section(12, 3, 0, tables, len(names)))
        file.truncate(size)
        file.seek(0)
        # A shared object for x86-64 with three section headers, the names in the last.
        head = b"\x7fELF\2\1\1" + bytes(9)
        file.write(head + struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 0, table, 0, 64, 56, 0, 64, 3, 2))


def _section(name: int, kind: int, flags: int, offset: int, size: int) -> bytes:
    return struct.pack("<IIQQQQIIQQ", name, kind, flags, 0, offset, size, 0, 0, 8, 0)


def _compressed(image: bytes, stored: int | None = None) -> bytes:
    """Return an entry with an image that zstd compressed, which takes ``stored`` bytes; those behind it are zeros."""
    data = zstandard.ZstdCompressor().compress(image)
    size = len(data) if stored is None else stored
    padded = size + -size % 8
    made = fatbin.entry(data, flags=_ZSTD, inflated=len(image), compressed=size, padded_size=padded)
    return made if stored is None else made[: 64 + len(data)]
