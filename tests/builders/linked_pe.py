"""A small DLL with registered fat binaries, built in code from Microsoft's PE format specification.

Sections: .text, .nv_fatb (device code), .nvFatBi (records), .rdata (debug directory and its data, exports), .reloc,
.bss. Behind them symbols with their strings, an overlay, certificates.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

FILE_ALIGN, SECTION_ALIGN = 0x200, 0x1000
CODE, DATA, BSS = 0x60000020, 0x40000040, 0xC0000080
FAT, RECORDS, RDATA = 2, 3, 4
DEBUG_DATA = b"RSDS debug information, which is loaded"
OVERLAY_DEBUG = b"debug information in the overlay"


class Image(NamedTuple):
    """A built image: its bytes, the base, and by section name its address and position."""

    data: bytes
    base: int
    word: int
    places: dict[str, tuple[int, int]]
    containers: list[int]
    words: list[int]
    optional: int


def total(data: bytes, at: int) -> int:
    """Return the checksum of an image, counted word by word; ``at`` is where the field is."""
    data = data[:at] + bytes(4) + data[at + 4 :]
    number = 0
    for (word,) in struct.iter_unpack("<H", data + bytes(len(data) % 2)):
        number += word
        number = (number & 0xFFFF) + (number >> 16)
    return number + len(data)


def _words_of_rdata(rdata: bytearray, words: Sequence[int], addresses: Mapping[str, int], size: int) -> bytes:
    """Put addresses into .rdata, and return the block of base relocations for them."""
    for number, word in enumerate(words):
        struct.pack_into("<Q" if size == 8 else "<I", rdata, 0x280 + size * number, word)
    entries = [(10 if size == 8 else 3) << 12 | 0x280 + size * number for number in range(len(words))]
    entries += [0] * (len(entries) % 2)
    return struct.pack(f"<II{len(entries)}H", addresses[".rdata"], 8 + 2 * len(entries), *entries)


def build(
    containers: Sequence[bytes],
    *,
    bits: int = 64,
    checksum: bool = True,
    symbols: bool = True,
    overlay: bytes = b"overlay " * 5,
    signature: bytes = b"",
    exported: int | None = None,
    section_align: int = SECTION_ALIGN,
    lead: bytes = b"",
    own: Sequence[bytes] = (),
    inside: int | None = None,
    own_flags: int = DATA,
) -> Image:
    """Return a DLL with these containers, each registered by a record; ``exported`` is one that is exported.

    ``lead`` stands in front of the first container, in its section. ``own`` are containers of the program's own data,
    to whose first bytes words in .rdata point; ``inside`` is one of them, to whose middle one points as well.
    """
    word, base = (8, 0x180000000) if bits == 64 else (4, 0x10000000)
    fat, starts = lead, []
    for container in containers:
        starts.append(len(fat))
        fat += container + bytes(-len(container) % 8)
    addresses = {}
    address = 0x1000
    record = 8 + 2 * word
    sizes = {".text": 100, ".nv_fatb": len(fat), ".nvFatBi": record * len(containers), ".rdata": 0x300, ".reloc": 64}
    own_data = b"".join(container + bytes(8 - len(container) % 8) for container in own)
    own_starts = [0, *accumulate(len(container) + 8 - len(container) % 8 for container in own)][:-1]
    if own:
        sizes[".cask_re"] = len(own_data)
    sizes[".bss"] = 0x800
    for name, size in sizes.items():
        addresses[name] = address
        address += size + -size % SECTION_ALIGN
    targets = [addresses[".nv_fatb"] + start for start in starts]
    words = [addresses[".nvFatBi"] + record * number + 8 for number in range(len(containers))]
    records = b"".join(
        struct.pack("<IIQQ" if word == 8 else "<IIII", 0x466243B1, 1, base + target, 0) for target in targets
    )
    rdata = bytearray(0x300)
    rdata[0x100 : 0x100 + len(DEBUG_DATA)] = DEBUG_DATA
    exports = addresses[".rdata"] + 0x200
    functions = [addresses[".text"]] + ([] if exported is None else [targets[exported]])
    struct.pack_into("<20xIIIII", rdata, 0x200, len(functions), 0, exports + 40, 0, 0)
    struct.pack_into(f"<{len(functions)}I", rdata, 0x228, *functions)
    page = addresses[".nvFatBi"]
    entries = [(10 if word == 8 else 3) << 12 | (place - page) for place in words]
    entries += [0] * (len(entries) % 2)
    reloc = struct.pack(f"<II{len(entries)}H", page, 8 + 2 * len(entries), *entries)
    if own:
        own_words = [*own_starts, *([] if inside is None else [own_starts[inside] + 32])]
        reloc += _words_of_rdata(rdata, [base + addresses[".cask_re"] + at for at in own_words], addresses, word)
    contents = {".text": b"\xc3" * 100, ".nv_fatb": fat, ".nvFatBi": records, ".rdata": rdata, ".reloc": reloc}
    if own:
        contents[".cask_re"] = own_data
    pe_offset, start = 0x80, 112 if bits == 64 else 96
    optional = pe_offset + 24
    headers_size = 0x400
    data, places = bytearray(headers_size), {}
    for name, content in contents.items():
        places[name] = addresses[name], len(data)
        data += bytes(content) + bytes(-len(content) % FILE_ALIGN)
    places[".bss"] = addresses[".bss"], 0
    symbol_at = len(data) if symbols else 0
    rows = [b""] if symbols else []
    rows += [struct.pack("<8sIhHBB", b"fatbin%d" % n, start, FAT, 0, 3, 0) for n, start in enumerate(starts)]
    count = 0
    if symbols:
        rows[0] = struct.pack("<8sIhHBB18s", b".file", 0, -2, 0, 103, 1, b"source.c")
        count = 2 + len(starts)
        data += b"".join(rows) + struct.pack("<I", 12) + b"strings\0"
    overlay_at = len(data)
    data += OVERLAY_DEBUG + overlay
    if signature:
        data += bytes(-len(data) % 8)
    directories = [(0, 0)] * 16
    directories[0] = exports, 0x40
    directories[4] = (len(data), len(signature)) if signature else (0, 0)
    directories[5] = addresses[".reloc"], len(reloc)
    directories[6] = addresses[".rdata"], 56
    data += signature
    rdata_at = places[".rdata"][1]
    loaded = (addresses[".rdata"] + 0x100, rdata_at + 0x100)
    struct.pack_into("<IIHHIIII", data, rdata_at, 0, 0, 0, 0, 2, len(DEBUG_DATA), *loaded)
    struct.pack_into("<IIHHIIII", data, rdata_at + 28, 0, 0, 0, 0, 4, len(OVERLAY_DEBUG), 0, overlay_at)
    data[:2] = b"MZ"
    struct.pack_into("<I", data, 60, pe_offset)
    machine = 0x8664 if bits == 64 else 0x14C
    head = (machine, len(sizes), 0, symbol_at, count if symbols else 0, start + 128, 0x2022)
    struct.pack_into("<4sHHIIIHH", data, pe_offset, b"PE\0\0", *head)
    initialized = sum(
        len(content) + -len(content) % FILE_ALIGN for name, content in contents.items() if name != ".text"
    )
    struct.pack_into("<HBBIII", data, optional, 0x20B if bits == 64 else 0x10B, 14, 0, 0x200, initialized, 0x800)
    struct.pack_into("<Q" if bits == 64 else "<4xI", data, optional + 24, base)
    struct.pack_into("<II", data, optional + 32, section_align, FILE_ALIGN)
    struct.pack_into("<HHHHHH", data, optional + 40, 6, 0, 0, 0, 6, 0)
    struct.pack_into("<III", data, optional + 56, address, headers_size, 0)
    struct.pack_into("<HH", data, optional + 68, 3, 0x160)
    struct.pack_into("<I", data, optional + start - 4, 16)
    for number, directory in enumerate(directories):
        struct.pack_into("<II", data, optional + start + 8 * number, *directory)
    flags = {".text": CODE, ".bss": BSS, ".cask_re": own_flags}
    for number, (name, size) in enumerate(sizes.items()):
        stored = 0 if name == ".bss" else len(contents[name]) + -len(contents[name]) % FILE_ALIGN
        row = (name.encode(), size, addresses[name], stored, places[name][1], 0, 0, 0, 0, flags.get(name, DATA))
        struct.pack_into("<8sIIIIIIHHI", data, optional + start + 128 + 40 * number, *row)
    if checksum:
        struct.pack_into("<I", data, optional + 64, total(bytes(data), optional + 64))
    return Image(bytes(data), base, word, places, targets, words, optional)
