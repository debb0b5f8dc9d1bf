"""What lies where in a Mach-O file by its load commands: contents, relocations, symbols, and what linkers add."""

from __future__ import annotations

import struct

from fatpack.binary.macho.layout import DYLD_INFO, DYLD_INFO_ONLY, DYSYMTAB, LINKEDIT, SYMTAB
from fatpack.binary.macho.reader import MachOFile, MachOSection
from fatpack.errors import FormatError
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.binary.macho.reader import LoadCommand

#: What LC_DYLD_INFO leads to: five pairs of offset and size.
_DYLD = ("rebase info", "binding info", "weak binding info", "lazy binding info", "exports")

#: Tables that LC_DYSYMTAB leads to: where offset and count are in the command, bytes of a row, and what it is.
_DYNAMIC = (
    (32, 8, "table of contents"),
    (40, None, "modules"),
    (48, 4, "referenced symbols"),
    (56, 4, "indirect symbols"),
    (64, 8, "external relocations"),
    (72, 8, "local relocations"),
)
_MODULE_SIZE, _MODULE_64_SIZE = 52, 56
_RELOCATION_SIZE = 8


class MachORange(Record):
    """A part of the file: where it starts, its size, its name among labels, and what is there."""

    at: int
    size: int
    name: str
    value: str
    doc: str


def list_ranges(file: MachOFile) -> Iterator[MachORange]:
    """Yield what load commands say where it lies; a place may be outside of the file, and parts may overlap."""
    for section in file.sections():
        if isinstance(section, FormatError):
            continue
        yield from _of_section(section)
    try:
        for command in file.commands():
            yield from _of_command(file, command)
    except FormatError:
        pass  # what the whole commands describe is known


def _of_section(section: MachOSection) -> Iterator[MachORange]:
    prefix = f"section[{section.number}]"
    if section.has_bytes and section.size:
        text = f"{section.title}, {section.size} bytes"
        yield MachORange(section.offset, section.size, f"{prefix}.data", text, "contents of the section")
    if section.relocation_count:
        size = section.relocation_count * _RELOCATION_SIZE
        text = f"{section.title}, {section.relocation_count} relocations"
        yield MachORange(section.relocation_offset, size, f"{prefix}.relocations", text, "places to patch")


def _of_command(file: MachOFile, command: LoadCommand) -> Iterator[MachORange]:
    if command.kind == SYMTAB:
        symbols_at, count, strings_at, size = _numbers(file, command, 8, 4)
        yield MachORange(symbols_at, count * file.shape.symbol_size, "symbols", f"{count} records", "the symbol table")
        yield MachORange(strings_at, size, "strings", f"{size} bytes", "names of symbols")
    elif command.kind == DYSYMTAB:
        for at, row_size, name in _DYNAMIC:
            start, count = _numbers(file, command, at, 2)
            wide = _MODULE_64_SIZE if file.shape.symbol_size == 16 else _MODULE_SIZE
            yield MachORange(start, count * (row_size or wide), name, f"{count} records", "for the dynamic linker")
    elif command.kind in (DYLD_INFO, DYLD_INFO_ONLY):
        for place, name in enumerate(_DYLD):
            start, size = _numbers(file, command, 8 + 8 * place, 2)
            yield MachORange(start, size, name, f"{size} bytes", "for the dynamic linker")
    elif command.kind in LINKEDIT:
        start, size = _numbers(file, command, 8, 2)
        yield MachORange(start, size, LINKEDIT[command.kind], f"{size} bytes", "what the linker adds")


def _numbers(file: MachOFile, command: LoadCommand, at: int, count: int) -> tuple[int, ...]:
    """Return 32-bit numbers of a load command, zeros where it ends before them."""
    stored = file.record(command, at, 4 * count).ljust(4 * count, b"\0")
    return struct.unpack(f"{'<' if file.shape.order == 'little' else '>'}{count}I", stored)
