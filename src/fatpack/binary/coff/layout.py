"""Byte layouts of COFF objects and PE images, and their constants.

Section names have 8 bytes. A longer one is ``/`` and a decimal offset into the string table after the symbols, or, from
10,000,000 on, ``//`` and the offset as six base64 digits, most significant first.
"""

from __future__ import annotations

from fatpack import magic_numbers
from fatpack.binary import section_names
from fatpack.layout import Field, Layout
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import TypeAlias

    from fatpack.io.source import View

    SectionRow: TypeAlias = tuple[bytes, int, int, int, int, int, int, int, int, int]
    """The fields of a section header."""


#: Machine → LLVM's name. COFF has no magic, so this is the first of several checks.
MACHINES = {
    0x014C: "i386",
    0x01C0: "arm",
    0x01C4: "armnt",
    0x5032: "riscv32",
    0x5064: "riscv64",
    0x6232: "loongarch32",
    0x6264: "loongarch64",
    0x8664: "x86-64",
    0xA641: "arm64ec",
    0xA64E: "arm64x",
    0xAA64: "arm64",
}

#: Section flags (IMAGE_SCN_…) that are used here
UNINITIALIZED, REMOVED_BY_LINKER, OVERFLOWED_RELOCATIONS = 0x80, 0x800, 0x01000000
_FLAGS = {
    0x20: "code",
    0x40: "data",
    UNINITIALIZED: "uninitialised",
    0x200: "information",
    REMOVED_BY_LINKER: "removed by the linker",
    0x1000: "COMDAT",
    OVERFLOWED_RELOCATIONS: "more than 65534 relocations",
    0x02000000: "discardable",
    0x10000000: "shared",
    0x20000000: "execute",
    0x40000000: "read",
    0x80000000: "write",
}
_ALIGN_SHIFT, _ALIGN_MASK = 20, 0xF

#: Digits of offsets in ``//`` names, in order of their values
_BASE64 = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
#: The largest offset with seven decimal digits
_LARGEST_DECIMAL = 9_999_999


def named_number(names: Mapping[int, str], number: int) -> str:
    """Return a number with its name from a table, or the number as unknown."""
    return f"{names[number]} ({number:#x})" if number in names else f"{number:#x} (unknown)"


def machine_name(number: int) -> str:
    """Return a machine as text."""
    return named_number(MACHINES, number)


#: Size of the DOS header of a PE image. Its last four bytes, e_lfanew, are the offset of the signature.
DOS_HEADER_SIZE = 64


def pe_header_offset(view: View) -> int | None:
    """Return the offset of the file header of a PE image, which follows the signature; None for any other file."""
    head = view.head(0, DOS_HEADER_SIZE)
    if len(head) < DOS_HEADER_SIZE or not head.startswith(magic_numbers.DOS):
        return None
    at = int.from_bytes(head[-4:], "little")
    return at + len(magic_numbers.PE) if view.head(at, len(magic_numbers.PE)) == magic_numbers.PE else None


def read_machine(view: View, host: str) -> int:
    """Return the machine of a COFF object, classic or big, or of a PE image (``pe``); 0 if the bytes end before it."""
    at: int | None = 0
    if host == "pe":
        at = pe_header_offset(view)
    elif view.head(0, 4) == magic_numbers.ANONYMOUS_COFF:
        at = 6  # after the version
    return 0 if at is None else int.from_bytes(view.head(at, 2), "little")


def section_flag_words(flags: int) -> str:
    """Return section flags as text; with the alignment in bytes if it is stated."""
    words = [name for bit, name in _FLAGS.items() if flags & bit]
    align = flags >> _ALIGN_SHIFT & _ALIGN_MASK
    words += [f"align {1 << align - 1}"] if align else []
    return f"{flags:#x}: {', '.join(words)}" if words else f"{flags:#x}"


def _short_name(stored: bytes) -> str:
    return repr(stored.rstrip(b"\0"))[2:-1]


