"""Room behind the program headers: what stands there moves into bytes that were freed.

The table itself must stay where it is: GNU strip and objcopy put it back behind the ELF header, and break a file whose
table lies elsewhere. What may move is what nothing but program headers and the dynamic table leads to: the name of the
interpreter, notes, and the tables by which a loader finds symbols. Their addresses change, and with them these headers,
entries of the dynamic table, section headers, and local symbols on notes.

QUIRK(patchelf up to 0.18): it adds a program header where the first sections of the *section table* stand, whatever
stands behind the program headers. Where something moves, there is room for one more header than needed, so that it
overwrites nothing; what it writes is in order again.
"""

from __future__ import annotations

from fatpack.binary.elf import constants
from fatpack.binary.elf.layout import SH_OFFSET, SH_SIZE, SH_TYPE
from fatpack.binary.elf.shrinker.cuts import PAGE, CannotShrinkElf, ElfCut, make_cut
from fatpack.binary.elf.shrinker.dynamic import DynamicTable
from fatpack.binary.elf.shrinker.pointers import has_relative_pointer_into
from fatpack.binary.elf.shrinker.symbols import move_symbol, symbols_on_sections
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from fatpack.binary.elf.file import ElfSection
    from fatpack.binary.elf.shrinker.linked import LinkedElfFile, ProgramHeader

_SHT_NOTE = 7

#: Segments that lead to what may move, and are changed with it.
_LEADING = (constants.INTERPRETER, constants.NOTE, constants.PROPERTIES)

#: LIMIT: segments of notes of one file. Linkers make one for each alignment of notes, and one for their properties.
_MOST_LEADING = 64

_READABLE = 4


class MovedRange(Record):
    """A stretch of the file that makes room: from ``start`` to ``end``, which goes to ``position`` of the old file.

    ``shift`` is what its addresses change by; ``sections`` are the numbers of the sections in it, ``patches`` what
    changes elsewhere because of it: the entries of the dynamic table, and symbols.
    """

    start: int
    end: int
    position: int
    shift: int
    sections: frozenset[int]
    patches: dict[int, bytes]

    def holds(self, segment: ProgramHeader) -> bool:
        """Return whether a segment is one that moves."""
        return segment.type in _LEADING and self.start <= segment.offset and segment.end <= self.end


