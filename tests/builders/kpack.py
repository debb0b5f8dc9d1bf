"""kpack archives made with msgpack and zstandard alone, laid out as rocm_kpack's ``kpack.py`` describes it."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

import msgpack
import zstandard

#: (binary, architecture, bytes) of a code object
Code = tuple[str, str, bytes]


def archive(code: Sequence[Code], *, scheme: str = "none", archs: Sequence[str] | None = None, **changes: Any) -> bytes:
    """Return an archive of code objects; ``changes`` replace or add keys of its table of contents."""
    blobs = [zstandard.ZstdCompressor(level=3).compress(data) for *_, data in code] if scheme != "none" else []
    stored = b"".join(data for *_, data in code)
    if scheme != "none":
        frames = (struct.pack("<I", len(blob)) + blob for blob in blobs)
        stored = struct.pack("<I", len(blobs)) + b"".join(frames)
    toc: dict[str, dict[str, Mapping[str, object]]] = {}
    for ordinal, (binary, arch, data) in enumerate(code):
        row = {"type": "hsaco", "ordinal": ordinal, "original_size": len(data)}
        toc.setdefault(binary, {})[arch] = row
    table: dict[str, Any] = {
        "format_version": 1,
        "group_name": "test",
        "gfx_arch_family": "gfx900X",
        "gfx_arches": list(dict.fromkeys(arch for _, arch, _ in code)) if archs is None else list(archs),
        "toc": toc,
        "compression_scheme": scheme,
    }
    if scheme == "none":
        table["blobs"], at = [], 64
        for *_, data in code:
            table["blobs"].append({"offset": at, "size": len(data)})
            at += len(data)
    else:
        table |= {"zstd_offset": 64, "zstd_size": len(stored)}
    table |= changes
    head = struct.pack("<4sIQ", b"KPAK", 1, 64 + len(stored))
    return head.ljust(64, b"\0") + stored + msgpack.packb(table)


def manifest(files: Mapping[str, Mapping[str, object]], **changes: object) -> bytes:
    """Return a manifest of archives by architecture."""
    row = {"format_version": 1, "component_name": "x", "prefix": "lib", "kpack_files": files} | changes
    packed: bytes = msgpack.packb(row)
    return packed
