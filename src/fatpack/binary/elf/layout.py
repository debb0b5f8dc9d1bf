"""Byte layouts of ELF files: one table of fields per record, for 32 and 64 bits in either byte order.

:func:`elf_layouts` selects word size and byte order once per file. A field's documentation starts with its name in the
ELF gABI (``https://gabi.xinuos.com``, revision of 2025). ``word`` in the tables below is a number of the file's word
size. In symbols and program headers the order of the fields differs between 32 and 64 bits, so those are read by
:meth:`Layout.position <fatpack.layout.Layout.position>` or by name, never by index.
"""

from __future__ import annotations

from fatpack import magic_numbers
from fatpack.binary.elf.table import FORMAT
from fatpack.layout import Field, Layout
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.layout import ByteOrder


# Constants with the names of the ELF gABI and of ``llvm/include/llvm/BinaryFormat/ELF.h``, without their prefixes, and
# their text for people. Unknown numbers are allowed everywhere, and printed as numbers.

MAGIC = magic_numbers.ELF

#: e_ident[EI_CLASS] → word size in bits, e_ident[EI_DATA] → byte order
CLASSES = {1: 32, 2: 64}
ORDERS: dict[int, ByteOrder] = {1: "little", 2: "big"}

RELOCATABLE, EXECUTABLE, SHARED, CORE = 1, 2, 3, 4
FILE_TYPES = {RELOCATABLE: "relocatable", EXECUTABLE: "executable", SHARED: "shared object", CORE: "core"}

#: Machines of device ELF files
CUDA, AMDGPU = 190, 224

MACHINE_386, MACHINE_MIPS, MACHINE_ARM, MACHINE_AARCH64, MACHINE_RISCV = 3, 8, 40, 183, 243
MACHINES = {
    2: "sparc",
    MACHINE_386: "i386",
    MACHINE_MIPS: "mips",
    20: "powerpc",
    21: "powerpc64",
    22: "s390x",
    MACHINE_ARM: "arm",
    43: "sparc64",
    62: "x86-64",
    MACHINE_AARCH64: "aarch64",
    CUDA: "cuda",
    AMDGPU: "amdgpu",
    MACHINE_RISCV: "riscv",
    258: "loongarch",
}

#: Section types. LLVM 15 and newer mark device code with OFFLOADING, for any name of the section.
NULL, PROGBITS, SYMTAB, STRTAB, RELA, NOTE_SECTION, NOBITS, REL, DYNSYM = 0, 1, 2, 3, 4, 7, 8, 9, 11
GROUP, SYMTAB_SHNDX, RELR, CREL = 17, 18, 19, 0x40000014
ANDROID_REL, ANDROID_RELA, OFFLOADING = 0x60000001, 0x60000002, 0x6FFF4C0B
SECTION_TYPES = {
    NULL: "null",
    PROGBITS: "progbits",
    SYMTAB: "symtab",
    STRTAB: "strtab",
    RELA: "rela",
    5: "hash",
    6: "dynamic",
    NOTE_SECTION: "note",
    NOBITS: "nobits",
    REL: "rel",
    DYNSYM: "dynsym",
    14: "init_array",
    15: "fini_array",
    16: "preinit_array",
    GROUP: "group",
    SYMTAB_SHNDX: "symtab_shndx",
    RELR: "relr",
    CREL: "crel",
    ANDROID_REL: "android_rel",
    ANDROID_RELA: "android_rela",
    0x6FFF4C03: "llvm_addrsig",
    OFFLOADING: "llvm_offloading",
    0x6FFF4C0C: "llvm_lto",
    0x6FFFFFF6: "gnu_hash",
    0x6FFFFFFD: "gnu_verdef",
    0x6FFFFFFE: "gnu_verneed",
    0x6FFFFFFF: "gnu_versym",
}

#: Section flags, with the letters that readelf prints
ALLOC, MERGE, STRINGS, INFO_LINK, GROUPED, COMPRESSED, EXCLUDE = 0x2, 0x10, 0x20, 0x40, 0x200, 0x800, 0x80000000
FLAG_LETTERS = {
    0x1: "W",
    ALLOC: "A",
    0x4: "X",
    MERGE: "M",
    STRINGS: "S",
    INFO_LINK: "I",
    0x80: "L",
    0x100: "O",
    GROUPED: "G",
    0x400: "T",
    COMPRESSED: "C",
    EXCLUDE: "E",
}

#: Section indices from here on are reserved in 16-bit fields (gABI, "Special Section Indexes").
FIRST_RESERVED = 0xFF00
#: A 16-bit index field with this value refers to a wider field elsewhere (SHN_XINDEX; PN_XNUM for segments).
ESCAPED = 0xFFFF

