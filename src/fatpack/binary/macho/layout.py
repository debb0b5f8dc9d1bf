"""Byte layouts of Mach-O files in both word sizes and byte orders, and their constants.

Fields have the names of ``loader.h``; offsets and sizes are in bytes, from the start of the file or of the slice of a
universal file.
"""

from __future__ import annotations

from fatpack import magic_numbers
from fatpack.binary.macho.universal import machine_name
from fatpack.layout import Field, Layout
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from fatpack.layout import ByteOrder

FORMAT = "macho"

#: LC_SEGMENT and LC_SEGMENT_64, LC_SYMTAB, LC_DYSYMTAB, LC_DYLD_INFO and LC_DYLD_INFO_ONLY
SEGMENT, SEGMENT_64, SYMTAB, DYSYMTAB, DYLD_INFO, DYLD_INFO_ONLY = 0x01, 0x19, 0x02, 0x0B, 0x22, 0x80000022

#: Types of sections without bytes in the file: S_ZEROFILL, S_GB_ZEROFILL, S_THREAD_LOCAL_ZEROFILL
ZEROFILL = (0x01, 0x0C, 0x12)
TYPE_MASK = 0xFF

_FILE_TYPES = {
    1: "object",
    2: "executable",
    3: "fixed library",
    4: "core file",
    5: "preloaded program",
    6: "dynamic library",
    7: "dynamic linker",
    8: "bundle",
    9: "stub of a dynamic library",
    10: "debug symbols",
    11: "kernel extension",
    12: "set of files",
}

_COMMANDS = {
    SEGMENT: "LC_SEGMENT",
    SYMTAB: "LC_SYMTAB",
    0x04: "LC_THREAD",
    0x05: "LC_UNIXTHREAD",
    DYSYMTAB: "LC_DYSYMTAB",
    0x0C: "LC_LOAD_DYLIB",
    0x0D: "LC_ID_DYLIB",
    0x0E: "LC_LOAD_DYLINKER",
    0x0F: "LC_ID_DYLINKER",
    SEGMENT_64: "LC_SEGMENT_64",
    0x1B: "LC_UUID",
    0x1D: "LC_CODE_SIGNATURE",
    0x1E: "LC_SEGMENT_SPLIT_INFO",
    0x21: "LC_ENCRYPTION_INFO",
    DYLD_INFO: "LC_DYLD_INFO",
    0x24: "LC_VERSION_MIN_MACOSX",
    0x25: "LC_VERSION_MIN_IPHONEOS",
    0x26: "LC_FUNCTION_STARTS",
    0x29: "LC_DATA_IN_CODE",
    0x2A: "LC_SOURCE_VERSION",
    0x2B: "LC_DYLIB_CODE_SIGN_DRS",
    0x2C: "LC_ENCRYPTION_INFO_64",
    0x2D: "LC_LINKER_OPTION",
    0x2E: "LC_LINKER_OPTIMIZATION_HINT",
    0x31: "LC_NOTE",
    0x32: "LC_BUILD_VERSION",
    0x80000018: "LC_LOAD_WEAK_DYLIB",
    0x8000001C: "LC_RPATH",
    0x8000001F: "LC_REEXPORT_DYLIB",
    DYLD_INFO_ONLY: "LC_DYLD_INFO_ONLY",
    0x80000028: "LC_MAIN",
    0x80000033: "LC_DYLD_EXPORTS_TRIE",
    0x80000034: "LC_DYLD_CHAINED_FIXUPS",
    0x80000035: "LC_FILESET_ENTRY",
}

#: Commands that are an offset and a size after their header → the content at that offset
LINKEDIT = {
    0x1D: "code signature",
    0x1E: "segment split info",
    0x26: "function starts",
    0x29: "data in code",
    0x2B: "signing requirements",
    0x2E: "linker optimisation hints",
    0x80000033: "exports",
    0x80000034: "chained fix-ups",
}


