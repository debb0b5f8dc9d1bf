"""The sections of a device ELF, and the notes in them: what facts about kernels are read from.

What belongs to which kernel is in the names and links of sections, which recognising an image does not need; so this
stays out of ``fatpack.elf``, which is read for every image. System V gABI, chapters 4 and 5.
"""

from __future__ import annotations

from fatpack.elf import NOBITS, NOTE, header, text
from fatpack.errors import BadValue, LimitExceeded, Truncated
from fatpack.io import limits
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.elf import Elf
    from fatpack.io.source import View

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
            raise _bad(view, "header", "is no ELF header, or cut short", 0)
        self.elf = found
        self.order = "little" if view.read(5, 1) == b"\1" else "big"
        self.rows = tuple(self._read())
        self._unread = len(view)

    def content(self, section: Section) -> View:
        """Return the bytes of a section; none for one that takes no place in the file. Raises FormatError."""
        if section.type == NOBITS:
            return self.view.slice(0, 0)
        field = section.name or "section"
        _inside(self.view, field, section.offset, section.size)
        if section.size > limits.IMAGE_SECTION_SIZE:
            found = f"{section.size} bytes, more than {limits.IMAGE_SECTION_SIZE}"
            raise _too_much(self.view, field, section.offset, found, "IMAGE_SECTION_SIZE")
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
            raise _bad(self.view, section.name or "section", "overlaps sections that were read", section.offset)

    def at(self, index: int, address: int, size: int, field: str) -> View:
        """Return the bytes at an address of a section: of a symbol that is defined there. Raises FormatError."""
        if index >= len(self.rows):
            raise _bad(self.view, field, f"is in section {index} of {len(self.rows)}", 0)
        section = self.rows[index]
        start, content = address - section.address, self.content(section)
        if start < 0 or start + size > len(content):
            place = f"at address {address:#x} is outside {section.name or 'its section'}"
            raise _bad(self.view, field, place, section.offset)
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
            _inside(view, "note", at, _NOTE_HEADER)
            head = view.read(at, _NOTE_HEADER)
            name, size, kind = (self.number(head[start : start + 4]) for start in (0, 4, 8))
            start = at + _NOTE_HEADER + name + -name % 4
            _inside(view, "note", at, start + size - at)
            yield view.read(at + _NOTE_HEADER, name).rstrip(b"\0"), kind, view.slice(start, size)
            at = start + size + -size % 4

    def number(self, data: bytes) -> int:
        """Return an unsigned number in the byte order of the image."""
        return int.from_bytes(data, "little" if self.order == "little" else "big")

    def _read(self) -> Iterator[Section]:
        view, found = self.view, self.elf
        count = found.section_count()
        if not count:
            return
        row = found.shape.row
        if found.shentsize != row.size:
            raise _bad(view, "section table", f"has entries of {found.shentsize} bytes, not of {row.size}", found.shoff)
        _inside(view, "section table", found.shoff, count * row.size)
        if count > limits.IMAGE_SECTIONS:
            raise _too_much(view, "section table", found.shoff, f"has {count} entries", "IMAGE_SECTIONS")
        table = list(row.iter_unpack(view.read(found.shoff, count * row.size)))
        names, at = self._names(found, table)
        # Sections may share one long name; without this bound n sections would give n copies of it.
        budget = max(limits.STRING_FLOOR, limits.STRING_RATIO * len(view))
        for number, (start, *values) in enumerate(table):
            end = names.find(b"\0", start)
            if start and (start >= len(names) or end < 0):
                problem = f"at {start:#x} is outside the {len(names)} bytes of names"
                raise _bad(view, "section name", problem, found.shoff + number * row.size)
            budget -= end - start
            if budget < 0:
                raise _too_much(view, "section names", at, "far more than the image", "STRING_RATIO")
            yield Section(number, text(names[start:end]) if start else "", *values)

    def _names(self, found: Elf, table: list[tuple[int, ...]]) -> tuple[bytes, int]:
        """Return the table of section names and where it lies; none when the header names no section for it."""
        view = self.view
        index = self.number(view.read(found.shape.header.size - 2, 2))
        index = table[0][6] if index == _XINDEX else index
        if index >= len(table):
            raise _bad(view, "section names", f"are in section {index} of {len(table)}", found.shoff)
        at, size = table[index][4:6]
        if not index or table[index][1] == NOBITS:
            return b"", 0
        _inside(view, "section names", at, size)
        if size > limits.STRING_TABLE:
            raise _too_much(view, "section names", at, f"{size} bytes of them", "STRING_TABLE")
        return view.read(at, size), at


def _inside(view: View, field: str, at: int, size: int) -> None:
    if at + size > len(view):
        raise Truncated(
            needed=size, left=len(view) - at, format="elf", offset=view.offset(at), field=field, chain=view.chain
        )


def _bad(view: View, field: str, problem: str, at: int) -> BadValue:
    return BadValue(problem, format="elf", offset=view.offset(at), field=field, chain=view.chain)


def _too_much(view: View, field: str, at: int, problem: str, limit: str) -> LimitExceeded:
    return LimitExceeded(
        problem,
        format="elf",
        offset=view.offset(at),
        field=field,
        hint=limits.advice(limit),
        chain=view.chain,
    )
