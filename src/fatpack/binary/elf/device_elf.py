"""Sections, segments, notes and relocations of device ELF files: the reader for properties and digests of kernels.

Section names and links show which section belongs to which kernel. Identifying an image does not need that, so it is
not part of ``fatpack.binary.elf.quick_header``, which is used for every image. System V gABI, chapters 4 and 5.
"""

from __future__ import annotations

from fatpack import limits
from fatpack.binary.elf import table
from fatpack.binary.elf.layout import ESCAPED, LOAD, NOTE_SECTION, REL, RELA, elf_layouts
from fatpack.binary.elf.quick_header import decode_name, read_quick_header
from fatpack.binary.elf.relocations import RelocationBlock, RelocationShape
from fatpack.errors import BadValue, format_hex
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import TypeAlias

    from fatpack.binary.elf.quick_header import QuickHeader
    from fatpack.io.source import View
    from fatpack.layout import ByteOrder

    #: name, type, flags, address, offset, size, link, info
    Header: TypeAlias = tuple[int, int, int, int, int, int, int, int]


#: n_namesz, n_descsz, n_type
_NOTE_HEADER = 12

#: Sections are read in one piece if the bytes between them are at most as many as theirs, and this many.
_AHEAD = 64 << 10


class DeviceElfSection(Record):
    """One section header as stored; ``index`` is its number, ``name`` its resolved name."""

    index: int
    name: str
    type: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int


