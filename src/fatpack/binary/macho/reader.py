"""Reader of Mach-O files: header, load commands and the sections of their segments; damaged files too.

Of a damaged file the intact parts are read: a wrong section count ends its segment, a wrong size of a load command ends
the commands, since nothing else states their positions.
"""

from __future__ import annotations

import struct

from fatpack.binary.macho.layout import (
    DYLD_INFO,
    DYLD_INFO_ONLY,
    DYSYMTAB,
    FORMAT,
    LAYOUTS_BY_MAGIC,
    LINKEDIT,
    SYMTAB,
    TYPE_MASK,
    ZEROFILL,
    command_name,
)
from fatpack.errors import BadMagic, BadValue, FormatError, LimitExceeded, Truncated
from fatpack.model import Label, fill_gaps
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.io.source import View


#: LIMIT: bytes of load commands. Programs with thousands of libraries have less than 1 MB.
_COMMANDS = 16 << 20


class LoadCommand(Record):
    """A load command: its ``number`` from 0 on, its position in the file, its kind and size."""

    number: int
    at: int
    kind: int
    size: int


class MachOSection(Record):
    """A section header; ``number`` counts from 1, as symbols do. ``at`` is the header's position.

    ``has_bytes``: the file contains the section's content.
    """

    number: int
    at: int
    name: bytes
    segment: bytes
    size: int
    offset: int
    relocation_offset: int
    relocation_count: int
    has_bytes: bool

    @property
    def title(self) -> str:
        """The name in LLVM's tools: segment and section, with a comma between."""
        return b",".join((self.segment, self.name)).decode("utf-8", "backslashreplace")

    @property
    def end(self) -> int:
        """The end of the content in the file."""
        return self.offset + self.size


class MachOFile:
    """The header of a Mach-O file, and its load commands. Raises FormatError if there is no header."""

    def __init__(self, view: View) -> None:
        self.view = view
        magic = view.head(0, 4)
        if magic not in LAYOUTS_BY_MAGIC:
            raise BadMagic("not a Mach-O file", format=FORMAT, offset=view.offset(0), chain=view.chain)
        self.shape = LAYOUTS_BY_MAGIC[magic]
        header = self.shape.header.named(view, 0)
        self.machine: int = header["machine"]
        self.variant: int = header["variant"]
        self.command_count: int = header["command_count"]
        self.commands_at = self.shape.header.size
        self.commands_end: int = self.commands_at + header["commands_size"]
        self._table: bytes | None = None

    def table(self) -> bytes:
        """Return the load commands up to the end of the file. Raises LimitExceeded if there are too many."""
        if self._table is None:
            size = min(self.commands_end, len(self.view)) - self.commands_at
            if size > _COMMANDS:
                at = self.view.offset(self.commands_at)
                text = f"more than {_COMMANDS} bytes of load commands"
                raise LimitExceeded(text, format=FORMAT, offset=at, field="sizeofcmds", chain=self.view.chain)
            self._table = self.view.read(self.commands_at, size) if size > 0 else b""
        return self._table

    def commands(self) -> Iterator[LoadCommand]:
        """Yield the load commands in order. Raises FormatError at the first damaged one."""
        table, layout = self.table(), self.shape.command
        at, size = 0, layout.size
        for number in range(self.command_count):
            if at + size > len(table):
                raise self._no_room(number, at, len(table))
            kind, length = layout.struct.unpack_from(table, at)
            if length < size or at + length > self.commands_end - self.commands_at:
                raise BadValue(
                    "the load command does not fit in the others",
                    format=FORMAT,
                    offset=self.view.offset(self.commands_at + at + 4),
                    field=f"load command {number}: cmdsize",
                    expected=f"{size} to {self.commands_end - self.commands_at - at}",
                    found=str(length),
                    chain=self.view.chain,
                )
            if at + length > len(table):
                raise self._cut(f"load command {number}", at, length)
            yield LoadCommand(number, self.commands_at + at, kind, length)
            at += length

    def record(self, command: LoadCommand, at: int, size: int) -> bytes:
        """Return bytes of a load command from the offset ``at`` on, fewer at its end."""
        start = command.at - self.commands_at
        return self.table()[start + at : start + min(at + size, command.size)]

    def sections(self) -> Iterator[MachOSection | FormatError]:
        """Yield the sections of all segments in order, and errors of the tables between them."""
        number = 1
        try:
            for command in self.commands():
                if command.kind != self.shape.segment_command:
                    continue
                found = self._sections(command, number)
                for item in found:
                    number += not isinstance(item, FormatError)
                    yield item
        except FormatError as error:
            yield error

    def _sections(self, command: LoadCommand, number: int) -> Iterator[MachOSection | FormatError]:
        segment, layout = self.shape.segment, self.shape.section
        head = self.record(command, 0, segment.size)
        if len(head) < segment.size:
            yield self._short(command, f"{command_name(command.kind)} has {segment.size} bytes or more")
            return
        values = segment.struct.unpack(head)
        count, stored = values[segment.position("section_count")], values[segment.position("size_in_file")]
        room = (command.size - segment.size) // layout.size
        body = self.record(command, segment.size, min(count, room) * layout.size)
        for place, row in enumerate(layout.struct.iter_unpack(body)):
            name, of, _, size, offset, _, relocations, relocation_count, flags = row[:9]
            has_bytes = flags & TYPE_MASK not in ZEROFILL and stored > 0
            at = command.at + segment.size + place * layout.size
            yield MachOSection(
                number + place,
                at,
                name.partition(b"\0")[0],
                of.partition(b"\0")[0],
                size,
                offset,
                relocations,
                relocation_count,
                has_bytes,
            )
        if count > room:
            yield BadValue(
                "more sections than the load command has room for",
                format=FORMAT,
                offset=self.view.offset(command.at + segment.field_offset("section_count")),
                field=f"load command {command.number}: nsects",
                expected=f"at most {room}",
                found=str(count),
                chain=self.view.chain,
            )

    def _short(self, command: LoadCommand, problem: str) -> FormatError:
        return BadValue(
            problem,
            format=FORMAT,
            offset=self.view.offset(command.at + 4),
            field=f"load command {command.number}: cmdsize",
            found=str(command.size),
            chain=self.view.chain,
        )

    def _no_room(self, number: int, at: int, size: int) -> FormatError:
        if self.commands_at + size < self.commands_end:
            return self._cut(f"load command {number}", at, self.shape.command.size)
        return BadValue(
            "more load commands than there are bytes for",
            format=FORMAT,
            offset=self.view.offset(self.shape.header.field_offset("command_count")),
            field="ncmds",
            expected=f"{number} in {size} bytes",
            found=str(self.command_count),
            chain=self.view.chain,
        )

    def _cut(self, field: str, at: int, needed: int) -> FormatError:
        place = self.commands_at + at
        return Truncated(
            needed=needed,
            left=len(self.view) - place,
            format=FORMAT,
            offset=self.view.offset(place),
            field=field,
            chain=self.view.chain,
        )


