"""Reader of PE images: headers, sections, and sections of device code from their first container on."""

from __future__ import annotations

import struct

from fatpack import limits, magic_numbers
from fatpack.binary import CONTAINER, IMAGE, IMAGES, MIXED, TABLE, CodeSection, section_names, without_overlaps
from fatpack.binary.coff.layout import (
    REMOVED_BY_LINKER,
    SYMBOL,
    CoffSection,
    file_header_layout,
    name_offset,
    section_header_layout,
)
from fatpack.errors import Truncated
from fatpack.findings import finding
from fatpack.layout import Field, Layout
from fatpack.model import Label, fill_gaps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.binary import SectionContent
    from fatpack.binary.host_sections import SectionSplit
    from fatpack.io.source import View
    from fatpack.model import Finding


# Headers, the section table, and the data directories of the optional header

FORMAT = "pe"

DOS_HEADER = Layout(
    FORMAT,
    "DOS header",
    (
        Field("magic", "bytes[2]", "e_magic: MZ"),
        Field("dos", "bytes[58]", "what DOS needs to start the program after this header"),
        Field("pe_offset", "u32", "e_lfanew: offset of the PE signature"),
    ),
)
HEADER = file_header_layout(FORMAT)
SECTION = section_header_layout(FORMAT)
LAYOUTS = (DOS_HEADER, HEADER, SECTION)

SIGNATURE = magic_numbers.PE

#: bytes of a section name; real ones have a few dozen
_LONGEST_NAME = 256

UNINITIALIZED = 0x80

#: IMAGE_SCN_MEM_EXECUTE
EXECUTED = 0x20000000

#: optional header's magic → offset of its data directories
_DIRECTORIES = {b"\x0b\x01": 96, b"\x0b\x02": 112}
#: indices of data directories
EXPORTS, IMPORTS, UNWINDING, CERTIFICATES, BASE_RELOCATIONS, DEBUG = 0, 1, 3, 4, 5, 6

#: optional header's magic → bytes of an address, and offset of ImageBase
_ADDRESSES = {b"\x0b\x01": (4, 28), b"\x0b\x02": (8, 24)}


class PeFile:
    """The headers of a PE image. Raises Truncated if they are incomplete."""

    def __init__(self, view: View) -> None:
        self.view = view
        *_, self.pe_offset = DOS_HEADER.read(view, 0)
        self.header_offset = self.pe_offset + len(SIGNATURE)
        row = HEADER.read(view, self.header_offset)
        self.machine, self.section_count, _, self.symbol_offset, self.symbol_count, self.optional_size, _ = row
        self.optional_offset = self.header_offset + HEADER.size
        self.table_offset = self.optional_offset + self.optional_size

    def sections(self) -> Iterator[CoffSection]:
        """Yield the section headers, numbered from 1 on. Raises Truncated after the last complete one."""
        for number in range(self.section_count):
            row = SECTION.read(self.view, self.table_offset + number * SECTION.size)
            yield CoffSection(number + 1, *row)

    def name(self, stored: bytes) -> bytes:
        """Return a section's name, or the start of a long one; the stored bytes if it cannot be resolved."""
        place = name_offset(stored)
        if place is None or place < 4 or not self.symbol_offset:
            return stored.rstrip(b"\0")
        strings = self.symbol_offset + self.symbol_count * SYMBOL.size
        return self.view.head(strings + place, _LONGEST_NAME).partition(b"\0")[0]

    @property
    def word(self) -> int:
        """The number of bytes in an address."""
        return self._address()[0]

    @property
    def base(self) -> int:
        """ImageBase: the preferred load address, which pointers in the image include."""
        word, at = self._address()
        return int.from_bytes(self.view.head(self.optional_offset + at, word), "little")

    def _address(self) -> tuple[int, int]:
        return _ADDRESSES.get(self.view.head(self.optional_offset, 2), (8, 24))

    def certificates(self) -> tuple[int, int]:
        """Return position and size of the certificate table: zeros if the image is not signed."""
        return self.directory(CERTIFICATES)

    def base_relocations(self) -> tuple[int, int]:
        """Return address, without ImageBase, and size of the table of base relocations: zeros if there is none."""
        return self.directory(BASE_RELOCATIONS)

    @property
    def directories_offset(self) -> int | None:
        """The position of the data directories, after their number; None if there is no header of an image."""
        start = _DIRECTORIES.get(self.view.head(self.optional_offset, 2))
        return None if start is None or self.optional_size < start else self.optional_offset + start

    def directory_at(self, number: int) -> int | None:
        """Return the position of a data directory's entry, None if the image has no such directory."""
        start = self.directories_offset
        if start is None or start + 8 * (number + 1) > self.table_offset:
            return None
        count = int.from_bytes(self.view.head(start - 4, 4), "little")  # NumberOfRvaAndSizes
        return start + 8 * number if number < count else None

    def directory(self, number: int) -> tuple[int, int]:
        """Return address (of certificates: position) and size of a data directory, zeros if there is none."""
        at = self.directory_at(number)
        entry = b"" if at is None else self.view.head(at, 8)
        return int.from_bytes(entry[:4], "little"), int.from_bytes(entry[4:], "little")


