"""Linked programs and libraries with device code in them, and the change that makes it smaller.

The device code is made up: containers as fat binaries start (magic, version, header size, size of the rest), each
followed by its number and filler. A table of records points to them as nvcc's does. The program prints for each record
what it finds through the pointer, so that its output is the same as long as pointers and first bytes are right.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

from fatpack.binary.elf.file import ElfFile, ElfSection
from fatpack.binary.shrink import ContainerMove, NewSectionContent, ShrinkRequest
from fatpack.io.open import open_source
from fatpack.io.source import View

MAGIC = 0xBA55ED50

#: section → sizes of its containers, 8-byte multiples
Layout = dict[str, Sequence[int]]

USUAL: Layout = {".nv_fatbin": (30000, 160, 50000, 24000)}

_ASSEMBLY = """
        .section {section}, "a"
        .balign 8
fatbin{number}:
        .4byte {magic}
        .2byte 1, 16
        .8byte {rest}
        .4byte {number}
        .fill {fill}, 1, {filler}
        .size fatbin{number}, . - fatbin{number}
        .type fatbin{number}, {at}object
        .section {records}, "aw"
        .balign {word}
        .4byte 0x466243b1, 1
        .{word}byte fatbin{number}
        .{word}byte 0
"""

_HEADER = """
extern const struct record {{ unsigned magic, version; const unsigned *data; void *name; }} records[]
    __attribute__((visibility("hidden")));
int printf(const char *, ...);
{linkage} int show(void) {{
    int bad = 0;
    for (int at = 0; at < {count}; at++) {{
        const unsigned *data = records[at].data;
        printf("%d: %x %u\\n", at, data[0], data[4]);
        bad |= data[0] != {magic}u || data[4] != (unsigned)at;
    }}
    return bad;
}}
"""

MAIN = "int main(void) { return show(); }\n"


def assembly(layout: Layout, word: int = 8, at: str = "@", records: str = ".nvFatBinSegment") -> str:
    """Return the assembler source of the containers and their records; ``at`` is ``%`` for Arm."""
    text = (
        f'        .section {records}, "aw"\n        .balign {word}\n        .hidden records\n        .globl records\n'
    )
    text += "records:\n"
    number = 0
    for section, sizes in layout.items():
        for size in sizes:
            values = {"rest": size - 16, "fill": size - 20, "filler": number % 251 + 1, "magic": MAGIC}
            text += _ASSEMBLY.format(section=section, number=number, word=word, records=records, at=at, **values)
            number += 1
    return text + '        .section .note.GNU-stack, "", ' + at + "progbits\n"


def fat_assembly(folder: Path, containers: Sequence[bytes]) -> str:
    """Return the assembler source of whole fat binaries, which it includes from a folder, and their records."""
    text = '        .section .nvFatBinSegment, "aw"\n        .balign 8\n'
    text += "        .hidden records\n        .globl records\nrecords:\n"
    for number, container in enumerate(containers):
        path = folder / f"{number}.fatbin"
        path.write_bytes(container)
        name = f"fatbin{number}"
        text += f'        .section .nv_fatbin, "a"\n        .balign 8\n{name}:\n        .incbin "{path}"\n'
        text += f"        .size {name}, . - {name}\n        .type {name}, @object\n"
        text += f'        .section .nvFatBinSegment, "aw"\n        .4byte 0x466243b1, 1\n        .8byte {name}, 0\n'
    return text + '        .section .note.GNU-stack, "", @progbits\n'


def c_source(layout: Layout, *, main: bool) -> str:
    """Return the C source of a program, or of a library that exports ``show``."""
    count = sum(map(len, layout.values()))
    linkage = "" if main else '__attribute__((visibility("default")))'
    return _HEADER.format(count=count, magic=MAGIC, linkage=linkage) + (MAIN if main else "")


def smaller(
    path: Path, kept: int = 64, *, records: str = ".nvFatBinSegment", emptied: Sequence[int] = ()
) -> ShrinkRequest:
    """Return the change that leaves of every container its first bytes, laid down again from the section's start.

    Containers whose number is in ``emptied`` keep 24 bytes. Pointers are read as the linker left them.
    """
    view = open_source(path).view()
    elf = ElfFile(view)
    by_name = {elf.name(section): section for section in elf.sections() if section.stored_size}
    table = by_name[records]
    contents, moves, pointers = list[NewSectionContent](), list[ContainerMove](), dict[int, int]()
    new_of: dict[int, int] = {}
    for name in (".nv_fatbin", "__nv_relfatbin", ".hip_fatbin"):
        section = by_name.get(name)
        if section is None:
            continue
        data = view.read(section.offset, section.size)
        at, new, pieces = data.find(struct.pack(order(elf, "I"), MAGIC)), 0, list[bytes | View]()
        while 0 <= at < len(data):
            size = 16 + struct.unpack_from(order(elf, "Q"), data, at + 8)[0]
            (number,) = struct.unpack_from(order(elf, "I"), data, at + 16)
            left = min(24 if number in emptied else kept, size)
            pieces += [data[at : at + 8], struct.pack(order(elf, "Q"), left - 16)]
            pieces.append(view.slice(section.offset + at + 16, left - 16))
            moves.append(ContainerMove(section.address + at, size, section.address + new, left))
            new_of[section.address + at] = section.address + new
            new += left
            at = data.find(struct.pack(order(elf, "I"), MAGIC), at + size)
        contents.append(NewSectionContent(section.index, pieces))
    word = elf.layouts.word
    for place in range(8, table.size, 8 + 2 * word):
        address = table.address + place
        target = pointer(elf, table, place)
        if new_of.get(target, target) != target:
            pointers[address] = new_of[target]
    return ShrinkRequest(contents, moves, pointers)


def order(elf: ElfFile, code: str) -> str:
    """Return a format of ``struct`` in the byte order of a file."""
    return ("<" if elf.layouts.order == "little" else ">") + code


def pointer(elf: ElfFile, table: ElfSection, place: int) -> int:
    """Return what a pointer of a table holds: by its relocation, else in place."""
    word = elf.layouts.word
    for section in elf.sections():
        if section.type == 4 and section.flags & 2:
            for row in elf.records(elf.layouts.rela, section.offset, section.size // elf.layouts.rela.size):
                if row[0] == table.address + place and not row[1] >> elf.layouts.symbol_shift:
                    return int(row[2])
    return int.from_bytes(elf.view.read(table.offset + place, word), elf.layouts.order)