SECTION_SYMBOL = 3

#: e_machine → types of dynamic relocations: add the base address; whole pointer to a symbol (32 and 64 bits); from the
#: processors' ABI documents
POINTER_RELOCATIONS = {
    MACHINE_386: (8, 1, 1),
    20: (22, 1, 1),
    21: (22, 1, 38),
    22: (12, 4, 22),
    MACHINE_ARM: (23, 2, 2),
    62: (8, 10, 1),
    MACHINE_AARCH64: (1027, 258, 257),
    MACHINE_RISCV: (3, 1, 2),
    258: (3, 1, 2),
}

#: Segment types.
LOAD, DYNAMIC, INTERPRETER, NOTE, PROGRAM_HEADERS, PROPERTIES = 1, 2, 3, 4, 6, 0x6474E553
RELRO = 0x6474E552
SEGMENT_TYPES = {
    0: "null",
    1: "load",
    2: "dynamic",
    3: "interp",
    4: "note",
    6: "phdr",
    7: "tls",
    0x6474E550: "gnu_eh_frame",
    0x6474E551: "gnu_stack",
    0x6474E552: "gnu_relro",
    0x6474E553: "gnu_property",
}


def section_type_word(number: int) -> str:
    """Return the name of a section type, or its number."""
    return SECTION_TYPES.get(number) or f"type {number:#x}"


def section_flag_letters(flags: int) -> str:
    """Return section flags as readelf's letters, and the rest in hex; ``none`` for 0."""
    letters = "".join(letter for bit, letter in FLAG_LETTERS.items() if flags & bit)
    rest = flags & ~sum(FLAG_LETTERS)
    return "+".join(part for part in (letters, f"{rest:#x}" if rest else "") if part) or "none"


def named_number(names: dict[int, str], number: int) -> str:
    """Return a number with its name from a table, or the number as unknown."""
    return f"{names[number]} ({number:#x})" if number in names else f"{number:#x} (unknown)"


_HEADER = (
    Field("ident", "bytes[16]", "e_ident: magic 7F 45 4C 46, class (1 = 32, 2 = 64 bits), byte order, version, ABI"),
    Field(
        "type",
        "u16",
        "e_type: 1 relocatable, 2 executable, 3 shared object, 4 core",
        lambda value: named_number(FILE_TYPES, value),
    ),
    Field(
        "machine",
        "u16",
        "e_machine: the processor the code is for",
        lambda value: named_number(MACHINES, value),
    ),
    Field("version", "u32", "e_version: 1"),
    Field("entry", "word", "e_entry: address where the program starts, 0 if it does not"),
    Field("program_offset", "word", "e_phoff: offset of the program headers in bytes, 0 if there are none"),
    Field("section_offset", "word", "e_shoff: offset of the section table in bytes, 0 if there is none"),
    Field("flags", "u32", "e_flags: processor-specific flags"),
    Field("header_size", "u16", "e_ehsize: bytes of this header, 52 or 64"),
    Field("program_entry_size", "u16", "e_phentsize: bytes of a program header, 32 or 56"),
    Field("program_count", "u16", "e_phnum: number of program headers; 65535: see info of section 0"),
    Field("section_entry_size", "u16", "e_shentsize: bytes of a section header, 40 or 64"),
    Field("section_count", "u16", "e_shnum: number of sections; 0 with a section table: see size of section 0"),
    Field("names_index", "u16", "e_shstrndx: section with the section names; 65535: see link of section 0"),
)

_SECTION = (
    Field("name_offset", "u32", "sh_name: offset of the name in the table of section names, in bytes"),
    Field("type", "u32", "sh_type: what the section holds", section_type_word),
    Field("flags", "word", "sh_flags: W write, A loaded, X execute, E not linked, …", section_flag_letters),
    Field("address", "word", "sh_addr: address in memory; 0 in objects"),
    Field("offset", "word", "sh_offset: offset of the contents in the file, in bytes"),
    Field("size", "word", "sh_size: bytes of the contents; of nobits sections in memory only"),
    Field("link", "u32", "sh_link: index of a section this one needs, by type"),
    Field("info", "u32", "sh_info: a section index or a count, by type"),
    Field("align", "word", "sh_addralign: alignment in bytes, a power of two; 0 and 1 mean none"),
    Field("entry_size", "word", "sh_entsize: bytes of one entry of a table, else 0"),
)

