"""A small shared library with registered fat binaries, built in code from the gABI, and edited by hand.

Pages are 256 bytes here, so that the library stays small; the loader's sizes are only a matter of ``p_align``.

::

    0x000  header, program headers   .note   .gnu.hash   .dynsym   .dynstr   .rela.dyn   .nv_fatbin   .eh_frame
    page   .dynamic   .nvFatBinSegment   .data   (.bss)
    then   .comment   .symtab   .strtab   .shstrtab   section headers
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

PAGE = 0x100
RELATIVE = 8
LOAD, DYNAMIC, NOTE, STACK = 1, 2, 4, 0x6474E551
PROGRAM_HEADERS = 5
#: what a library says of a symbol: hash table, strings, symbols, their sizes, relocations
TAGS = (0x6FFFFEF5, 5, 6, 10, 11, 7, 8, 9)


def entry(kind: int, sm: int, image: bytes, flags: int = 0x11) -> bytes:
    """Return an entry of a fat binary."""
    image += bytes(-len(image) % 8)
    return struct.pack("<HHIQIIHHIIIQQQ", kind, 0x101, 64, len(image), 0, 0, 7, 1, sm, 0, 0, flags, 0, 0) + image


def fatbin(*entries: bytes) -> bytes:
    """Return a fat binary."""
    body = b"".join(entries)
    return struct.pack("<4sHHQ", b"\x50\xed\x55\xba", 1, 16, len(body)) + body


class Section(NamedTuple):
    name: str
    type: int
    flags: int
    data: bytes
    align: int = 8
    link: int = 0
    info: int = 0
    entsize: int = 0


class Library(NamedTuple):
    """A built library: its bytes, where each section is (address and size), and the addresses of its containers."""

    data: bytes
    places: dict[str, tuple[int, int]]
    containers: list[int]
    table: int


def build(
    containers: Sequence[bytes],
    *,
    more_strings: int = 0,
    images: bytes = b"",
    more_relocations: int = 0,
    needed: Sequence[bytes] = (),
) -> Library:
    """Return the library with these containers, each registered by a record; ``needed`` are libraries that it loads.

    ``more_strings`` is the number of surplus ``DT_STRTAB``, ``images`` the content of ``.llvm.offloading``;
    ``more_relocations`` are empty rows of ``.rela.dyn``, for each of which ``.data`` has 64 bytes more.
    """
    count = len(containers)
    fat, starts = b"", []
    for container in containers:
        starts.append(len(fat))
        fat += container + bytes(-len(container) % 8)
    note = struct.pack("<III4s", 4, 16, 3, b"GNU\0") + bytes(range(16))
    hashes = struct.pack("<IIIIQII", 1, 1, 1, 0, 0xFF, 1, 0x12345679)
    symbols = bytes(24) + struct.pack("<IBBHQQ", 1, 0x12, 0, 9, 0, 4)
    sections = [
        Section(".note.gnu.build-id", 7, 2, note, 4),
        Section(".gnu.hash", 0x6FFFFFF6, 2, hashes, 8, 3),
        Section(".dynsym", 11, 2, symbols, 8, 4, 1, 24),
        Section(".dynstr", 3, 2, b"\0answer\0" + b"".join(name + b"\0" for name in needed), 1),
        Section(".rela.dyn", 4, 2, bytes(24 * (count + more_relocations)), 8, 3, 0, 24),
        Section(".nv_fatbin", 1, 2, fat),
        Section(".eh_frame", 1, 2, bytes(range(40))),
        *([Section(".llvm.offloading", 1, 2, images)] if images else []),
        Section(".dynamic", 6, 3, bytes(16 * (len(TAGS) + more_strings + len(needed) + 1)), PAGE, 4, 0, 16),
        Section(".nvFatBinSegment", 1, 3, bytes(24 * count)),
        Section(".data", 1, 3, b"data of the program ".ljust(48, b".") + bytes(64 * more_relocations)),
        Section(".bss", 8, 3, b"", 1),
        Section(".comment", 1, 0x30, b"made by hand\0", 1),
        Section(".symtab", 2, 0, bytes(24 * (2 + count)), 8, 14, 2 + count, 24),
        Section(".strtab", 3, 0, b"\0note\0fatbinData\0", 1),
    ]
    names = b"\0" + b"".join(section.name.encode() + b"\0" for section in sections) + b".shstrtab\0"
    sections.append(Section(".shstrtab", 3, 0, names, 1))
    places: dict[str, tuple[int, int]] = {}
    at = 64 + 56 * PROGRAM_HEADERS
    for section in sections:
        at += -at % section.align
        places[section.name] = at, len(section.data)
        at += len(section.data)
    table = at + -at % 8
    data = bytearray(table + 64 * (len(sections) + 1))
    addresses = [places[".nv_fatbin"][0] + start for start in starts]
    for section in sections:
        start = places[section.name][0]
        data[start : start + len(section.data)] = section.data
    for number, address in enumerate(addresses):
        record = places[".nvFatBinSegment"][0] + 24 * number
        struct.pack_into("<IIQQ", data, record, 0x466243B1, 1, address, 0)
        struct.pack_into("<QQq", data, places[".rela.dyn"][0] + 24 * number, record + 8, RELATIVE, address)
        local = places[".symtab"][0] + 24 * (2 + number)
        struct.pack_into("<IBBHQQ", data, local, 6, 1, 0, 6, address, len(containers[number]))
    struct.pack_into("<IBBHQQ", data, places[".symtab"][0] + 24, 1, 1, 0, 1, places[".note.gnu.build-id"][0], 36)
    values = (*(places[name][0] for name in (".gnu.hash", ".dynstr", ".dynsym")), places[".dynstr"][1], 24)
    values += (*places[".rela.dyn"], 24)
    pairs = [*zip(TAGS, values, strict=True), *[(TAGS[1], values[1])] * more_strings]
    at_names = len(b"\0answer\0")
    for name in needed:
        pairs.append((1, at_names))
        at_names += len(name) + 1
    for number, pair in enumerate(pairs):
        struct.pack_into("<QQ", data, places[".dynamic"][0] + 16 * number, *pair)
    ident = b"\x7fELF\2\1\1".ljust(16, b"\0")
    sizes = (64, 56, PROGRAM_HEADERS, 64, len(sections) + 1, len(sections))
    struct.pack_into("<16sHHIQQQIHHHHHH", data, 0, ident, 3, 62, 1, 0, 64, table, 0, *sizes)
    split, end = places[".dynamic"][0], places[".bss"][0]
    read_end = sum(places[".llvm.offloading" if images else ".eh_frame"])
    headers = [
        (LOAD, 4, 0, 0, 0, read_end, read_end, PAGE),
        (LOAD, 6, split, split, split, end - split, end - split + 32, PAGE),
        (DYNAMIC, 6, split, split, split, *[places[".dynamic"][1]] * 2, 8),
        (NOTE, 4, *[places[".note.gnu.build-id"][0]] * 3, 32, 32, 4),
        (STACK, 6, 0, 0, 0, 0, 0, 16),
    ]
    for number, header in enumerate(headers):
        struct.pack_into("<IIQQQQQQ", data, 64 + 56 * number, *header)
    for number, section in enumerate(sections, 1):
        offset, size = places[section.name]
        size = 32 if section.name == ".bss" else size
        row = (names.index(b"\0" + section.name.encode() + b"\0") + 1, section.type, section.flags)
        address = offset if section.flags & 2 else 0
        rest = (section.link, section.info, section.align if section.align < PAGE else 16, section.entsize)
        struct.pack_into("<IIQQQQIIQQ", data, table + 64 * number, *row, address, offset, size, *rest)
    return Library(bytes(data), places, addresses, table)


def zeroed(library: Library, containers: Sequence[bytes]) -> bytes:
    """Return a library with other containers from the section's start on, and zeros behind them."""
    data = bytearray(library.data)
    start, size = library.places[".nv_fatbin"]
    data[start : start + size] = bytes(size)
    at = start
    for number, container in enumerate(containers):
        data[at : at + len(container)] = container
        record = library.places[".nvFatBinSegment"][0] + 24 * number
        struct.pack_into("<Q", data, record + 8, at)
        struct.pack_into("<q", data, library.places[".rela.dyn"][0] + 24 * number + 16, at)
        local = library.places[".symtab"][0] + 24 * (2 + number)
        struct.pack_into("<QQ", data, local + 8, at, len(container))
        at += len(container) + -len(container) % 8
    return bytes(data)


