"""The records of COFF objects, classic and big, and the numbers that this room gives a name to."""

from __future__ import annotations

from fatpack import magic_numbers
from fatpack.binary.coff.layout import file_header_layout, machine_name, section_header_layout
from fatpack.layout import Field, Layout

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

#: Follows the symbol of a section (static, value 0); the rest of a record up to 18 or 20 bytes is unused.
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

#: The most sections a classic object may have (0xFEFF): higher numbers are special in symbols (LLVM review D5349).
MAX_SECTIONS = 65279

#: What clang gives a section of device code: removed by the linker, aligned to 8, discardable.
OFFLOADING_NAME = b".llvm.offloading"
OFFLOADING_FLAGS = 0x02400800

#: LLVM looks for sections whose name starts so (``OffloadBinary.cpp``, COFF has no section types), then come the
#: bundler's, HIP's and CUDA's.
BUNDLE_PREFIX = magic_numbers.BUNDLE
PREFIXES = (OFFLOADING_NAME, BUNDLE_PREFIX)
DEVICE_SECTION_NAMES = (b".hip_fatbin", b".nv_fatbin", b"__nv_relfatbin")

#: Sections that say something about device code elsewhere: where it is, how much of it, what is in it.
TABLES = (b".hipFatBinSegment", b".nvFatBinSegment", b".nvFatBinSegmentAlt", b"__nv_module_id", b".tgtimg", b".tgtsym")
SIZES_PREFIX = b"__CLANG_OFFLOAD_BUNDLE_SIZE__"

#: what the section of an image is called when nothing but its header is left: numbers of sections must not change
REMOVED_NAME = b".removed"


def is_device_name(name: bytes) -> bool:
    """Return whether a section of this name is expected to hold device code; ``$`` and what follows only sort."""
    return name.startswith(PREFIXES) or name.partition(b"$")[0] in DEVICE_SECTION_NAMES


def is_table_name(name: bytes) -> bool:
    """Return whether a section of this name says something about device code elsewhere."""
    return name.startswith(SIZES_PREFIX) or name.partition(b"$")[0] in TABLES