# Parts of a Mach-O file that load commands refer to: contents, relocations, symbols, and linkers' tables

#: Contents that LC_DYLD_INFO refers to: five pairs of offset and size.
_DYLD = ("rebase info", "binding info", "weak binding info", "lazy binding info", "exports")

#: Tables that LC_DYSYMTAB refers to: position of offset and count in the command, size of a row, description.
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
    """A part of the file: its position, size, label name, and description."""

    at: int
    size: int
    name: str
    value: str
    doc: str


def list_ranges(file: MachOFile) -> Iterator[MachORange]:
    """Yield the parts that load commands refer to; they may be outside the file, and overlap."""
    for section in file.sections():
        if isinstance(section, FormatError):
            continue
        yield from _of_section(section)
    try:
        for command in file.commands():
            yield from _of_command(file, command)
    except FormatError:
        pass  # the intact commands are used


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
    """Return 32-bit numbers of a load command, zeros after its end."""
    stored = file.record(command, at, 4 * count).ljust(4 * count, b"\0")
    return struct.unpack(f"{'<' if file.shape.order == 'little' else '>'}{count}I", stored)


# Byte map


def label_macho(view: View) -> Iterator[Label]:
    """Yield a label for every byte: headers, segments and sections field by field, everything else as a whole."""
    try:
        file = MachOFile(view)
    except FormatError:
        yield from fill_gaps(view, [])
        return
    yield from file.shape.header.labels(view, 0, FORMAT)
    reached, number = file.commands_at, 1
    try:
        for command in file.commands():
            for label in _command(file, command, number):
                number += label.name.endswith("].name") and label.name.startswith("section[")
                yield label
            reached = command.at + command.size
    except FormatError:
        pass  # the damaged rest of the commands has no fields
    found = (
        Label(view.span(part.at, part.size), part.name, part.value, part.doc, "data") for part in list_ranges(file)
    )
    yield from fill_gaps(view, found, reached)


def _command(file: MachOFile, command: LoadCommand, number: int) -> Iterator[Label]:
    """Yield the labels of one load command; its sections are counted from ``number`` on."""
    view, prefix, shape = file.view, f"command[{command.number}]", file.shape
    at, end = command.at, command.at + command.size
    if command.kind == shape.segment_command and command.size >= shape.segment.size:
        yield from shape.segment.labels(view, at, prefix)
        count = shape.segment.read(view, at)[shape.segment.position("section_count")]
        at += shape.segment.size
        for place in range(min(count, (end - at) // shape.section.size)):
            yield from shape.section.labels(view, at + place * shape.section.size, f"section[{number + place}]")
        at += min(count, (end - at) // shape.section.size) * shape.section.size
    else:
        yield from shape.command.labels(view, at, prefix)
        at += shape.command.size
    if at < end:
        text = f"{command_name(command.kind)}, {end - at} bytes"
        yield Label(view.span(at, end - at), f"{prefix}.data", text, "the rest of the load command", "data")
