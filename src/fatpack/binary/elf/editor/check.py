"""Verification of an edit: the new file must equal the old one except for device code.

It reads only tables (headers, section headers, section names) and the ends of sections that moved, so its cost does not
grow with the size of the device code. It shares only the readers with the editors, so that it does not repeat their
mistakes.
"""

from __future__ import annotations

from itertools import compress, islice
from operator import gt

from fatpack.binary.elf import layout
from fatpack.binary.elf.file import ElfFile, ElfSection
from fatpack.errors import FormatError, HostError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from fatpack.io.source import View

#: Fields of the ELF header that an edit may change: offset and length of the section table.
_MAY_CHANGE = {"section_offset", "section_count"}

#: Bytes at both ends of a section that moved that are compared.
_SAMPLE = 256

_BLOCK = 64 << 10


def verify_edit(before: View, after: View, *, edited: Collection[int] | None = None) -> None:
    """Raise HostError unless ``after`` is a valid edit of the ELF file ``before``.

    Valid means: the same header except for the section table; the same program headers; every old section with the same
    name, type, flags, address, links and alignment, inside the file, without overlaps, loaded sections of linked files
    in the same place; new sections not loaded. ``edited`` are the sections whose size may have changed or that may be
    removed (None: any that can contain device code).
    """
    try:
        _Comparison(ElfFile(before), ElfFile(after), edited).run()
    except FormatError as error:
        raise HostError(f"the edited file is damaged: {error}", hint=_REPORT, chain=after.chain) from error


_REPORT = "nothing was changed; please report this with the input"


