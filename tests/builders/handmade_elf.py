"""A linked ELF file by hand, every header of which can lie: two sections of device code between others.

::

    0x0000  ELF header │ program headers │ .note │ .hash │ .fixed │ .dynsym │ .rela.dyn      segment R, at BASE
    0x1400  .nv_fatbin, 0x9000 bytes
    0xa400  .hip_fatbin, 0x5000 bytes
    0xf400  .after
    0x10000 .nvFatBinSegment │ .dynamic                                             segment RW, at BASE + 0x20000
    ....    .symtab │ .strtab │ .shstrtab │ section table

Records are three pointers: one that is in place, one whose address is an addend too, one that only the addend has.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field, replace

from tests.builders.elf import HEADER, PROGRAM, SECTION

BASE = 0x40000
NULL, PROGBITS, SYMTAB, STRTAB, RELA, HASH, DYNAMIC, NOTE, NOBITS, REL, DYNSYM = 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11
PT_LOAD, PT_DYNAMIC, PT_NOTE, PT_PHDR, PT_RELRO = 1, 2, 4, 6, 0x6474E552
DT_HASH, DT_SYMTAB, DT_STRTAB = 4, 6, 5
WRITE, ALLOC = 1, 2

#: where the sections of device code are, and how long
CODE, CODE_SIZE, MORE, MORE_SIZE, AFTER, DATA = 0x1400, 0x9000, 0xA400, 0x5000, 0xF400, 0x10000
DATA_ADDRESS = BASE + 0x20000


@dataclass
class Segment:
    type: int
    offset: int
    address: int
    size: int
    flags: int = 4
    memory: int | None = None
    align: int = 0x1000


@dataclass
class Section:
    name: str
    type: int
    offset: int
    content: bytes
    flags: int = ALLOC
    address: int = 0
    link: int = 0
    info: int = 0
    align: int = 8
    entry: int = 0
    size: int | None = None


@dataclass
class LinkedElf:
    """The file to be: change what shall lie, then ``build()``.

    ``gap`` bytes are free behind the program headers; ``far`` puts these behind all else, with room for two more.
    """

    bits: int = 64
    order: str = "little"
    machine: int = 62
    type: int = 3
    segments: list[Segment] = field(default_factory=list)
    sections: list[Section] = field(default_factory=list)
    trailing: bytes = b""
    gap: int = 0
    far: bool = False

    def __post_init__(self) -> None:
        word = self.word
        count = 5
        head, row = (64, 56) if self.bits == 64 else (52, 32)
        at = head + count * row + self.gap
        pointers = [self.address(CODE) + 0x100, self.address(MORE), self.address(CODE) + 0x800]
        places = [DATA_ADDRESS + number * word for number in range(3)]
        rela = b"".join(
            self.pack("W" * 3, place, 8, pointer) for place, pointer in zip(places[1:], pointers[1:], strict=True)
        )
        self.sections = [Section("", NULL, 0, b"", 0, align=0)]
        at = self.add(".note", NOTE, at, self.pack("III", 4, 4, 1) + b"GNU\0mine")
        at = self.add(".hash", HASH, at, bytes(range(256)))
        at = self.add(".fixed", PROGBITS, at, b"fixed in its place ".ljust(64, b"."))
        at = self.add(".dynsym", DYNSYM, at, self.symbols([]), entry=self.symbol_size, info=1)
        at = self.add(".rela.dyn", RELA, at, rela, entry=3 * word, link=4)
        self.add(".nv_fatbin", PROGBITS, CODE, b"\x11" * CODE_SIZE)
        self.add(".hip_fatbin", PROGBITS, MORE, b"\x22" * MORE_SIZE)
        self.add(".after", PROGBITS, AFTER, b"after the device code".ljust(64, b"."))
        stored = self.pack("W" * 3, pointers[0], pointers[1], 0)
        self.add(".nvFatBinSegment", PROGBITS, DATA, stored, WRITE | ALLOC, DATA_ADDRESS)
        dynamic = self.pack("W" * 4, DT_HASH, self.section(".hash").address, 0, 0)
        self.add(".dynamic", DYNAMIC, DATA + 64, dynamic, WRITE | ALLOC, DATA_ADDRESS + 64)
        if not self.segments:
            note = self.section(".note")
            self.segments = [
                Segment(PT_PHDR, head, self.address(head), count * row, align=8),
                Segment(PT_LOAD, 0, BASE, AFTER + 64),
                Segment(PT_LOAD, DATA, DATA_ADDRESS, 64 + len(dynamic), 6),
                Segment(PT_DYNAMIC, DATA + 64, DATA_ADDRESS + 64, len(dynamic), 6, align=8),
                Segment(PT_NOTE, note.offset, note.address, len(note.content), align=4),
            ]

    @property
    def word(self) -> int:
        return self.bits // 8

    @property
    def symbol_size(self) -> int:
        return 24 if self.bits == 64 else 16

    def address(self, offset: int) -> int:
        """Return the address of a byte of the first segment."""
        return BASE + offset

    def pack(self, code: str, *values: object) -> bytes:
        """Return values in the file's byte order; ``W`` is an address."""
        mark = "<" if self.order == "little" else ">"
        return struct.pack(mark + code.replace("W", "Q" if self.bits == 64 else "I"), *values)

    def add(
        self,
        name: str,
        type: int,
        at: int,
        content: bytes,
        flags: int = ALLOC,
        address: int | None = None,
        **facts: int,
    ) -> int:
        """Add a section at an offset, a multiple of 8; return where the next one may be."""
        at += -at % 8
        place = self.address(at) if address is None else address
        self.sections.append(Section(name, type, at, content, flags, place, **facts))
        return at + len(content)

    def section(self, name: str) -> Section:
        return next(section for section in self.sections if section.name == name)

    def index(self, name: str) -> int:
        return next(index for index, section in enumerate(self.sections) if section.name == name)

    def symbols(self, rows: list[tuple[int, int, int, int]]) -> bytes:
        """Return a table of symbols: (value, size, info, section)."""
        found = b""
        for value, size, info, section in [(0, 0, 0, 0), *rows]:
            if self.bits == 64:
                found += self.pack("IBBHQQ", 0, info, 0, section, value, size)
            else:
                found += self.pack("IIIBBH", 0, value, size, info, 0, section)
        return found

    def symbol_table(self, *rows: tuple[int, int, int, int]) -> None:
        """Add a table of symbols for the linker and debuggers."""
        self.sections.append(
            Section(".symtab", SYMTAB, -1, self.symbols(list(rows)), 0, link=0, info=1, entry=self.symbol_size)
        )

    def build(self) -> bytes:
        """Return the file."""
        sections = [replace(section) for section in self.sections]
        names, starts = b"", list[int]()
        for section in [*sections, Section(".shstrtab", STRTAB, -1, b"", 0, align=1)]:
            starts.append(len(names))
            names += section.name.encode() + b"\0"
        sections.append(Section(".shstrtab", STRTAB, -1, names, 0, align=1))
        data = bytearray(DATA + 256)
        for section in sections:
            if section.offset < 0:
                section.offset = len(data) + -len(data) % 8
            if section.type not in (NULL, NOBITS):
                end = section.offset + len(section.content)
                data += bytes(max(end - len(data), 0))
                data[section.offset : end] = section.content
        data += bytes(-len(data) % 8)
        head, row, line = (64, 56, 64) if self.bits == 64 else (52, 32, 40)
        rows = b"".join(map(self._program, self.segments))
        start = len(data) if self.far else head
        if self.far:
            data += rows + bytes(2 * row)
        data[start : start + len(rows)] = rows
        table = len(data)
        for section, name in zip(sections, starts, strict=True):
            size = len(section.content) if section.size is None else section.size
            values = (section.flags, section.address, section.offset, size, section.link, section.info)
            data += self.pack(SECTION[self.bits], name, section.type, *values, section.align, section.entry)
        ident = b"\x7fELF" + bytes([self.bits // 32, 1 if self.order == "little" else 2, 1]).ljust(12, b"\0")
        header = (self.type, self.machine, 1, 0, start, table, 0, head, row, len(self.segments), line, len(sections))
        data[:head] = self.pack(HEADER[self.bits], ident, *header, len(sections) - 1)
        return bytes(data) + self.trailing

    def _program(self, each: Segment) -> bytes:
        memory = each.size if each.memory is None else each.memory
        place = (each.offset, each.address, each.address, each.size, memory)
        if self.bits == 64:
            return self.pack(PROGRAM[64], each.type, each.flags, *place, each.align)
        return self.pack(PROGRAM[32], each.type, *place, each.flags, each.align)
