"""Space for more program headers: the parts after them move into freed bytes.

The table itself must not move: GNU strip and objcopy put it back after the ELF header, and break a file whose table is
elsewhere. Parts can move if only program headers and the dynamic table refer to them: the name of the interpreter,
notes, and the tables in which a loader looks up symbols. Their addresses change, and with them these headers, entries
of the dynamic table, section headers, and local symbols on notes.

QUIRK(patchelf up to 0.18): it adds a program header where the first sections of the *section table* are, regardless of
the bytes after the program headers. If something moves, there is space for one more header than needed, so that it
overwrites nothing; its output is then valid.
"""

from __future__ import annotations

from bisect import bisect_left

from fatpack.binary.elf import layout
from fatpack.binary.elf.layout import SH_OFFSET, SH_SIZE, SH_TYPE
from fatpack.binary.elf.shrinker.cuts import PAGE, CannotShrinkElf, ElfCut, make_cut
from fatpack.binary.elf.shrinker.pointers import has_relative_pointer_into, move_symbol, symbols_on_sections
from fatpack.binary.elf.table import read_table_rows
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from fatpack.binary.elf.file import ElfSection
    from fatpack.binary.elf.shrinker.shrink import LinkedElfFile, ProgramHeader


# The addresses in the dynamic table of a linked file

#: Tags whose values are not addresses: sizes, counts, flags and offsets in the string table (gABI, "Dynamic Section",
#: and glibc's elf.h for those of GNU and Sun).
_NUMBERS = {1, 2, 8, 9, 10, 11, 14, 15, 16, 18, 19, 20, 22, 24, 27, 28, 29, 30, 33, 35, 37} | {
    0x6FFFFFF9,
    0x6FFFFFFA,
    0x6FFFFFFB,
    0x6FFFFFFD,
    0x6FFFFFFF,
    0x7FFFFFFD,
    0x7FFFFFFF,
}
#: DT_VALRNGLO to DT_VALRNGHI: also numbers
_FIRST_NUMBER, _LAST_NUMBER = 0x6FFFFD00, 0x6FFFFDFF

#: LIMIT: entries of a dynamic table. Real ones have some dozen, and one for each needed library.
_MOST = 1 << 16