class DeviceElfSections:
    """The section table of an ELF image, which is checked when it is read; empty if the image has none.

    ``headers`` are the stored rows (name, type, flags, address, offset, size, link, info), ``names`` their names in the
    same order: an image has tens of thousands of sections, most of which are not used.
    """

    def __init__(self, view: View) -> None:
        """Read the table and its names. Raises FormatError if they are damaged."""
        self.view = view
        found = read_quick_header(view, view.head(0, 64))
        if found is None:
            raise table.table_error(view, "header", "is no ELF header, or cut short", 0)
        self.elf = found
        self.order: ByteOrder = found.shape.order
        self._without_bytes = found.types_without_bytes
        self.headers, self.names = self._read()
        self._rows: tuple[DeviceElfSection, ...] | None = None
        self._unread = len(view)
        #: bytes that were read ahead, and their position
        self._block: bytes | memoryview = b""
        self._block_at = 0

    @property
    def rows(self) -> tuple[DeviceElfSection, ...]:
        """All rows as records."""
        if self._rows is None:
            self._rows = tuple(map(self.row, range(len(self.headers))))
        return self._rows

    def row(self, index: int) -> DeviceElfSection:
        """Return one row as a record."""
        return DeviceElfSection(index, decode_name(self.names[index]), *self.headers[index][1:])

    def has_bytes(self, index: int) -> bool:
        """Return whether the file has the bytes of a section: memory that a kernel finds zeroed has a size alone."""
        return self.headers[index][1] not in self._without_bytes

    def content(self, section: DeviceElfSection) -> View:
        """Return the bytes of a section; none if it has no bytes in the file. Raises FormatError."""
        if not self.has_bytes(section.index):
            return self.view.slice(0, 0)
        field = section.name or "section"
        table.check_inside(self.view, field, section.offset, section.size)
        if section.size > limits.IMAGE_SECTION_SIZE:
            most = limits.IMAGE_SECTION_SIZE
            raise table.table_limit_error(
                self.view, field, section.offset, f"{section.size} bytes", "IMAGE_SECTION_SIZE", most
            )
        return self.view.slice(section.offset, section.size)

    def read(self, section: DeviceElfSection) -> bytes:
        """Return the bytes of a section for parsing. Raises FormatError, also if sections share bytes.

        Each byte is parsed at most once: a thousand sections with the same bytes would multiply the work.
        """
        content = self.content(section)
        self._spend(section, len(content))
        return content.tobytes()

    def read_ahead(self, indexes: Iterable[int]) -> None:
        """Read sections for later calls of :meth:`bytes_of` at once, if they are close together.

        Nothing is checked here, and sections outside the image are left out.
        """
        most = len(self.view)
        places = [
            (offset, offset + size)
            for index in indexes
            for _, _, _, _, offset, size, _, _ in (self.headers[index],)
            if self.has_bytes(index) and offset + size <= most
        ]
        if not places:
            return
        start, end = min(places)[0], max(place[1] for place in places)
        if end - start <= _AHEAD + 2 * sum(place[1] - place[0] for place in places):
            self._block, self._block_at = self.view.read(start, end - start), start

    def hold(self) -> None:
        """Hold the bytes of the image for later calls of :meth:`bytes_of`, if they are in memory already."""
        if self.view.source.is_at_hand and len(self.view) <= limits.INFLATED_KEPT:
            self._block, self._block_at = self.view.tobuffer(), 0

    def bytes_of(self, index: int) -> bytes:
        """Return the result of :meth:`read` for a section number, from the bytes read ahead if they contain it."""
        return bytes(self.buffer_of(index))

    def buffer_of(self, index: int) -> bytes | memoryview:
        """Return the result of :meth:`bytes_of`, without a copy if the bytes of the image are held."""
        if not self.pass_over(index):
            return b""
        _, _, _, _, offset, size, _, _ = self.headers[index]
        start = offset - self._block_at
        if start < 0 or start + size > len(self._block):
            return self.view.read(offset, size)
        return self._block[start : start + size]

    def pass_over(self, index: int) -> bool:
        """Count a section as read, and raise what :meth:`bytes_of` raises; return whether the file has its bytes."""
        _, kind, _, _, offset, size, _, _ = self.headers[index]
        if kind in self._without_bytes or size > limits.IMAGE_SECTION_SIZE or offset + size > len(self.view):
            self.read(self.row(index))  # raises the error of a section that should have bytes
            return False
        self._unread -= size
        if self._unread < 0:
            raise self._overlaps(self.row(index))
        return True

    def _spend(self, section: DeviceElfSection, size: int) -> None:
        self._unread -= size
        if self._unread < 0:
            raise self._overlaps(section)

    def _overlaps(self, section: DeviceElfSection) -> BadValue:
        return table.table_error(
            self.view, section.name or "section", "overlaps sections that were read", section.offset
        )

    def at(self, index: int, address: int, size: int, field: str) -> View:
        """Return the bytes at an address of a section, which is that of a symbol. Raises FormatError."""
        if index >= len(self.headers):
            raise table.table_error(self.view, field, f"is in section {index} of {len(self.headers)}", 0)
        section = self.row(index)
        start, content = address - section.address, self.content(section)
        if start < 0 or start + size > len(content):
            place = f"at address {address:#x} is outside {section.name or 'its section'}"
            raise table.table_error(self.view, field, place, section.offset)
        return content.slice(start, size)

    def notes(self) -> Iterator[tuple[bytes, int, View]]:
        """Yield (owner without its NUL, type, descriptor) of all notes. Raises FormatError if one is truncated."""
        for index, row in enumerate(self.headers):
            if row[1] == NOTE_SECTION:
                yield from self._notes(self.row(index))

    def _notes(self, section: DeviceElfSection) -> Iterator[tuple[bytes, int, View]]:
        view, at = self.content(section), 0
        self._spend(section, len(view))
        while at < len(view):
            if len(view) - at < _NOTE_HEADER and view.slice(at, len(view) - at).is_zero():
                return
            table.check_inside(view, "note", at, _NOTE_HEADER)
            head = view.read(at, _NOTE_HEADER)
            name, size, kind = (self.number(head[start : start + 4]) for start in (0, 4, 8))
            start = at + _NOTE_HEADER + name + -name % 4
            table.check_inside(view, "note", at, start + size - at)
            yield view.read(at + _NOTE_HEADER, name).rstrip(b"\0"), kind, view.slice(start, size)
            at = start + size + -size % 4

    def number(self, data: bytes) -> int:
        """Return an unsigned number in the byte order of the image."""
        return int.from_bytes(data, self.order)

    def _read(self) -> tuple[list[Header], list[bytes]]:
        view, elf = self.view, self.elf
        count, shape = elf.section_count(), elf.shape.row
        found = elf.sections(shape)
        if count > limits.IMAGE_SECTIONS:
            raise table.table_limit_error(
                view, "section table", elf.shoff, f"has {count} entries", "IMAGE_SECTIONS", limits.IMAGE_SECTIONS
            )
        headers: list[Header] = list(found)
        stored = self._names(headers)
        if stored is None:
            return headers, [b""] * len(headers)
        names = stored.take([header[0] for header in headers], elf.shoff, shape.size)
        # Offset 0 means no name, even if the table does not start with a NUL.
        for index in [index for index, row in enumerate(headers) if not row[0]]:
            names[index] = b""
        return headers, names

    def _names(self, headers: list[Header]) -> table.NameTable | None:
        """Return the table of section names; None if the header refers to none."""
        view, elf = self.view, self.elf
        if not headers:
            return None
        index = headers[0][6] if elf.shstrndx == ESCAPED else elf.shstrndx
        if index >= len(headers):
            raise table.table_error(view, "section names", f"are in section {index} of {len(headers)}", elf.shoff)
        if not index or headers[index][1] in self._without_bytes:
            return None
        return table.NameTable(view, "section name", *headers[index][4:6])