#: Index of each field in the tuple of a section header.
SH_NAME, SH_TYPE, SH_FLAGS, SH_ADDR, SH_OFFSET, SH_SIZE, SH_LINK, SH_INFO, SH_ADDRALIGN, SH_ENTSIZE = range(10)

_PROGRAM = (
    Field(
        "type",
        "u32",
        "p_type: what the segment is for",
        lambda value: named_number(SEGMENT_TYPES, value),
    ),
    Field("offset", "word", "p_offset: offset of the segment in the file, in bytes"),
    Field("address", "word", "p_vaddr: address in memory"),
    Field("physical_address", "word", "p_paddr: physical address where that matters"),
    Field("file_size", "word", "p_filesz: bytes in the file"),
    Field("memory_size", "word", "p_memsz: bytes in memory"),
    Field("flags", "u32", "p_flags: 1 execute, 2 write, 4 read"),
    Field("align", "word", "p_align: alignment in bytes, a power of two; 0 and 1 mean none"),
)

_SYMBOL = (
    Field("name_offset", "u32", "st_name: offset of the name in the linked string table, in bytes"),
    Field("value", "word", "st_value: offset in the section (objects) or address (linked files)"),
    Field("size", "word", "st_size: bytes of the thing, 0 if unknown"),
    Field("info", "u8", "st_info: type in the low half (3 = section), binding in the high"),
    Field("other", "u8", "st_other: visibility and processor-specific bits"),
    Field("section_index", "u16", "st_shndx: section of the symbol; 65535: see the symtab_shndx section"),
)

_RELOCATION = (
    Field("offset", "word", "r_offset: place to change, in the section (objects) or an address (linked files)"),
    Field("info", "word", "r_info: number of the symbol, and type of the relocation"),
)
_ADDEND = Field("addend", "signed", "r_addend: number that is added to the symbol's value")

_DYNAMIC = (
    Field("tag", "word", "d_tag: meaning of the value; 0 ends the table"),
    Field("value", "word", "d_val, d_ptr: a number or an address"),
)

_INDEX = (Field("section_index", "u32", "index of a section"),)

#: Order of the fields in 64-bit records that differ from the tables above, which show 32 bits.
_PROGRAM_64 = ("type", "flags", "offset", "address", "physical_address", "file_size", "memory_size", "align")
_SYMBOL_64 = ("name_offset", "info", "other", "section_index", "value", "size")


class ElfLayouts(Record):
    """The records of one word size (``bits``) and byte ``order``.

    ``index`` is a word of a group or symtab_shndx section. A written relocation has the symbol's number in the bits
    of its ``info`` from ``symbol_shift`` on, and its type below; ``relocations`` reads them.
    """

    bits: int
    order: ByteOrder
    header: Layout
    section: Layout
    program: Layout
    symbol: Layout
    rel: Layout
    rela: Layout
    index: Layout
    dynamic: Layout
    symbol_shift: int

    @property
    def word(self) -> int:
        """The number of bytes in an address, which is also the alignment of the section table."""
        return self.bits // 8

    @property
    def largest(self) -> int:
        """The largest offset or size that fits into the file's fields."""
        return (1 << self.bits) - 1


_cache: dict[tuple[int, ByteOrder], ElfLayouts] = {}


def elf_layouts(bits: int, order: ByteOrder) -> ElfLayouts:
    """Return the records for a word size (32 or 64) and a byte order (``little`` or ``big``)."""
    key = bits, order
    if key not in _cache:
        _cache[key] = _build(bits, order)
    return _cache[key]


def _build(bits: int, order: ByteOrder) -> ElfLayouts:
    types = {"word": f"u{bits}", "signed": f"i{bits}"}

    def layout(name: str, fields: tuple[Field, ...], names: tuple[str, ...] = ()) -> Layout:
        by_name = {field.name: field for field in fields}
        ordered = [by_name[name] for name in names] or fields
        sized = [
            Field(each.name, types[each.type], each.doc, each.show) if each.type in types else each for each in ordered
        ]
        return Layout(FORMAT, name, sized, order)

    wide = bits == 64
    return ElfLayouts(
        bits=bits,
        order=order,
        header=layout("header", _HEADER),
        section=layout("section", _SECTION),
        program=layout("program header", _PROGRAM, _PROGRAM_64 if wide else ()),
        symbol=layout("symbol", _SYMBOL, _SYMBOL_64 if wide else ()),
        rel=layout("rel", _RELOCATION),
        rela=layout("rela", (*_RELOCATION, _ADDEND)),
        index=layout("index", _INDEX),
        dynamic=layout("dynamic entry", _DYNAMIC),
        symbol_shift=32 if wide else 8,
    )