class DynamicTable:
    """The entries of a file's dynamic table that are addresses; none for a file without one."""

    #: type of a section → the tag of the only dynamic entry that refers to it
    TAGS = {  # noqa: RUF012  (never changed)
        5: 4,
        0x6FFFFFF6: 0x6FFFFEF5,
        layout.DYNSYM: 6,
        layout.STRTAB: 5,
        0x6FFFFFFF: 0x6FFFFFF0,
        0x6FFFFFFD: 0x6FFFFFFC,
        0x6FFFFFFE: 0x6FFFFFFE,
    }

    def __init__(self, elf: LinkedElfFile) -> None:
        self._elf = elf
        #: (address, tag, position of the address in the file), by address
        self._entries: list[tuple[int, int, int]] = []
        import struct

        word, order = elf.layouts.word, "<" if elf.layouts.order == "little" else ">"
        row = struct.Struct(order + ("QQ" if word == 8 else "II"))
        table = next((each for each in elf.segments if each.type == layout.DYNAMIC), None)
        self.is_present = table is not None
        if table is None:
            return
        for number, (tag, value) in enumerate(
            read_table_rows(elf.view, table.offset, min(table.file_size // row.size, _MOST), row)
        ):
            if not tag:
                break
            if tag not in _NUMBERS and not _FIRST_NUMBER <= tag <= _LAST_NUMBER:
                self._entries.append((value, tag, table.offset + number * row.size + word))
        self._entries.sort()

    def leading(self, address: int, size: int) -> list[tuple[int, int]]:
        """Return (address, tag) of the entries that refer to a range of bytes."""
        return [(value, tag) for value, tag, _ in self._between(address, address + size)]

    def patches(self, low: int, high: int, shift: int) -> dict[int, bytes]:
        """Return position → bytes for the entries with addresses between two, moved by a distance."""
        word, order = self._elf.layouts.word, self._elf.layouts.order
        return {at: (value + shift).to_bytes(word, order) for value, _, at in self._between(low, high)}

    def _between(self, low: int, high: int) -> list[tuple[int, int, int]]:
        return self._entries[bisect_left(self._entries, (low,)) : bisect_left(self._entries, (high,))]


_SHT_NOTE = 7

#: Segments of movable parts, which are changed with them.
_LEADING = (layout.INTERPRETER, layout.NOTE, layout.PROPERTIES)

#: LIMIT: segments of notes per file. Linkers make one for each alignment of notes, and one for their properties.
_MOST_LEADING = 64

_READABLE = 4


class MovedRange(Record):
    """A range of the file that moves: from ``start`` to ``end``, to ``position`` of the old file.

    ``shift`` is the change of its addresses; ``sections`` are the numbers of its sections; ``patches`` are the changes
    elsewhere: entries of the dynamic table, and symbols.
    """

    start: int
    end: int
    position: int
    shift: int
    sections: frozenset[int]
    patches: dict[int, bytes]

    def contains(self, segment: ProgramHeader) -> bool:
        """Return whether a segment moves."""
        return segment.type in _LEADING and self.start <= segment.offset and segment.end <= self.end


class ProgramHeaderSpace:
    """The parts after the program headers of a file.

    ``most`` is the possible number of additional headers; ``obstacle`` is the reason why there cannot be more.
    """

    def __init__(self, elf: LinkedElfFile) -> None:
        self._elf = elf
        self._size = elf.layouts.program.size
        self._start, self._end = elf.program_table()
        self._dynamic = DynamicTable(elf)
        self._leading = [each for each in elf.segments if each.type in _LEADING and each.file_size]
        self._interpreters = {(each.offset, each.end) for each in self._leading if each.type == layout.INTERPRETER}
        self._rows = sorted(
            (row[SH_OFFSET], index)
            for index, row in enumerate(elf.section_rows)
            if row[SH_SIZE] and row[SH_TYPE] not in (layout.NULL, layout.NOBITS) and row[SH_OFFSET] >= self._end
        )
        self._spare = 1 if self._dynamic.is_present else 0
        self.obstacle = f"a run of more than {_MOST_LEADING} notes"
        fixed = self._fixed() if len(self._leading) <= _MOST_LEADING else self._end
        free = min(fixed, self._rows[0][0] if self._rows else fixed)
        self.most = max((free - self._end) // self._size, (fixed - self._end) // self._size - self._spare, 0)

    def _fixed(self) -> int:
        """Return the start of the first part that cannot move, and store it as the obstacle."""
        elf, start, end = self._elf, self._start, self._end
        fixed, self.obstacle = len(elf.view), "the end of the file"
        if elf.header.section_offset >= end:
            fixed, self.obstacle = elf.header.section_offset, "the section table"
        for segment in elf.segments:
            at, stop, kind = segment.offset, segment.end, segment.type
            if kind in (*_LEADING, layout.PROGRAM_HEADERS) or not segment.file_size or elf.is_by_address(segment):
                continue
            holds_table = kind == layout.LOAD and at <= start and end <= stop
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
        """Return the largest possible end of the table's segment: the next page that belongs to another part."""
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
        if not section.flags & layout.ALLOC or section.align & section.align - 1 or section.align > PAGE:
            return False
        found = self._dynamic.leading(section.address, section.size)
        if section.type == _SHT_NOTE:
            return not found
        if section.type in self._dynamic.TAGS:
            return found == [(section.address, self._dynamic.TAGS[section.type])]
        return not found and (section.offset, section.end) in self._interpreters

    def make(self, count: int, cuts: Sequence[ElfCut], align: int) -> tuple[MovedRange | None, list[ElfCut]]:
        """Return the move for ``count`` more program headers, None if nothing moves, and the cuts after it.

        Raises Whole if it is impossible.
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
        return CannotShrinkElf(f"{what} is after the program headers, where one more is needed, and cannot move")

    def _moved(
        self, indices: Sequence[int], start: int, end: int, cuts: Sequence[ElfCut], align: int
    ) -> tuple[MovedRange, list[ElfCut]]:
        elf = self._elf
        sections = [elf.section(index) for index in indices]
        address, unit = sections[0].address, 16
        for section in sections:
            if section.address - address != section.offset - start:
                raise CannotShrinkElf(f"{elf.title(section)} has another address than the part before it")
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
            raise CannotShrinkElf("the bytes after the program headers do not fit into the freed bytes")
        _, number, smaller, _ = best
        if has_relative_pointer_into(elf, address, address + end - start):
            raise self._blocked("something that a relocation leads to")
        position = smaller.kept - (end - start)
        shift = smaller.changed.section.address + position - smaller.changed.section.offset - address
        patches = self._dynamic.patches(address, address + end - start, shift)
        for symbol in symbols_on_sections(elf, frozenset(indices)):
            # __ehdr_start and similar symbols are assigned the first section, but are elsewhere.
            if not address <= symbol.value <= address + end - start:
                continue
            if symbol.info >> 4:
                raise self._blocked(f"{elf.title(elf.section(symbol.section))}, which a global symbol names,")
            elf.check_size(symbol.value + shift)
            patches[symbol.at] = move_symbol(elf, symbol, symbol.value + shift, symbol.size)
        changed = [smaller if place == number else cut for place, cut in enumerate(cuts)]
        return MovedRange(start, end, position, shift, frozenset(indices), patches), changed
