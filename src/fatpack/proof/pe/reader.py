"""PE images, read with LIEF, which only this module imports.

LIEF gets the headers alone. It would read a whole image into memory, twice, and the proof compares that as bytes.
"""

from __future__ import annotations

from fatpack.errors import BadValue, Truncated
from fatpack.proof.memory import LoadedRange, ProgramMemory
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from fatpack.io.source import View

FORMAT = "pe"

#: Bytes given to LIEF at first, and at most: the table of 65,535 sections takes 2.6 MB.
_HEAD, _MOST_HEAD = 1 << 16, 4 << 20

#: Bytes of the file header with its signature, and of a section header.
FILE_HEADER_SIZE, SECTION_SIZE = 24, 40

#: Numbers of data directories: certificates, by file offset; debug information.
CERTIFICATES, DEBUG = 4, 6
#: Bytes of a COFF symbol, and LIMIT: of a long name that are read.
_SYMBOL_SIZE, _LONGEST_NAME = 18, 64

#: optional header's magic → bytes of an address
_WORDS = {b"\x0b\x01": 4, b"\x0b\x02": 8}
#: optional header's size up to its data directories, by word size
_DIRECTORIES = {4: 96, 8: 112}


class ProofPeSection(Record):
    """A section header with the field names of the specification; ``at`` is its address."""

    at: int
    name: bytes
    virtual_size: int
    address: int
    raw_size: int
    raw_offset: int
    line_offset: int
    line_count: int
    flags: int


class ProofPeFile(Record):
    """A PE image: numbers of its headers, its sections and its memory image.

    Addresses count from the image's base. ``optional_at`` is the offset of the optional header, ``directories`` are
    address and size of each data directory.
    """

    view: View
    optional_at: int
    symbol_offset: int
    symbol_count: int
    checksum: int
    initialized_size: int
    headers_size: int
    file_align: int
    directories: Sequence[tuple[int, int]]
    sections: Sequence[ProofPeSection]
    memory: ProgramMemory

    def name_of(self, section: ProofPeSection) -> bytes:
        """Return a section's name; GNU ld stores names of more than 8 bytes after the COFF symbols."""
        digits = section.name[1:]
        if not self.symbol_offset or section.name[:1] != b"/" or not digits.isdigit():
            return section.name
        at = self.symbol_offset + self.symbol_count * _SYMBOL_SIZE + int(digits)
        return self.view.head(at, _LONGEST_NAME).partition(b"\0")[0]

    def directory(self, number: int) -> tuple[int, int]:
        """Return address and size of a data directory, zeros if the image has none of that number."""
        return self.directories[number] if number < len(self.directories) else (0, 0)

    def directory_at(self, number: int) -> int:
        """Return the address of the entry of a data directory."""
        return self.optional_at + _DIRECTORIES[self.memory.word] + 8 * number


def read_pe(view: View) -> ProofPeFile:
    """Return a PE image as a proof needs it. Raises FormatError for a damaged one."""
    image = _parsed(view, _HEAD)
    size = 0 if image is None else image.optional_header.sizeof_headers
    if size > _HEAD:
        image = _parsed(view, min(size, _MOST_HEAD))
    if image is None:
        raise BadValue("no PE image", format=FORMAT, offset=view.offset(0), field="headers", chain=view.chain)
    return _read(view, image)


def _parsed(view: View, size: int) -> Any:
    """Return LIEF's image of the first bytes of a file, None if it finds none in them.

    LIEF would log all parts missing after them, so its log is disabled meanwhile.
    """
    import lief

    # At exit, nanobind reports leaks of objects that LIEF's own module keeps.
    lief.disable_leak_warning()
    config = lief.PE.ParserConfig()
    for name in ("parse_exports", "parse_imports", "parse_reloc", "parse_rsrc", "parse_signature", "parse_exceptions"):
        setattr(config, name, False)
    level = lief.logging.get_level()
    lief.logging.disable()
    try:
        return lief.PE.parse(view.head(0, size), config)
    finally:
        lief.logging.enable()
        lief.logging.set_level(level)


def _read(view: View, image: Any) -> ProofPeFile:
    header, optional = image.header, image.optional_header
    start = image.dos_header.addressof_new_exeheader
    optional_at = start + FILE_HEADER_SIZE
    table_at = optional_at + header.sizeof_optional_header
    count = header.numberof_sections
    if len(image.sections) != count:
        needed = table_at + count * SECTION_SIZE
        raise Truncated(
            needed=needed, left=len(view), format=FORMAT, offset=view.offset(table_at), field="NumberOfSections",
            chain=view.chain,
        )  # fmt: skip
    sections = [_section(table_at + number * SECTION_SIZE, each) for number, each in enumerate(image.sections)]
    word = _WORDS.get(view.head(optional_at, 2))  # LIEF warns of numbers that it has no name for
    if word is None:
        raise BadValue(
            "not the header of a PE image", format=FORMAT, offset=view.offset(optional_at), field="Magic",
            chain=view.chain,
        )  # fmt: skip
    loaded_ranges = _loaded_ranges(view, sections, optional.sizeof_headers, optional.section_alignment)
    memory = ProgramMemory(view, loaded_ranges, word=word, order="little", base=optional.imagebase)
    directories = [(each.rva, each.size) for each in image.data_directories]
    return ProofPeFile(
        view,
        optional_at,
        header.pointerto_symbol_table,
        header.numberof_symbols,
        optional.checksum,
        optional.sizeof_initialized_data,
        optional.sizeof_headers,
        max(1, optional.file_alignment),
        directories[: optional.numberof_rva_and_size],
        sections,
        memory,
    )


def _section(at: int, each: Any) -> ProofPeSection:
    return ProofPeSection(
        at,
        bytes(each.fullname).rstrip(b"\0"),
        each.virtual_size,
        each.virtual_address,
        each.sizeof_raw_data,
        each.pointerto_raw_data,
        each.pointerto_line_numbers,
        each.numberof_line_numbers,
        each.characteristics,
    )


def _loaded_ranges(view: View, sections: Sequence[ProofPeSection], headers: int, align: int) -> list[LoadedRange]:
    """Return the ranges that the loader maps: the headers, and each section up to the end of its last page.

    Raises BadValue for sections that overlap or are not in the file.
    """
    align = max(1, align)
    found = [LoadedRange(0, min(headers, len(view)), 0, min(headers, len(view)), "headers")]
    for each in sorted(sections, key=lambda each: each.address):
        size = each.virtual_size or each.raw_size
        if not size:
            continue
        span = size + -size % align
        stored = min(each.raw_size, span) if each.raw_offset else 0
        if each.raw_offset + stored > len(view) or each.address < found[-1].end:
            raise BadValue(
                f"the section at address {each.address:#x} overlaps another or is not in the file",
                format=FORMAT,
                offset=view.offset(each.at),
                field="section header",
                hint="the memory of such a program cannot be proved",
                chain=view.chain,
            )
        flags = f"{each.flags:#x}"
        found.append(LoadedRange(each.address, each.address + span, each.raw_offset, each.address + stored, flags))
    return found
