"""The numbers of ELF files that this room gives a name to, and their names for people.

Names are those of the ELF gABI and of ``llvm/include/llvm/BinaryFormat/ELF.h`` without their prefixes. Unknown
numbers are fine everywhere: they are printed as numbers.
"""

from __future__ import annotations

from fatpack import magic_numbers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.layout import ByteOrder

MAGIC = magic_numbers.ELF

#: e_ident[EI_CLASS] → word size in bits, e_ident[EI_DATA] → byte order
CLASSES = {1: 32, 2: 64}
ORDERS: dict[int, ByteOrder] = {1: "little", 2: "big"}

RELOCATABLE, EXECUTABLE, SHARED, CORE = 1, 2, 3, 4
FILE_TYPES = {RELOCATABLE: "relocatable", EXECUTABLE: "executable", SHARED: "shared object", CORE: "core"}

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
    190: "cuda",
    224: "amdgpu",
    MACHINE_RISCV: "riscv",
    258: "loongarch",
}

#: Section types. OFFLOADING is what LLVM 15 and newer mark device code with, whatever the section is called.
NULL, PROGBITS, SYMTAB, STRTAB, RELA, NOBITS, REL, DYNSYM = 0, 1, 2, 3, 4, 8, 9, 11
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
    7: "note",
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

#: Section flags, with the letters readelf prints
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

#: Numbers from here on are no section indices where a 16-bit field names one (gABI, "Special Section Indexes").
FIRST_RESERVED = 0xFF00
#: A 16-bit index field with this value refers to a wider field elsewhere (SHN_XINDEX; PN_XNUM for segments).
ESCAPED = 0xFFFF

SECTION_SYMBOL = 3

#: e_machine → types of dynamic relocations: the base address is added, and a whole pointer to a symbol (32 and 64
#: bits); from the processors' own documents
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

#: Segment types: what a loader looks at.
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
    """Return the name a table has for a number with the number, or the number as unknown."""
    return f"{names[number]} ({number:#x})" if number in names else f"{number:#x} (unknown)"