def command_name(command: int) -> str:
    """Return the kind of a load command as text."""
    return f"{_COMMANDS.get(command, 'unknown')} ({command:#x})"


def _file_type(number: int) -> str:
    return f"{_FILE_TYPES.get(number, 'unknown')} ({number})"


def _text(stored: bytes) -> str:
    return repr(stored.rstrip(b"\0"))[2:-1]


class MachOLayouts(Record):
    """The layouts of one word size and byte order; ``segment_command`` is the load command with sections."""

    header: Layout
    command: Layout
    segment: Layout
    section: Layout
    segment_command: int
    order: ByteOrder
    symbol_size: int


def _shape(bits: int, order: ByteOrder) -> MachOLayouts:
    word = f"u{bits}"
    wide = (Field("reserved", "u32", "reserved: 0"),) if bits == 64 else ()
    third = (Field("reserved3", "u32", "reserved3: 0"),) if bits == 64 else ()
    header = (
        Field("magic", "bytes[4]", "magic: word size and byte order"),
        Field("machine", "u32", "cputype: the instruction set", machine_name),
        Field("variant", "u32", "cpusubtype: a variant of it, and capabilities in the highest byte"),
        Field("file_type", "u32", "filetype: object, program, library, …", _file_type),
        Field("command_count", "u32", "ncmds: load commands after this header"),
        Field("commands_size", "u32", "sizeofcmds: bytes of all load commands"),
        Field("flags", "u32", "flags: properties of the file"),
        *wide,
    )
    command = (
        Field("kind", "u32", "cmd: kind of the load command", command_name),
        Field("size", "u32", "cmdsize: bytes of the command, this header included"),
    )
    segment = (
        *command,
        Field("name", "bytes[16]", "segname: padded with NULs; objects have one segment without a name", _text),
        Field("address", word, "vmaddr: address in memory"),
        Field("memory_size", word, "vmsize: bytes in memory"),
        Field("offset", word, "fileoff: offset in the file"),
        Field("size_in_file", word, "filesize: bytes in the file; 0 for zeros and in files of debug symbols"),
        Field("most_protection", "u32", "maxprot: the most that may be done with it in memory"),
        Field("protection", "u32", "initprot: what may be done with it at first"),
        Field("section_count", "u32", "nsects: section headers after this record"),
        Field("flags", "u32", "flags: properties of the segment"),
    )
    section = (
        Field("name", "bytes[16]", "sectname: padded with NULs", _text),
        Field("segment", "bytes[16]", "segname: the segment that it is linked into", _text),
        Field("address", word, "addr: address in memory"),
        Field("size", word, "size: bytes in memory, and in the file if it has any there"),
        Field("offset", "u32", "offset: offset in the file"),
        Field("align", "u32", "align: the alignment, as a power of two"),
        Field("relocation_offset", "u32", "reloff: where its relocations are"),
        Field("relocation_count", "u32", "nreloc: relocations of 8 bytes each"),
        Field("flags", "u32", "flags: the type in the lowest byte, and attributes"),
        Field("reserved1", "u32", "reserved1: an index, by type"),
        Field("reserved2", "u32", "reserved2: a size, by type"),
        *third,
    )
    title = f"{bits} bits, {order}-endian"
    return MachOLayouts(
        Layout(FORMAT, f"header, {title}", header, order),
        Layout(FORMAT, f"load command, {order}-endian", command, order),
        Layout(FORMAT, f"segment, {title}", segment, order),
        Layout(FORMAT, f"section, {title}", section, order),
        SEGMENT_64 if bits == 64 else SEGMENT,
        order,
        16 if bits == 64 else 12,
    )


#: magic → the layouts
LAYOUTS_BY_MAGIC: Mapping[bytes, MachOLayouts] = {
    magic_numbers.MACH_O_32: _shape(32, "little"),
    magic_numbers.MACH_O_64: _shape(64, "little"),
    magic_numbers.BIG_MACH_O_32: _shape(32, "big"),
    magic_numbers.BIG_MACH_O_64: _shape(64, "big"),
}