def file_header_layout(format: str) -> Layout:
    """Return the file header's layout for a format, which labels name."""
    return Layout(
        format,
        "file header",
        (
            Field("machine", "u16", "Machine: the instruction set", machine_name),
            Field("section_count", "u16", "NumberOfSections: headers in the section table"),
            Field("time", "u32", "TimeDateStamp: seconds since 1970, or a hash of the contents"),
            Field("symbol_offset", "u32", "PointerToSymbolTable: offset of the symbols; 0 if there are none"),
            Field("symbol_count", "u32", "NumberOfSymbols: records of the symbol table, auxiliary ones included"),
            Field("optional_size", "u16", "SizeOfOptionalHeader: bytes between this header and the section table"),
            Field("flags", "u16", "Characteristics: properties of the file"),
        ),
    )


class CoffSection(Record):
    """A section header; ``number`` counts from 1, as symbols do."""

    number: int
    stored_name: bytes
    virtual_size: int
    virtual_address: int
    raw_size: int
    raw_offset: int
    relocation_offset: int
    line_offset: int
    relocation_count: int
    line_count: int
    flags: int

    @property
    def row(self) -> SectionRow:
        """The fields in stored order."""
        return self._values()[1:]  # type: ignore[return-value]  # without the number


def section_header_layout(format: str) -> Layout:
    """Return the section header's layout for a format, which labels name."""
    return Layout(
        format,
        "section header",
        (
            Field("name", "bytes[8]", "Name: padded with NULs, or a reference into the string table", _short_name),
            Field("virtual_size", "u32", "VirtualSize: bytes in memory; objects have 0"),
            Field("virtual_address", "u32", "VirtualAddress: place in memory; objects have 0"),
            Field("raw_size", "u32", "SizeOfRawData: bytes in the file"),
            Field("raw_offset", "u32", "PointerToRawData: where they are; 0 if there are none"),
            Field("relocation_offset", "u32", "PointerToRelocations: offset of the relocations"),
            Field("line_offset", "u32", "PointerToLinenumbers: offset of the line numbers; obsolete"),
            Field("relocation_count", "u16", "NumberOfRelocations: 65535 with a flag if the first one holds the count"),
            Field("line_count", "u16", "NumberOfLinenumbers: obsolete, 0"),
            Field("flags", "u32", "Characteristics: contents, alignment and what the linker does", section_flag_words),
        ),
    )


def name_offset(stored: bytes) -> int | None:
    """Return the offset in the string table that a stored name refers to; None for a short name.

    A reference that is not a number gives -1, which is outside any table.
    """
    if not stored.startswith(b"/"):
        return None
    text = stored.rstrip(b"\0")
    if text.startswith(b"//"):
        offset = 0
        for digit in text[2:]:
            value = _BASE64.find(digit)
            if value < 0:
                return -1
            offset = offset * 64 + value
        return offset if len(text) == 8 else -1
    return int(text[1:]) if text[1:].isdigit() else -1


def name_reference(offset: int) -> bytes:
    """Return the 8 bytes of a name at an offset of the string table (below 2**32)."""
    if offset <= _LARGEST_DECIMAL:
        return (b"/%d" % offset).ljust(8, b"\0")
    return b"//" + bytes(_BASE64[offset >> shift & 63] for shift in range(30, -1, -6))


# COFF objects, classic and big

FORMAT = "coff"

HEADER = file_header_layout(FORMAT)
SECTION = section_header_layout(FORMAT)