class _Comparison:
    """The two files, and the checks, the most informative first."""

    def __init__(self, old: ElfFile, new: ElfFile, edited: Collection[int] | None) -> None:
        self.old, self.new = old, new
        self.edited = edited

    def fail(self, problem: str) -> HostError:
        return HostError(f"the edited file is not sound: {problem}", hint=_REPORT, chain=self.new.view.chain)

    def run(self) -> None:
        self._headers()
        self._names()
        for index in self._changed():
            if index:  # section 0 describes no bytes; its counts were compared with the headers
                self._section(self.old.section(index), self.new.section(index))
        for index in range(self.new.section_count, self.old.section_count):
            if not self._may_go(self.old.section(index)):
                raise self.fail(f"{self.old.title(self.old.section(index))} is gone")
        for index in range(self.old.section_count, self.new.section_count):
            if self.new.section(index).flags & layout.ALLOC:
                raise self.fail(f"{self.new.title(self.new.section(index))} is new and loaded at run time")
        self._places()

    def _changed(self) -> Iterator[int]:
        """Yield the sections of both files whose headers differ; whole blocks are compared, as nearly all are equal."""
        size, first = self.old.layouts.section.size, 0
        for old, new in zip(self.old.table_blocks(), self.new.table_blocks(), strict=False):
            common = min(len(old), len(new))
            if old[:common] != new[:common]:
                for at in range(0, common, size):
                    if old[at : at + size] != new[at : at + size]:
                        yield first + at // size
            first += len(old) // size

    def _places(self) -> None:
        """Check that all parts of the new file are inside it and, unless the old file's did, do not overlap."""
        starts, ends = _parts(self.new)
        last = max(ends)
        if last > len(self.new.view):
            raise self.fail(f"a part ends at {last:#x}, after the end of the file")
        clash = _overlap(starts, ends)
        if clash is not None and _overlap(*_parts(self.old)) is None:
            raise self.fail(f"parts overlap at {clash:#x}")

    def _headers(self) -> None:
        old, new = self.old.header, self.new.header
        for field in self.old.layouts.header.fields:
            name = field.name
            if name not in _MAY_CHANGE and getattr(old, name) != getattr(new, name):
                raise self.fail(f"{name} in the header is {getattr(new, name)}, was {getattr(old, name)}")
        if self.old.names_index != self.new.names_index or self.old.program_count != self.new.program_count:
            raise self.fail("the counts in section 0 changed")
        start, end = self.old.program_table()
        if not _same(self.old.view.slice(start, end - start), self.new.view.slice(start, end - start)):
            raise self.fail("the program headers changed")

    def _names(self) -> None:
        """Check that the table of names starts with the old one, so that all old names are unchanged.

        It may be shorter, by whole names that no section and no symbol uses.
        """
        old = self.old.contents(self.old.names_section())
        new = self.new.contents(self.new.names_section())
        common = min(len(old), len(new))
        if not _same(old.slice(0, common), new.slice(0, common)):
            raise self.fail("the table of section names changed")
        if len(new) < len(old) and (not common or new.read(common - 1, 1) != b"\0" or self._last_name_used() >= common):
            raise self.fail("the table of section names is shorter")

    def _last_name_used(self) -> int:
        """Return the largest position in the table of section names that a section or a symbol of the new file uses."""
        largest, table = 0, self.new.names_index
        for section in self.new.sections():
            largest = max(largest, section.name_offset)
            if section.link != table or section.type == layout.NULL:
                continue
            if section.type not in (layout.SYMTAB, layout.DYNSYM):
                raise self.fail(f"{self.new.title(section)} uses the table of section names, which is shorter")
            symbol = self.new.layouts.symbol
            rows = self.new.records(symbol, section.offset, section.size // symbol.size)
            largest = max(largest, max((row[symbol.position("name_offset")] for row in rows), default=0))
        return largest

    def _may_go(self, old: ElfSection) -> bool:
        is_candidate = old.type in (layout.PROGBITS, layout.OFFLOADING) and not old.flags & layout.ALLOC
        return old.type == layout.NULL or (is_candidate and (self.edited is None or old.index in self.edited))

    def _may_change(self, old: ElfSection) -> bool:
        if old.index == self.old.names_index:
            return True
        is_candidate = old.type in (layout.PROGBITS, layout.OFFLOADING)
        return is_candidate and (self.edited is None or old.index in self.edited)

    def _section(self, old: ElfSection, new: ElfSection) -> None:
        if new.type == layout.NULL and old.type != layout.NULL:
            if not self._may_go(old):
                raise self.fail(f"{self.old.title(old)} was removed")
            if new.replace(index=0) != ElfSection(*[0] * len(ElfSection._fields)):
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

    def _moved(self, old: ElfSection, new: ElfSection) -> None:
        if self.old.is_linked and old.flags & layout.ALLOC:
            raise self.fail(f"{self.old.title(old)} is loaded at run time and moved")
        # gABI: alignments are powers of two; others have no meaning, and edits do not keep them.
        is_aligned = old.align and not old.align & (old.align - 1) and old.offset % old.align == 0
        if is_aligned and old.stored_size and new.offset % old.align:
            raise self.fail(f"{self.old.title(old)} lies at {new.offset:#x}, which is no multiple of {old.align}")
        if old.size != new.size or not old.stored_size:
            return
        count = min(_SAMPLE, old.size)
        if self._is_symbol_table(old):
            return  # sizes of symbols may follow the section that they span
        before, after = self.old.contents(old), self.new.contents(new)
        for at in (0, old.size - count):
            if before.read(at, count) != after.read(at, count):
                raise self.fail(f"{self.old.title(old)} moved, and its contents changed")

    def _is_symbol_table(self, section: ElfSection) -> bool:
        return section.type in (layout.SYMTAB, layout.DYNSYM, layout.SYMTAB_SHNDX)


def _same(first: View, second: View) -> bool:
    """Return whether two views of one size have the same bytes, block by block."""
    return all(first.head(at, _BLOCK) == second.head(at, _BLOCK) for at in range(0, len(first), _BLOCK))


def _parts(elf: ElfFile) -> tuple[list[int], list[int]]:
    """Return starts and ends of the header, the section table and all sections with bytes, in file order.

    Two lists of numbers: 70,000 tuples would take longer than the rest of the check.
    """
    offsets, all_ends = elf.stored_ranges()
    starts = [0, elf.header.section_offset, *compress(offsets, all_ends)]
    ends = [elf.layouts.header.size, elf.table_end, *filter(None, all_ends)]
    order = sorted(range(len(starts)), key=starts.__getitem__)
    return [starts[part] for part in order], [ends[part] for part in order]


def _overlap(starts: Sequence[int], ends: Sequence[int]) -> int | None:
    """Return where two parts overlap, or None. In sorted ranges the first overlap is between adjacent ones."""
    following = islice(starts, 1, None)
    return next(compress(islice(starts, 1, None), map(gt, ends, following)), None)
