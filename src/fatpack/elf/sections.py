"""The sections of a device ELF, and the notes in them: what facts about kernels are read from.

What belongs to which kernel is in the names and links of sections, which recognising an image does not need; so this
stays out of ``fatpack.elf.header``, which is read for every image. System V gABI, chapters 4 and 5.
"""

from __future__ import annotations

from fatpack.elf import table
from fatpack.elf.header import NOBITS, NOTE, header, text
from fatpack.io import limits
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.io.source import View
    from fatpack.layout import Order

#: e_shstrndx: the number is in sh_link of section 0
_XINDEX = 0xFFFF

#: n_namesz, n_descsz, n_type
_NOTE_HEADER = 12


class Section(Record):
    """One row of the section table as stored; ``index`` is its number, ``name`` already looked up."""

    index: int
    name: str
    type: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int


class Sections:
    """The section table of an ELF image, checked before anything is read; ``rows`` is empty when it has none."""

    def __init__(self, view: View) -> None:
        """Read the table and its names. Raises FormatError when they are damaged."""
        self.view = view
        found = header(view, view.head(0, 64))
        if found is None:
            raise table.bad(view, "header", "is no ELF header, or cut short", 0)
        self.elf = found
        self.order: Order = "little" if view.read(5, 1) == b"\1" else "big"
        self.rows = tuple(self._read())
        self._unread = len(view)

    def content(self, section: Section) -> View:
        """Return the bytes of a section; none for one that takes no place in the file. Raises FormatError."""
        if section.type == NOBITS:
            return self.view.slice(0, 0)
        field = section.name or "section"
        table.inside(self.view, field, section.offset, section.size)
        if section.size > limits.IMAGE_SECTION_SIZE:
            most = limits.IMAGE_SECTION_SIZE
            raise table.too_much(self.view, field, section.offset, f"{section.size} bytes", "IMAGE_SECTION_SIZE", most)
        return self.view.slice(section.offset, section.size)

    def read(self, section: Section) -> bytes:
        """Return the bytes of a section to be walked through. Raises FormatError, also where sections share bytes.

        Each byte is walked over once: a thousand sections in the place of one would multiply the work.
        """
        content = self.content(section)
        self._spend(section, len(content))
        return content.tobytes()

    def _spend(self, section: Section, size: int) -> None:
        self._unread -= size
        if self._unread < 0:
            raise table.bad(self.view, section.name or "section", "overlaps sections that were read", section.offset)

    def at(self, index: int, address: int, size: int, field: str) -> View:
        """Return the bytes at an address of a section: of a symbol that is defined there. Raises FormatError."""
        if index >= len(self.rows):
            raise table.bad(self.view, field, f"is in section {index} of {len(self.rows)}", 0)
        section = self.rows[index]
        start, content = address - section.address, self.content(section)
        if start < 0 or start + size > len(content):
            place = f"at address {address:#x} is outside {section.name or 'its section'}"
            raise table.bad(self.view, field, place, section.offset)
        return content.slice(start, size)

    def notes(self) -> Iterator[tuple[bytes, int, View]]:
        """Yield (owner without its NUL, type, descriptor) of all notes. Raises FormatError when one is cut short."""
        for section in self.rows:
            if section.type == NOTE:
                yield from self._notes(section)

    def _notes(self, section: Section) -> Iterator[tuple[bytes, int, View]]:
        view, at = self.content(section), 0
        self._spend(section, len(view))
        while at < len(view):
            if len(view) - at < _NOTE_HEADER and view.slice(at, len(view) - at).is_zero():
                return
            table.inside(view, "note", at, _NOTE_HEADER)
            head = view.read(at, _NOTE_HEADER)
            name, size, kind = (self.number(head[start : start + 4]) for start in (0, 4, 8))
            start = at + _NOTE_HEADER + name + -name % 4
            table.inside(view, "note", at, start + size - at)
            yield view.read(at + _NOTE_HEADER, name).rstrip(b"\0"), kind, view.slice(start, size)
            at = start + size + -size % 4

    def number(self, data: bytes) -> int:
        """Return an unsigned number in the byte order of the image."""
        return int.from_bytes(data, self.order)

    def _read(self) -> list[Section]:
        view, elf = self.view, self.elf
        count, row = elf.section_count(), elf.shape.row
        found = elf.sections(row)
        if count > limits.IMAGE_SECTIONS:
            raise table.too_much(
                view, "section table", elf.shoff, f"has {count} entries", "IMAGE_SECTIONS", limits.IMAGE_SECTIONS
            )
        headers = list(found)
        names = self._names(headers)
        if names is None:
            return [Section(number, "", *values) for number, (_, *values) in enumerate(headers)]
        stored = names.take((header[0] for header in headers), elf.shoff, row.size)
        return [
            Section(number, text(name) if start else "", *values)
            for number, (name, (start, *values)) in enumerate(zip(stored, headers, strict=True))
        ]

    def _names(self, headers: list[tuple[int, ...]]) -> table.Names | None:
        """Return the section names; None when the header names no section for them."""
        view, elf = self.view, self.elf
        if not headers:
            return None
        index = self.number(view.read(elf.shape.header.size - 2, 2))
        index = headers[0][6] if index == _XINDEX else index
        if index >= len(headers):
            raise table.bad(view, "section names", f"are in section {index} of {len(headers)}", elf.shoff)
        if not index or headers[index][1] == NOBITS:
            return None
        return table.Names(view, "section name", *headers[index][4:6])