def shrunk(library: Library, containers: Sequence[bytes], *, second: int | None = None) -> bytes:
    """Return a library that loses the freed bytes: note and hash table make room for one more program header.

    With ``second`` nothing is cut: the first segment becomes two, the second so many bytes behind the first.
    """
    data = bytearray(zeroed(library, containers))
    places = library.places
    start, size = places[".nv_fatbin"]
    at = start + sum(len(each) + -len(each) % 8 for each in containers)
    moved = {}
    for name in (".note.gnu.build-id", ".gnu.hash"):
        old, length = places[name]
        data[at : at + length] = data[old : old + length]
        data[old : old + length] = bytes(length)
        moved[name] = at
        at += length + -length % 8
    cut_start, cut_end = at + -at % PAGE, (start + size) // PAGE * PAGE
    if second is not None:
        cut_start = cut_end = at + second
    cut = cut_end - cut_start
    assert cut > 0 or second is not None, "nothing to gain"
    data[cut_end : start + size] = bytes(start + size - cut_end)
    headers = [list(struct.unpack_from("<IIQQQQQQ", data, 64 + 56 * number)) for number in range(PROGRAM_HEADERS)]
    first, *others = headers
    last = [LOAD, 4, cut_end - cut, cut_end, cut_end, first[5] - cut_end, first[6] - cut_end, PAGE]
    first[5] = first[6] = at
    for header in others:
        if header[0] == NOTE:
            header[2] = header[3] = header[4] = moved[".note.gnu.build-id"]
        elif header[2] >= cut_end:
            header[2] -= cut
    for number, header in enumerate([first, last, *others]):
        struct.pack_into("<IIQQQQQQ", data, 64 + 56 * number, *header)
    struct.pack_into("<Q", data, places[".dynamic"][0] + 8, moved[".gnu.hash"])
    struct.pack_into("<Q", data, places[".symtab"][0] + 24 + 8, moved[".note.gnu.build-id"])
    for number, name in enumerate(places, 1):
        row = library.table + 64 * number
        address, offset, length = struct.unpack_from("<QQQ", data, row + 16)
        if name in moved:
            address = offset = moved[name]
        elif name == ".nv_fatbin":
            length = at - address
        elif offset >= cut_end:
            offset -= cut
        struct.pack_into("<QQQ", data, row + 16, address, offset, length)
    struct.pack_into("<Q", data, 40, library.table - cut)
    struct.pack_into("<H", data, 56, PROGRAM_HEADERS + 1)
    return bytes(data[:cut_start] + data[cut_end:])