# Segments. Drivers load an image by its program headers, so a wrong one makes intact code useless.

_HINT = "it is damaged or cut short: get it again, or build it again"


def check_program_headers(elf: QuickHeader) -> None:
    """Check that the program headers, and the bytes of the segments that they load, lie inside a device image.

    Raises BadValue for the first field that is wrong. gABI, chapter 5, "Program Header": a segment has at least as many
    bytes in memory as in the file. Memory without bytes in the file, such as shared memory, may be at any offset.
    """
    check_program_table(elf)
    if not elf.phnum:
        return
    view, row, size = elf.view, elf.shape.loaded, len(elf.view)
    for index, (kind, offset, stored, extent) in enumerate(table.read_table_rows(view, elf.phoff, elf.phnum, row)):
        if kind == LOAD and stored and (offset + stored > size or extent < stored):
            raise _wrong_segment(elf, index, offset, stored, extent)


def check_program_table(elf: QuickHeader) -> None:
    """Check that the table of program headers lies inside a file, of a device or of a host.

    Raises BadValue for the first field of the header that is wrong. Relocatable files have no such table, and the other
    fields then mean nothing: ptxas leaves the size of an entry in some of them.
    """
    if not elf.phnum:
        return
    count, size = elf.phnum, elf.shape.loaded.size
    room = len(elf.view) - size * count
    if elf.phentsize != size:
        raise _wrong_field(elf, "program_entry_size", "wrong size of a program header", str(size), str(elf.phentsize))
    if room < elf.shape.header.size:
        most = f"at most {max(len(elf.view) - elf.shape.header.size, 0) // size}"
        raise _wrong_field(elf, "program_count", "so many program headers do not fit into the file", most, str(count))
    if room < elf.phoff:
        most = f"at most {format_hex(room)}"
        problem = "the program headers lie outside the file"
        raise _wrong_field(elf, "program_offset", problem, most, format_hex(elf.phoff))


def _wrong_segment(elf: QuickHeader, index: int, offset: int, stored: int, extent: int) -> BadValue:
    """Return the error for a loaded segment that does not lie inside the image."""
    size = len(elf.view)
    if offset > size:
        name, problem = "offset", "a loaded segment lies outside the file"
        limit, found = f"at most {format_hex(size)}", offset
    elif offset + stored > size:
        name, problem = "file_size", "a loaded segment ends outside the file"
        limit, found = f"at most {format_hex(size - offset)}", stored
    else:
        name, problem = "memory_size", "a loaded segment has fewer bytes in memory than in the file"
        limit, found = f"at least {format_hex(stored)}", extent
    return _wrong_field(elf, name, problem, limit, format_hex(found), index)


def _wrong_field(
    elf: QuickHeader, name: str, problem: str, expected: str, found: str, index: int | None = None
) -> BadValue:
    """Return the error for a field of the header, or of the program header of a number."""
    layouts = elf_layouts(elf.shape.bits, elf.shape.order)
    if index is None:
        at = layouts.header.field_offset(name)
    else:
        at = elf.phoff + index * layouts.program.size + layouts.program.field_offset(name)
    return BadValue(
        problem,
        format=table.FORMAT,
        offset=elf.view.offset(at),
        field=name if index is None else f"program[{index}].{name}",
        expected=expected,
        found=found,
        hint=_HINT,
        chain=elf.view.chain,
    )


class SectionRelocations:
    """The relocation sections of an image, by the number of the section that they apply to."""

    def __init__(self, sections: DeviceElfSections) -> None:
        self._sections = sections
        self._of: dict[int, list[int]] = {}
        for index, (_, kind, _, _, _, size, _, info) in enumerate(sections.headers):
            if kind in (REL, RELA) and size:
                self._of.setdefault(info, []).append(index)

    def __bool__(self) -> bool:
        return bool(self._of)

    def for_section(self, number: int) -> Iterator[tuple[int, int, int, int]]:
        """Yield (offset, type, symbol number, addend) of a section's relocations; the addend of REL is 0.

        Raises FormatError if the relocation sections overlap other sections or are truncated.
        """
        sections = self._sections
        tables = self._of.get(number)
        if tables is None:
            return
        elf = sections.elf
        shape = RelocationShape(elf.shape.bits, elf.shape.order, elf.machine)
        for index in tables:
            type, at = sections.headers[index][1], sections.headers[index][4]
            stored = sections.bytes_of(index)
            block = RelocationBlock(shape, at, stored[: len(stored) - len(stored) % shape.row_size(type)], type)
            for place, kind, symbol, addend in block.rows():
                yield place, kind, symbol, addend or 0