BIG_HEADER = Layout(
    FORMAT,
    "big object header",
    (
        Field("signature", "bytes[4]", "Sig1, Sig2: machine 0 and 65535 sections, which old readers refuse"),
        Field("version", "u16", "Version: 2 or more; 0 is an import object"),
        Field("machine", "u16", "Machine: the instruction set", machine_name),
        Field("time", "u32", "TimeDateStamp: seconds since 1970, or a hash of the contents"),
        Field("class_id", "bytes[16]", "ClassID: which kind of anonymous object"),
        Field("data_size", "u32", "SizeOfData: 0"),
        Field("flags", "u32", "Flags: 0"),
        Field("metadata_size", "u32", "MetaDataSize: 0"),
        Field("metadata_offset", "u32", "MetaDataOffset: 0"),
        Field("section_count", "u32", "NumberOfSections: headers in the section table"),
        Field("symbol_offset", "u32", "PointerToSymbolTable: offset of the symbols; 0 if there are none"),
        Field("symbol_count", "u32", "NumberOfSymbols: records of the symbol table, auxiliary ones included"),
    ),
)


def _symbol(section: str, name: str) -> Layout:
    return Layout(
        FORMAT,
        name,
        (
            Field("name", "bytes[8]", "Name: padded with NULs, or 4 zero bytes and an offset into the string table"),
            Field("value", "u32", "Value: usually the offset in the section"),
            Field("section", section, "SectionNumber: from 1 on; 0 undefined, -1 absolute, -2 debug"),
            Field("type", "u16", "Type: 0x20 for a function"),
            Field("storage_class", "u8", "StorageClass: 2 external, 3 static, 103 file name, 105 weak"),
            Field("aux_count", "u8", "NumberOfAuxSymbols: records that follow and belong to this one"),
        ),
    )


SYMBOL = _symbol("i16", "symbol")
BIG_SYMBOL = _symbol("i32", "big object symbol")

#: Auxiliary record of a section's symbol (static, value 0); the rest of a record up to 18 or 20 bytes is unused.
SECTION_DEFINITION = Layout(
    FORMAT,
    "section definition",
    (
        Field("size", "u32", "Length: SizeOfRawData again"),
        Field("relocation_count", "u16", "NumberOfRelocations, again"),
        Field("line_count", "u16", "NumberOfLinenumbers, again"),
        Field("checksum", "u32", "CheckSum: CRC-32 of the contents without inversions, or 0"),
        Field("number", "u16", "Number: of the section it comes with, for COMDATs"),
        Field("selection", "u8", "Selection: which of several COMDATs a linker keeps"),
    ),
)

RELOCATION = Layout(
    FORMAT,
    "relocation",
    (
        Field("address", "u32", "VirtualAddress: offset of the place to patch in its section"),
        Field("symbol", "u32", "SymbolTableIndex: of the symbol it refers to"),
        Field("type", "u16", "Type: how to patch, by machine"),
    ),
)

STATIC = 3

#: Largest section count of a classic object (0xFEFF): higher numbers are reserved in symbols (LLVM review D5349).
MAX_SECTIONS = 65279

#: clang's flags of a section of device code: removed by the linker, aligned to 8, discardable.
OFFLOADING_NAME = section_names.OFFLOADING.encode()
OFFLOADING_FLAGS = 0x02400800

#: Names of device code: LLVM uses this prefix (``OffloadBinary.cpp``; COFF has no section types); then the bundler's,
#: HIP's and CUDA's.
BUNDLE_PREFIX = magic_numbers.BUNDLE
PREFIXES = (OFFLOADING_NAME, BUNDLE_PREFIX)
DEVICE_SECTION_NAMES = tuple(name.encode() for name in section_names.FATBINS)

#: Sections that describe device code elsewhere: location, size, content.
TABLES = tuple(name.encode() for name in section_names.TABLES)
SIZES_PREFIX = section_names.SIZES_PREFIX.encode()

#: name of an image's section of which only the header remains: section numbers must not change
REMOVED_NAME = b".removed"


def is_device_name(name: bytes) -> bool:
    """Return whether a section of this name should contain device code; a suffix from ``$`` on only orders sections."""
    return name.startswith(PREFIXES) or name.partition(b"$")[0] in DEVICE_SECTION_NAMES


def is_table_name(name: bytes) -> bool:
    """Return whether a section of this name describes device code elsewhere."""
    return name.startswith(SIZES_PREFIX) or name.partition(b"$")[0] in TABLES