# Base relocations: the one walk over them (Microsoft's PE format, "The .reloc Section")

#: A block: page, and size of the block with this header; then 16 bits for each relocation, its type in the upper four.
_BLOCK = struct.Struct("<II")


def relocation_blocks(table: View) -> Iterator[tuple[int, View]]:
    """Yield page and entries of each block of base relocations; ends at a block that is not whole."""
    at = 0
    while at + _BLOCK.size <= len(table):
        page, length = _BLOCK.unpack(table.read(at, _BLOCK.size))
        if length < _BLOCK.size or at + length > len(table):
            return
        yield page, table.slice(at + _BLOCK.size, (length - _BLOCK.size) // 2 * 2)
        at += length


def block_relocations(page: int, entries: View) -> Iterator[tuple[int, int]]:
    """Yield the address, without ImageBase, and the type of each relocation of a block; type 0 does nothing."""
    for (entry,) in struct.iter_unpack("<H", entries.tobytes()):
        yield page + (entry & 0xFFF), entry >> 12


# Byte map


def label_pe(view: View) -> Iterator[Label]:
    """Yield a label for every byte: file and section headers field by field, everything else as a whole."""
    try:
        image = PeFile(view)
    except Truncated:
        yield from fill_gaps(view, [])
        return
    start, at = min(DOS_HEADER.size, image.pe_offset), image.header_offset
    if start == DOS_HEADER.size:
        yield from DOS_HEADER.labels(view, 0, "dos")
    elif start:
        yield Label(view.span(0, start), "dos", "cut by the PE header", "DOS header", "data")
    if image.pe_offset > start:
        size = image.pe_offset - start
        yield Label(view.span(start, size), "stub", f"{size} bytes", "the program that DOS runs instead", "data")
    yield Label(view.span(image.pe_offset, len(SIGNATURE)), "signature", "PE")
    yield from HEADER.labels(view, at, "header")
    at = image.optional_offset
    size = min(image.optional_size, len(view) - at)
    if size:
        yield Label(view.span(at, size), "optional header", f"{size} bytes", "sizes, addresses, directories", "data")
    parts = [_part(image, section) for section in _whole_sections(image)]
    at = min(image.table_offset, len(view))
    for number in range(len(parts)):
        yield from SECTION.labels(view, at, f"section[{number + 1}]")
        at += SECTION.size
    if image.symbol_offset:
        size = image.symbol_count * SYMBOL.size
        strings = view.head(image.symbol_offset + size, 4)
        size += int.from_bytes(strings, "little")
        span = view.span(image.symbol_offset, size)
        parts.append(Label(span, "symbols", f"{image.symbol_count} records", "symbols and strings", "data"))
    signed_at, size = image.certificates()
    span = view.span(signed_at, size)
    parts.append(Label(span, "certificates", f"{size} bytes", "the signature of the file", "data"))
    yield from fill_gaps(view, parts, at)


def _whole_sections(image: PeFile) -> list[CoffSection]:
    sections = []
    try:
        for section in image.sections():
            sections.append(section)
    except Truncated:
        pass  # the intact headers are labelled
    return sections


def _part(image: PeFile, section: CoffSection) -> Label:
    name = image.name(section.stored_name).decode("utf-8", "backslashreplace")
    size = 0 if section.flags & UNINITIALIZED else section.raw_size
    span, doc = image.view.span(section.raw_offset, size), "contents, padded to the file alignment"
    return Label(span, f"section[{section.number}].data", f"{name}, {size} bytes", doc, "data")


#: Names of device code: cut by a linker, or complete if the image has a string table (MinGW).
_NAMES: dict[bytes, SectionContent] = {
    b".llvm": MIXED,
    section_names.BUNDLE_PREFIX[:8].encode(): IMAGES,
    b".kpackrf": TABLE,
    **{
        name.encode(): content
        for content, names in (
            (CONTAINER, section_names.CONTAINERS),
            (IMAGES, (section_names.SYCL_IMAGES,)),
            (TABLE, section_names.TABLES),
        )
        for name in section_names.with_cut(*names)
    },
}

#: Complete names of the sections of SYCL's images end in the target.
_IMAGES_PREFIX = magic_numbers.BUNDLE

#: First bytes of containers, the only knowledge of formats that a host may have.
_MAGICS = (
    magic_numbers.OFFLOAD_BINARY,
    magic_numbers.BUNDLE,
    magic_numbers.COMPRESSED_BUNDLE,
    magic_numbers.FATBIN,
    magic_numbers.OLD_FATBIN,
)
_LONGEST_MAGIC = max(map(len, _MAGICS))
_ALIGN = 8


def locate(view: View) -> Iterator[CodeSection | Finding]:
    """Yield the sections with device code, each from its first container on; ``index`` counts them from 1.

    A ``mixed`` section has other data after and between its containers; sections that are images, contain images or are
    tables have no containers and are yielded as a whole. Sections do not overlap: of several with the same bytes the
    first is yielded.
    """
    try:
        image = PeFile(view)
    except Truncated as error:
        yield finding("FP2303", view.span(), error.describe(), error.hint)
        return
    places: list[CodeSection | Finding] = []
    try:
        for section in image.sections():
            name = image.name(section.stored_name)
            expects = _NAMES.get(name)
            if name.startswith(_IMAGES_PREFIX):
                # No linker keeps sections with this flag: llvm-objcopy made a fat object of the image.
                expects = IMAGE if section.flags & REMOVED_BY_LINKER else IMAGES
            if expects:
                places += _place(view, section, name, expects)
    except Truncated as error:
        places.append(finding("FP2303", view.span(min(image.table_offset, len(view))), error.describe(), error.hint))
    for place in without_overlaps(places):
        if not isinstance(place, CodeSection) or place.content in (IMAGE, IMAGES, TABLE):
            yield place
        else:
            yield from _searched(place)


def sections(view: View) -> list[tuple[int, int, str, int]]:
    """Return (start, end, name, number) of every section with bytes; if the table is damaged, of the readable ones."""
    rows = []
    try:
        image = PeFile(view)
        for section in image.sections():
            end = section.raw_offset + section.raw_size
            if section.raw_size and end <= len(view):
                name = image.name(section.stored_name).decode("utf-8", "backslashreplace")
                rows.append((section.raw_offset, end, name, section.number))
    except Truncated:
        pass  # names of other sections are unknown
    return rows


def divided_sections(view: View, _places: object = None) -> SectionSplit:
    """Return the sections with bytes, split into known ones of compilers and linkers, and others.

    Bytes after the last section are one of the others: installers have their contents there.
    """
    from fatpack.binary.host_sections import split_sections

    rows = sections(view)
    division = split_sections(rows)
    reached = max((end for _, end, _, _ in rows), default=len(view))
    return division.replace(searched=[*division.searched, (reached, len(view))])


def _place(view: View, section: CoffSection, stored: bytes, expects: SectionContent) -> Iterator[CodeSection | Finding]:
    """Yield the location of a section's bytes, without reading them."""
    start, number = section.raw_offset, section.number
    name = stored.decode("utf-8", "backslashreplace")
    # raw_size is rounded up to the file alignment; bytes after virtual_size are padding.
    size = min(section.raw_size, section.virtual_size) if section.virtual_size else section.raw_size
    if section.flags & UNINITIALIZED or not (size or expects == IMAGE):
        return
    if start + size > len(view):
        text = f"section {number} ({name}) ends at {start + size:#x}, the image at {len(view):#x}"
        yield finding("FP2301", view.span(min(start, len(view))), text, "the file looks cut short")
        return
    yield CodeSection(view.slice(start, size, name), name, number, content=expects)


def _searched(site: CodeSection) -> Iterator[CodeSection | Finding]:
    """Yield the part of a section from its first container on, or a finding if there is none."""
    data = site.data
    at = _find_container(data)
    if at >= 0:
        yield site.replace(data=data.slice(at, len(data) - at))
    elif site.content == CONTAINER:
        text = f"section {site.index} ({site.section}) holds no container that we know"
        yield finding("FP2302", data.span(), text)


def _find_container(data: View) -> int:
    """Return the first position of any magic at a multiple of 8, or -1; reads up to it, in bounded pieces."""
    for start in range(0, len(data), limits.CHUNK):
        block = data.head(start, limits.CHUNK + _LONGEST_MAGIC - 1)
        hits = [hit for hit in (_find_aligned(block, magic) for magic in _MAGICS) if hit >= 0]
        if hits:
            return start + min(hits)
    return -1


def _find_aligned(block: bytes, magic: bytes) -> int:
    at = block.find(magic)
    while at >= 0 and at % _ALIGN:
        at = block.find(magic, at + 1)
    return at
