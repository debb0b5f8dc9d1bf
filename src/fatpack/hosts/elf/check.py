"""The check after an edit: is the new file the old one with nothing but device code changed?

It reads tables only (headers, section headers, section names) and the ends of sections that moved, so its cost does
not grow with the size of the device code. It shares no code with the editors beyond reading, so that a mistake there
is not repeated here.
"""

from __future__ import annotations

from fatpack.errors import FormatError, HostError
from fatpack.hosts.elf import constants
from fatpack.hosts.elf.read import ElfFile, Section

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from fatpack.io.source import View

#: Fields of the ELF header that an edit may change: where the section table is, and how long.
_MAY_CHANGE = {"section_offset", "section_count"}

#: How much of both ends of a section that moved is compared.
_SAMPLE = 256

_BLOCK = 64 << 10


def verify(before: View, after: View, *, edited: Collection[int] | None = None) -> None:
    """Raise HostError unless ``after`` is a sound edit of the ELF file ``before``.

    Sound means: the same header but for the section table; the same program headers; every old section with the same
    name, type, flags, address, links and alignment, inside the file, over no other one, loaded sections of linked
    files in the same place; new sections not loaded. ``edited`` are the sections whose size may have changed or that
    may be gone (None: any that could hold device code).
    """
    try:
        _Comparison(ElfFile(before), ElfFile(after), edited).run()
    except FormatError as error:
        raise HostError(f"the edited file is damaged: {error}", hint=_REPORT, chain=after.chain) from error


_REPORT = "nothing was changed; please report this with the input"


class _Comparison:
    """The two files, and the checks in the order in which a failure tells most."""

    def __init__(self, old: ElfFile, new: ElfFile, edited: Collection[int] | None) -> None:
        self.old, self.new = old, new
        self.edited = edited
        self.old_rows = list(old.rows())
        self.new_rows = list(new.rows())

    def fail(self, problem: str) -> HostError:
        return HostError(f"the edited file is not sound: {problem}", hint=_REPORT, chain=self.new.view.chain)

    def run(self) -> None:
        self._headers()
        self._names()
        kept = len(self.new_rows)
        for index, row in enumerate(self.old_rows[1:], 1):
            # Nearly all headers stay as they are; only the others are worth a closer look.
            if index >= kept:
                if not self._may_go(Section(index, *row)):
                    raise self.fail(f"{self.old.title(Section(index, *row))} is gone")
            elif row != self.new_rows[index]:
                self._section(Section(index, *row), Section(index, *self.new_rows[index]))
        for index, row in enumerate(self.new_rows[len(self.old_rows) :], len(self.old_rows)):
            if row[2] & constants.ALLOC:
                raise self.fail(f"{self.new.title(Section(index, *row))} is new and loaded at run time")
        self._places()

    def _places(self) -> None:
        """Check that all parts of the new file lie inside it and, unless the old file's did, over no other one."""
        parts = _parts(self.new, self.new_rows)
        for start, end in parts:
            if end > len(self.new.view):
                raise self.fail(f"a part at {start:#x} ends behind the end of the file")
        clash = _overlap(parts)
        if clash is not None and _overlap(_parts(self.old, self.old_rows)) is None:
            raise self.fail(f"parts overlap at {clash:#x}")

    def _headers(self) -> None:
        old, new = self.old.header, self.new.header
        for field in self.old.layouts.header.fields:
            name = field.name
            if name not in _MAY_CHANGE and getattr(old, name) != getattr(new, name):
                raise self.fail(f"{name} in the header is {getattr(new, name)}, was {getattr(old, name)}")
        if self.old.names_index != self.new.names_index or self.old.program_count != self.new.program_count:
            raise self.fail("section 0 says something else")
        start, end = self.old.program_table()
        if not _same(self.old.view.slice(start, end - start), self.new.view.slice(start, end - start)):
            raise self.fail("the program headers changed")

    def _names(self) -> None:
        """Check that the table of names starts with the old one, so that all old names are what they were."""
        old = self.old.contents(self.old.names_section())
        new = self.new.contents(self.new.names_section())
        if len(new) < len(old):
            raise self.fail("the table of section names is shorter")
        if not _same(old, new.slice(0, len(old))):
            raise self.fail("the table of section names changed")

    def _may_go(self, old: Section) -> bool:
        is_candidate = old.type in (constants.PROGBITS, constants.OFFLOADING) and not old.flags & constants.ALLOC
        return old.type == constants.NULL or (is_candidate and (self.edited is None or old.index in self.edited))

    def _may_change(self, old: Section) -> bool:
        if old.index == self.old.names_index:
            return True
        is_candidate = old.type in (constants.PROGBITS, constants.OFFLOADING)
        return is_candidate and (self.edited is None or old.index in self.edited)

    def _section(self, old: Section, new: Section) -> None:
        if new.type == constants.NULL and old.type != constants.NULL:
            if not self._may_go(old):
                raise self.fail(f"{self.old.title(old)} was removed")
            if new.replace(index=0) != Section(*[0] * len(Section._fields)):
                raise self.fail(f"{self.old.title(old)} was removed, but its header is not empty")
            return
        for name in ("name_offset", "type", "flags", "address", "link", "info", "align", "entry_size"):
            if getattr(old, name) != getattr(new, name):
                value, was = getattr(new, name), getattr(old, name)
                raise self.fail(f"{name} of {self.old.title(old)} is {value:#x}, was {was:#x}")
        if old.size != new.size and not self._may_change(old):
            raise self.fail(f"{self.old.title(old)} has {new.size} bytes, had {old.size}")
        if old.offset != new.offset:
            self._moved(old, new)

    def _moved(self, old: Section, new: Section) -> None:
        title = self.old.title(old)
        if self.old.is_linked and old.flags & constants.ALLOC:
            raise self.fail(f"{title} is loaded at run time and moved")
        if old.align and old.stored_size and old.offset % old.align == 0 and new.offset % old.align:
            raise self.fail(f"{title} lies at {new.offset:#x}, which is no multiple of {old.align}")
        if old.size != new.size or not old.stored_size:
            return
        count = min(_SAMPLE, old.size)
        if self._is_symbol_table(old):
            return  # sizes of symbols may follow the section they span
        before, after = self.old.contents(old), self.new.contents(new)
        for at in (0, old.size - count):
            if before.read(at, count) != after.read(at, count):
                raise self.fail(f"{title} moved, and its contents changed")

    def _is_symbol_table(self, section: Section) -> bool:
        return section.type in (constants.SYMTAB, constants.DYNSYM, constants.SYMTAB_SHNDX)


def _same(first: View, second: View) -> bool:
    """Return whether two views of one size hold the same bytes, block by block."""
    return all(first.head(at, _BLOCK) == second.head(at, _BLOCK) for at in range(0, len(first), _BLOCK))


def _parts(elf: ElfFile, rows: Sequence[tuple[int, ...]]) -> list[tuple[int, int]]:
    """Return the ranges of the header, the section table and all sections with bytes in the file, in file order."""
    empty = (constants.NULL, constants.NOBITS)
    parts = [(row[4], row[4] + row[5]) for row in rows if row[5] and row[1] not in empty]
    return sorted([*parts, (elf.header.section_offset, elf.table_end), (0, elf.layouts.header.size)])


def _overlap(parts: Sequence[tuple[int, int]]) -> int | None:
    """Return where two parts overlap, or None."""
    end = 0
    for start, stop in parts:
        if start < end:
            return start
        end = stop
    return None