class ProgramHeaderSpace:
    """What stands behind the program headers of a file.

    ``most`` is how many more of them there can be; ``obstacle`` says what stands in the way of others.
    """

    def __init__(self, elf: LinkedElfFile) -> None:
        self._elf = elf
        self._size = elf.layouts.program.size
        self._start, self._end = elf.program_table()
        self._dynamic = DynamicTable(elf)
        self._leading = [each for each in elf.segments if each.type in _LEADING and each.file_size]
        self._interpreters = {(each.offset, each.end) for each in self._leading if each.type == constants.INTERPRETER}
        self._rows = sorted(
            (row[SH_OFFSET], index)
            for index, row in enumerate(elf.section_rows)
            if row[SH_SIZE] and row[SH_TYPE] not in (constants.NULL, constants.NOBITS) and row[SH_OFFSET] >= self._end
        )
        self._spare = 1 if self._dynamic.is_present else 0
        self.obstacle = f"a run of more than {_MOST_LEADING} notes"
        fixed = self._fixed() if len(self._leading) <= _MOST_LEADING else self._end
        free = min(fixed, self._rows[0][0] if self._rows else fixed)
        self.most = max((free - self._end) // self._size, (fixed - self._end) // self._size - self._spare, 0)

    def _fixed(self) -> int:
        """Return where the first thing starts that cannot move, and note it as the obstacle."""
        elf, start, end = self._elf, self._start, self._end
        fixed, self.obstacle = len(elf.view), "the end of the file"
        if elf.header.section_offset >= end:
            fixed, self.obstacle = elf.header.section_offset, "the section table"
        for segment in elf.segments:
            at, stop, kind = segment.offset, segment.end, segment.type
            if kind in (*_LEADING, constants.PROGRAM_HEADERS) or not segment.file_size or elf.is_by_address(segment):
                continue
            holds_table = kind == constants.LOAD and at <= start and end <= stop
            at = self._end_of(segment) if holds_table else max(at, end) if stop > end else fixed
            if at < fixed:
                fixed, self.obstacle = at, f"{'the end of ' if holds_table else ''}segment {segment.index}"
        for at, index in self._rows:
            if at >= fixed:
                break
            section = elf.section(index)
            if not self._is_movable(section):
                self.obstacle = elf.title(section)
                return at
        return fixed

    def _end_of(self, load: ProgramHeader) -> int:
        """Return how far the segment of the table could reach in the file: to the next page that is another's."""
        if load.memory_size != load.file_size or load.align < PAGE:
            return load.end
        loads = self._elf.loads
        number = loads.index(load) + 1
        if number == len(loads):
            return load.end
        following = loads[number].address // load.align * load.align
        end = max(load.end, load.offset + following - load.address)
        return end if end <= len(self._elf.view) and self._elf.view.is_zero(load.end, end - load.end) else load.end

    def _is_movable(self, section: ElfSection) -> bool:
        if not section.flags & constants.ALLOC or section.align & section.align - 1 or section.align > PAGE:
            return False
        found = self._dynamic.leading(section.address, section.size)
        if section.type == _SHT_NOTE:
            return not found
        if section.type in self._dynamic.TAGS:
            return found == [(section.address, self._dynamic.TAGS[section.type])]
        return not found and (section.offset, section.end) in self._interpreters

    def made(self, count: int, cuts: Sequence[ElfCut], align: int) -> tuple[MovedRange | None, list[ElfCut]]:
        """Return what moves so that ``count`` more program headers fit, None if nothing, and the cuts as they are then.

        Raises Whole if it cannot move.
        """
        needed = self._end + count * self._size
        if any(at < needed for at, _ in self._rows[:1]):
            needed += self._spare * self._size
        reach, indices = needed, []
        for at, index in self._rows:
            if at >= reach:
                break
            section = self._elf.section(index)
            if not self._is_movable(section):
                raise self._blocked(self._elf.title(section))
            indices.append(index)
            ends = [each.end for each in self._leading if each.offset < section.end and section.offset < each.end]
            reach = max(reach, section.end, *ends)
        start = self._elf.section(indices[0]).offset if indices else needed
        if any(each.offset < needed and each.end > self._end and each.offset < start for each in self._leading):
            raise self._blocked("a note without a section")
        gap = self._elf.address_of(self._end)
        if gap and self._dynamic.leading(gap, min(start, needed) - self._end):
            raise self._blocked("something that the dynamic table leads to")
        if not indices:
            return None, list(cuts)
        return self._moved(indices, start, reach, cuts, align)

    def _blocked(self, what: str) -> CannotShrinkElf:
        return CannotShrinkElf(f"{what} stands behind the program headers, where one more is needed, and cannot move")

    def _moved(
        self, indices: Sequence[int], start: int, end: int, cuts: Sequence[ElfCut], align: int
    ) -> tuple[MovedRange, list[ElfCut]]:
        elf = self._elf
        sections = [elf.section(index) for index in indices]
        address, unit = sections[0].address, 16
        for section in sections:
            if section.address - address != section.offset - start:
                raise CannotShrinkElf(f"{elf.title(section)} has another address than what stands before it")
            unit = max(unit, section.align)
        for each in self._leading:
            if start <= each.offset < end:
                unit = max(unit, each.align if not each.align & each.align - 1 else 0)
        best: tuple[int, int, ElfCut, ElfCut] | None = None
        for number, cut in enumerate(cuts):
            if cut.load is None or not cut.load.flags & _READABLE:
                continue
            place = cut.changed.section.address + cut.changed.size
            place += (address - place) % unit
            position = cut.changed.section.offset + place - cut.changed.section.address
            smaller = make_cut(elf, cut.changed, cut.load, position + end - start, align)
            lost = cut.size - smaller.size
            if smaller.size and (best is None or lost < best[0]):
                best = lost, number, smaller, cut
        if best is None:
            raise CannotShrinkElf("what stands behind the program headers does not fit into the freed bytes")
        _, number, smaller, _ = best
        if has_relative_pointer_into(elf, address, address + end - start):
            raise self._blocked("something that a relocation leads to")
        position = smaller.kept - (end - start)
        shift = smaller.changed.section.address + position - smaller.changed.section.offset - address
        patches = self._dynamic.patches(address, address + end - start, shift)
        for symbol in symbols_on_sections(elf, frozenset(indices)):
            # __ehdr_start and its like name the first section, and lie elsewhere.
            if not address <= symbol.value <= address + end - start:
                continue
            if symbol.info >> 4:
                raise self._blocked(f"{elf.title(elf.section(symbol.section))}, which a global symbol names,")
            elf.check_size(symbol.value + shift)
            patches[symbol.at] = move_symbol(elf, symbol, symbol.value + shift, symbol.size)
        changed = [smaller if place == number else cut for place, cut in enumerate(cuts)]
        return MovedRange(start, end, position, shift, frozenset(indices), patches), changed
