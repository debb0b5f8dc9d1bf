"""Programs that carry SYCL's images as clang-offload-wrapper of DPC++ leaves them, built in code.

``.tgtimg`` holds a pair of pointer and size per image; linkers write pointers in place, or as RELATIVE relocations.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

import zstandard
from tests.builders import elf as build
from tests.builders import pe as build_pe

#: (bits, order) → machine, and its relocation that adds the base address
MACHINES = {(64, "little"): (62, 8), (32, "little"): (3, 8), (64, "big"): (22, 12), (32, "big"): (20, 22)}

SPIR64, SPIR64_GEN = "__CLANG_OFFLOAD_BUNDLE__sycl-spir64", "__CLANG_OFFLOAD_BUNDLE__sycl-spir64_gen"


def spirv(words: int = 20, mark: int = 0) -> bytes:
    """Return a module of some words that is recognised as SPIR-V; ``mark`` makes it another one."""
    header = struct.pack("<IIIII", 0x07230203, 0x00010000, mark, 8, 0)
    model = struct.pack("<III", 3 << 16 | 14, 2, 2)
    return (header + model + b"\x11\x00\x01\x00" * words)[: 4 * words]


def packed(data: bytes, **options: object) -> bytes:
    """Return a zstd frame as LLVM makes it, with the size of the content in it."""
    return zstandard.ZstdCompressor(level=5, **options).compress(data)  # type: ignore[arg-type]


@dataclass
class Stored:
    """An image to be stored: its bytes there, and the size that the table gives (None: that of the bytes)."""

    data: bytes
    size: int | None = None
    section: str = SPIR64


def laid_out(images: Sequence[Stored]) -> tuple[dict[str, bytes], list[tuple[str, int, int]]]:
    """Return section → its bytes, and for each image its section, where it is in there, and its size by the table."""
    sections: dict[str, bytes] = {}
    places = []
    for image in images:
        content = sections.get(image.section, b"")
        content += bytes(-len(content) % 16)
        places.append((image.section, len(content), len(image.data) if image.size is None else image.size))
        sections[image.section] = content + image.data
    return sections, places


def program(
    images: Sequence[Stored],
    *,
    bits: int = 64,
    order: str = "little",
    is_relocated: bool = False,
    rows: Sequence[tuple[int, int]] = (),
    table: bytes | None = None,
    symbols: bytes = b"",
    type: int = build.SHARED,
) -> bytes:
    """Return an ELF library with these images; section n starts at address 0x10000 * n.

    ``rows`` (address, size) are added to the table; ``table`` is what is there instead; b"" leaves it out.
    """
    machine, relative = MACHINES[bits, order]
    elf = build.Elf(bits=bits, order=order, type=type, machine=machine)
    sections, places = laid_out(images)
    addresses = {}
    for name, content in sections.items():
        addresses[name] = 0x10000 * len(elf.sections)
        elf.add(name, content, flags=build.ALLOC, align=16, addr=addresses[name])
    word = "Q" if bits == 64 else "I"
    pairs = [(addresses[name] + at, size) for name, at, size in places]
    address = 0x10000 * len(elf.sections)
    stored = [(0, size) if is_relocated else (place, size) for place, size in pairs]
    content = b"".join(elf.pack(word * 2, *row) for row in (*stored, *rows)) if table is None else table
    if content:
        elf.add(".tgtimg", content, flags=build.ALLOC | build.WRITE, align=16, addr=address)
    if is_relocated:
        size = bits // 8
        entries = [(address + 2 * size * number, relative, place) for number, (place, _) in enumerate(pairs)]
        relocations = b"".join(elf.pack(word * 2 + word.lower(), *entry) for entry in reversed(entries))
        elf.add(".rela.dyn", relocations, type=build.RELA, flags=build.ALLOC, align=8, entsize=3 * size)
    if symbols:
        elf.add(".tgtsym", symbols)
    return elf.build()


def windows_program(images: Sequence[Stored], *, bits: int = 64) -> bytes:
    """Return a DLL with these images, whose sections a linker has put into one and cut the name of."""
    joined = [Stored(image.data, image.size, "__CLANG_") for image in images]
    sections, places = laid_out(joined)
    base, word = (0x180000000, "Q") if bits == 64 else (0x10000000, "I")
    table = b"".join(struct.pack("<" + word * 2, base + 0x70000 + at, size) for _, at, size in places)
    table += bytes(len(table))
    return build_pe.build(
        [
            build_pe.Section(b".text", b"\x90" * 100, address=0x1000),
            build_pe.Section(b"__CLANG_", sections["__CLANG_"], address=0x70000),
            build_pe.Section(b".tgtimg", table, address=0x80000),
        ],
        bits=bits,
        base_address=base,
    )
