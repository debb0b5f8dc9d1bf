"""Builds Metal libraries, from the layout that docs/formats/metal-library.md describes. Shares nothing with the reader.

The bitcode is that of the fixtures, which llvm-as made: `tests/fixtures/metallib/good.metallib`.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence

#: name, number of the type, versions (AIR major, minor, language major, minor)
Function = tuple[str, int, tuple[int, int, int, int]]

VERSIONS = (2, 6, 3, 1)
KERNELS: tuple[Function, ...] = (("add_f32", 2, VERSIONS), ("mul_f32", 2, VERSIONS))
UUID = bytes(range(16))
BITCODE = b"\xde\xc0\x17\x0b" + struct.pack("<4I", 0, 20, 8, 0xFFFFFFFF) + b"BC\xc0\xde" + bytes(8)


def tag(name: bytes, content: bytes) -> bytes:
    return name + struct.pack("<H", len(content)) + content


def library(
    functions: Sequence[Function] = KERNELS,
    *,
    word: int = 0x8001,
    version: tuple[int, int] = (2, 7),
    kind: int = 0,
    platform: int = 0x81,
    needs: tuple[int, int] = (14, 0),
    extension: bytes = b"",
    digest: bytes | None = None,
    size: int | None = None,
    install_name: str = "",
    private: bytes = b"",
    group: bytes = b"",
) -> bytes:
    """Return a library; ``digest`` and ``size`` replace right ones, ``group`` the groups of the functions."""
    groups, code, empty = b"", b"", struct.pack("<I", 8) + b"ENDT"
    metadata = empty * len(functions)
    for number, (name, type, versions) in enumerate(functions):
        body = BITCODE + struct.pack("<Q", number)
        made = tag(b"NAME", name.encode() + b"\0") + tag(b"TYPE", bytes((type,)))
        made += tag(b"HASH", digest or hashlib.sha256(body).digest()) + tag(b"MDSZ", struct.pack("<Q", len(body)))
        made += tag(b"OFFT", struct.pack("<3Q", 8 * number, 8 * number, len(code)))
        made += tag(b"VERS", struct.pack("<4H", *versions)) + b"ENDT"
        groups += struct.pack("<I", len(made) + 4) + made
        code += body
    groups = group or groups
    dynamic = tag(b"NAME", install_name.encode() + b"\0") + tag(b"DYNL", b"@rpath/other\0") + b"ENDT"
    more = (22 if install_name else 0) + len(extension)
    public = 92 + len(groups) + more + (4 if more else 0)
    private_at = public + len(metadata)
    start = private_at + len(metadata) + len(private)
    end = start + len(code)
    tags = extension
    if install_name:
        tags += tag(b"HDYN", struct.pack("<2Q", end, len(dynamic)))
    tail = dynamic if install_name else b""
    whole = end + len(tail) if size is None else size
    head = b"MTLB" + struct.pack("<HHHBBHHQ", word, *version, kind, platform, *needs, whole)
    head += struct.pack(
        "<8Q", 88, len(groups), public, len(metadata), private_at, len(metadata) + len(private), start, len(code)
    )
    head += struct.pack("<I", len(functions)) + groups + tags + (b"ENDT" if more else b"")
    return head + metadata + metadata + private + code + tail


AIR64, APPLE_GPU = 0x01000017, 0x01000013


def universal_metal(slices: Sequence[tuple[int, int, bytes]], order: str = ">") -> bytes:
    """Return a universal Metal file of (cputype, cpusubtype, content), with numbers in a byte order."""
    table, body = struct.pack(f"{order}2I", 0xCBFEBABE, len(slices)), b""
    for machine, variant, data in slices:
        table += struct.pack(f"{order}5I", machine, variant, 4096 + len(body), len(data), 12)
        body += data + bytes(-len(data) % 4096)
    return table.ljust(4096, b"\0") + body
