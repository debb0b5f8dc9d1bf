"""ELF files built in code, from the gABI's tables and not from fatpack's own."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fatpack.io.source import BytesSource, View

if TYPE_CHECKING:
    from fatpack.io.source import Piece

NULL, PROGBITS, SYMTAB, STRTAB, RELA, NOBITS, REL, GROUP, SYMTAB_SHNDX = 0, 1, 2, 3, 4, 8, 9, 17, 18
OFFLOADING, CREL = 0x6FFF4C0B, 0x40000014
WRITE, ALLOC, MERGE, STRINGS, INFO_LINK, GROUPED, COMPRESSED, EXCLUDE = 1, 2, 0x10, 0x20, 0x40, 0x200, 0x800, 1 << 31
RELOCATABLE, EXECUTABLE, SHARED, CORE = 1, 2, 3, 4
I386, MIPS, ARM, X86_64, AARCH64 = 3, 8, 40, 62, 183
SECTION_SYMBOL, GLOBAL_OBJECT, LOCAL_NOTYPE = 3, 0x11, 0

#: (bits) → struct codes of header, section header, program header
HEADER = {32: "16sHHIIIIIHHHHHH", 64: "16sHHIQQQIHHHHHH"}
SECTION = {32: "10I", 64: "IIQQQQIIQQ"}
PROGRAM = {32: "8I", 64: "IIQQQQQQ"}
#: (bits) → byte offset of fields that tests lie about: in the header, and in a section header
HEADER_FIELDS = {
    32: {"type": 16, "machine": 18, "phoff": 28, "shoff": 32, "phentsize": 42, "phnum": 44, "shentsize": 46}
    | {"shnum": 48, "shstrndx": 50},
    64: {"type": 16, "machine": 18, "phoff": 32, "shoff": 40, "phentsize": 54, "phnum": 56, "shentsize": 58}
    | {"shnum": 60, "shstrndx": 62},
}
SECTION_FIELDS = {
    32: dict(zip(("name", "type", "flags", "addr", "offset", "size", "link", "info"), range(0, 32, 4), strict=True))
    | {"addralign": 32, "entsize": 36},
    64: {"name": 0, "type": 4, "flags": 8, "addr": 16, "offset": 24, "size": 32, "link": 40, "info": 44}
    | {"addralign": 48, "entsize": 56},
}


@dataclass
class Section:
    name: str
    content: bytes = b""
    type: int = PROGBITS
    flags: int = 0
    align: int = 1
    link: int = 0
    info: int = 0
    entsize: int = 0
    addr: int = 0
    size: int | None = None  # of nobits sections
    offset: int = 0


@dataclass
class Symbol:
    name: str
    section: int
    value: int = 0
    size: int = 0
    info: int = LOCAL_NOTYPE


@dataclass
class Elf:
    """An ELF file to be: add sections, symbols and relocations, then ``build()``.

    ``segments`` are (offset, size) of program headers of type LOAD. ``merged_names`` keeps section and symbol names
    in one table, as LLVM does. ``tables_first`` puts the section table right behind the header, ``rubbish`` bytes
    between contents and tables.
    """

    bits: int = 64
    order: str = "little"
    type: int = RELOCATABLE
    machine: int = X86_64
    sections: list[Section] = field(default_factory=lambda: [Section("", type=NULL, align=0)])
    symbols: list[Symbol] = field(default_factory=lambda: [Symbol("", 0)])
    segments: list[tuple[int, int]] = field(default_factory=list)
    merged_names: bool = False
    tables_first: bool = False
    rubbish: bytes = b""
    trailing: bytes = b""

    @property
    def mark(self) -> str:
        return "<" if self.order == "little" else ">"

    def pack(self, code: str, *values: object) -> bytes:
        return struct.pack(self.mark + code, *values)

    def add(self, name: str, content: bytes = b"", **facts: int) -> int:
        """Add a section and return its index."""
        self.sections.append(Section(name, content, **facts))
        return len(self.sections) - 1

    def symbol(self, name: str, section: int, value: int = 0, size: int = 0, info: int = LOCAL_NOTYPE) -> int:
        """Add a symbol and return its number."""
        self.symbols.append(Symbol(name, section, value, size, info))
        return len(self.symbols) - 1

    def relocations(self, target: int, *entries: tuple[int, ...], type: int = RELA) -> int:
        """Add relocations (offset, symbol, type[, addend]) for a section; the symbol table follows at ``build``."""
        shift = 32 if self.bits == 64 else 8
        word = "Q" if self.bits == 64 else "I"
        content = b""
        for offset, symbol, kind, *addend in entries:
            content += self.pack(f"{word}{word}", offset, symbol << shift | kind)
            if type == RELA:
                content += self.pack(word.lower(), *addend)
        size = self.bits // 8 * (3 if type == RELA else 2)
        name = (".rela" if type == RELA else ".rel") + self.sections[target].name
        return self.add(name, content, type=type, flags=INFO_LINK, align=8, link=-1, info=target, entsize=size)

    def _symbol_table(self) -> None:
        """Add the symbol table and its strings, if there is any symbol; relocations link to it."""
        if len(self.symbols) == 1:
            return
        strings, content, wide = bytearray(1), bytearray(), bytearray()
        local_count = sum(symbol.info >> 4 == 0 for symbol in self.symbols)
        names = len(self.sections) + (1 if max(symbol.section for symbol in self.symbols) < 0xFF00 else 2)
        for each in self.symbols:
            at = len(strings) if each.name else 0
            strings += each.name.encode() + b"\0" if each.name else b""
            index = each.section if each.section < 0xFF00 else 0xFFFF
            wide += self.pack("I", each.section if index == 0xFFFF else 0)
            if self.bits == 64:
                content += self.pack("IBBHQQ", at, each.info, 0, index, each.value, each.size)
            else:
                content += self.pack("IIIBBH", at, each.value, each.size, each.info, 0, index)
        size = 24 if self.bits == 64 else 16
        table = self.add(".symtab", bytes(content), type=SYMTAB, align=8, link=names, info=local_count, entsize=size)
        if any(wide):
            self.add(".symtab_shndx", bytes(wide), type=SYMTAB_SHNDX, align=4, link=table, entsize=4)
        self.add(".strtab", bytes(strings), type=STRTAB)
        for section in self.sections:
            if section.link == -1:
                section.link = table

    def build(self) -> bytes:
        """Return the file: header, program headers, contents in order, names, section table."""
        self._symbol_table()
        own_names = not (self.merged_names and self.sections[-1].type == STRTAB)
        if own_names:
            self.add(".shstrtab", type=STRTAB)
        names = self.sections[-1]
        offsets = []
        strings = bytearray(names.content or b"\0")
        for section in self.sections:
            offsets.append(len(strings) if section.name else 0)
            strings += section.name.encode() + b"\0" if section.name else b""
        names.content = bytes(strings)
        header_size = 64 if self.bits == 64 else 52
        row_size = 64 if self.bits == 64 else 40
        at = header_size + len(self.segments) * struct.calcsize(self.mark + PROGRAM[self.bits])
        table_size = row_size * len(self.sections)
        if self.tables_first:
            at += -at % 8 + table_size
        body = bytearray()
        for section in self.sections[1:]:
            if section.type != NULL:
                body += bytes(-(at + len(body)) % max(section.align, 1))
                section.offset = at + len(body)
                body += section.content
        body += self.rubbish
        table = at - table_size if self.tables_first else at + len(body) + (-(at + len(body)) % (self.bits // 8))
        rows = self._rows(offsets)
        head = self._head(table, names_index=len(self.sections) - 1)
        if self.tables_first:
            return head.ljust(table, b"\0") + rows + body + self.trailing
        return (head + body).ljust(table, b"\0") + rows + self.trailing

    def _rows(self, names: list[int]) -> bytes:
        count = len(self.sections)
        rows = bytearray()
        for index, (each, name) in enumerate(zip(self.sections, names, strict=True)):
            size = len(each.content) if each.size is None else each.size
            link = each.link
            if index == 0:
                size = count if count >= 0xFF00 else 0
                link = count - 1 if count - 1 >= 0xFF00 else 0
            values = (each.flags, each.addr, each.offset, size, link, each.info, each.align, each.entsize)
            rows += self.pack(SECTION[self.bits], name, each.type, *values)
        return bytes(rows)

    def _head(self, table: int, names_index: int) -> bytes:
        ident = b"\x7fELF" + bytes([self.bits // 32, 1 if self.order == "little" else 2, 1])
        header_size, program_size = (64, 56) if self.bits == 64 else (52, 32)
        count = len(self.sections)
        head = self.pack(
            HEADER[self.bits],
            ident,
            self.type,
            self.machine,
            1,
            0,
            header_size if self.segments else 0,
            table,
            0,
            header_size,
            program_size if self.segments else 0,
            len(self.segments),
            64 if self.bits == 64 else 40,
            count if count < 0xFF00 else 0,
            names_index if names_index < 0xFF00 else 0xFFFF,
        )
        for offset, size in self.segments:
            if self.bits == 64:
                head += self.pack(PROGRAM[64], 1, 4, offset, offset, offset, size, size, 0x1000)
            else:
                head += self.pack(PROGRAM[32], 1, offset, offset, offset, size, size, 4, 0x1000)
        return head


def with_contents(**sections: bytes) -> bytes:
    """Return an ELF file with sections of these contents, by their names without the dot."""
    made = Elf()
    for name, content in sections.items():
        made.add(f".{name}", content, align=8)
    return made.build()


def with_header(data: bytes, name: str, value: int) -> bytes:
    """Return a file that lies in one field of its header."""
    bits, mark = 32 * data[4], "<" if data[5] == 1 else ">"
    code = {"phoff": "Q" if bits == 64 else "I", "shoff": "Q" if bits == 64 else "I"}.get(name, "H")
    return _with(data, HEADER_FIELDS[bits][name], struct.pack(mark + code, value))


def with_section(data: bytes, index: int, **values: int) -> bytes:
    """Return a file that lies in some fields of one section header."""
    bits, mark = 32 * data[4], "<" if data[5] == 1 else ">"
    word = "Q" if bits == 64 else "I"
    at = HEADER_FIELDS[bits]["shoff"]
    (table,) = struct.unpack_from(mark + word, data, at)
    for name, value in values.items():
        code = "I" if name in ("name", "type", "link", "info") else word
        row = table + index * (64 if bits == 64 else 40)
        data = _with(data, row + SECTION_FIELDS[bits][name], struct.pack(mark + code, value))
    return data


def section_field(data: bytes, index: int, name: str) -> int:
    """Return one field of a section header."""
    bits, mark = 32 * data[4], "<" if data[5] == 1 else ">"
    word = "Q" if bits == 64 else "I"
    (table,) = struct.unpack_from(mark + word, data, HEADER_FIELDS[bits]["shoff"])
    code = "I" if name in ("name", "type", "link", "info") else word
    row = table + index * (64 if bits == 64 else 40)
    return int(struct.unpack_from(mark + code, data, row + SECTION_FIELDS[bits][name])[0])


def header_field(data: bytes, name: str) -> int:
    """Return one field of the header."""
    bits, mark = 32 * data[4], "<" if data[5] == 1 else ">"
    code = ("Q" if bits == 64 else "I") if name in ("phoff", "shoff") else "H"
    return int(struct.unpack_from(mark + code, data, HEADER_FIELDS[bits][name])[0])


def _with(data: bytes, at: int, value: bytes) -> bytes:
    return data[:at] + value + data[at + len(value) :]


def device_object(content: bytes = b"DEVICECODE" * 4, **facts: object) -> Elf:
    """Return an object with text, a section of device code in the middle, data after it and a few symbols.

    Sections: 1 .text, 2 .llvm.offloading, 3 .data, 4 .rela.data, 5 .bss.
    """
    elf = Elf(**facts)  # type: ignore[arg-type]
    elf.add(".text", b"\x90" * 23, flags=ALLOC | 4, align=16)
    elf.add(".llvm.offloading", content, type=OFFLOADING, flags=EXCLUDE, align=8)
    data = elf.add(".data", bytes(range(24)), flags=ALLOC | WRITE, align=8)
    text = elf.symbol("", 1, info=SECTION_SYMBOL)
    elf.symbol("function", 1, value=3, size=20, info=0x12)
    elf.relocations(data, (8, text, 1, 3))
    elf.add(".bss", type=NOBITS, flags=ALLOC | WRITE, align=8, size=4096)
    return elf


def as_view(data: bytes, name: str = "test.o") -> View:
    return BytesSource(data, name).view()


def as_bytes(pieces: Iterable[Piece]) -> bytes:
    """Return the pieces of an edit as one file."""
    return b"".join(piece.tobytes() if isinstance(piece, View) else bytes(piece) for piece in pieces)  # type: ignore[arg-type]
