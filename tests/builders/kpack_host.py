"""HIP programs whose code was moved to kpack archives, laid out as rocm_kpack's ``kpack_transform.py`` does it."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import msgpack
from tests.builders import elf as build
from tests.builders import pe as build_pe

HIPK = 0x4B504948

#: addresses of the sections, in ELF files and PE images
FATBIN, SEGMENT, REFERENCE = 0x10000, 0x20000, 0x30000
IMAGE_BASE = 0x180000000


def record(number: int = 0, *, to: int = REFERENCE, magic: int = HIPK, version: int = 1) -> bytes:
    return struct.pack("<IIQII", magic, version, to, number, 0)


def reference(name: str = "lib/libx.so", paths: Sequence[Any] = ("../.kpack/x_lib_@GFXARCH@.kpack",)) -> bytes:
    packed: bytes = msgpack.packb({"kpack_search_paths": list(paths), "kernel_name": name})
    return packed


def library(marker: bytes = b"", *, count: int = 1, records: bytes | None = None, is_loaded: bool = False) -> bytes:
    """Return a library with ``count`` records that point to a marker; ``is_loaded``: relocations hold the pointers."""
    elf = build.Elf(type=build.SHARED)
    elf.add(".hip_fatbin", type=build.NOBITS, size=4096, flags=build.ALLOC, align=4096, addr=FATBIN)
    if records is None:
        records = b"".join(record(number, to=0 if is_loaded else REFERENCE) for number in range(count))
    elf.add(".hipFatBinSegment", records, flags=build.ALLOC | build.WRITE, align=8, addr=SEGMENT)
    elf.add(".rocm_kpack_ref", marker or reference(), flags=build.ALLOC, addr=REFERENCE)
    if is_loaded:
        rows = [struct.pack("<QQq", SEGMENT + 8 + 24 * number, 8, REFERENCE) for number in range(count)]
        elf.add(".rela.dyn", b"".join(rows), type=build.RELA, flags=build.ALLOC)
    return elf.build()


def windows_library(marker: bytes = b"") -> bytes:
    """Return a PE image with one record and its marker."""
    sections = [
        build_pe.Section(b".hipFatB", record(7, to=IMAGE_BASE + REFERENCE), address=SEGMENT),
        build_pe.Section(b".kpackrf", marker or reference("bin/x.dll"), address=REFERENCE),
    ]
    return build_pe.build(sections)
