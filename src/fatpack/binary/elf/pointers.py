"""Pointers in ELF files: through the relocations of objects, and the addresses of programs.

A linker writes a final address in place. In a library or a position-independent program it is a RELATIVE relocation
with the address: ld.lld then leaves zeros in place, GNU ld writes the address there too, and with ``.relr.dyn`` it is
only in place. So the value in place is used unless it is zero. Android's packed tables (``.rela.dyn`` of
``ld.lld --pack-dyn-relocs=android``) are unpacked. A pointer to a symbol that another file may replace is a
relocation against that symbol. (gABI, "Relocation"; the processors' ABI documents for the types.)
"""

from __future__ import annotations

from fatpack.binary.elf.file import ElfFile
from fatpack.binary.elf.layout import (
    ALLOC,
    ANDROID_REL,
    ANDROID_RELA,
    CREL,
    ESCAPED,
    NOBITS,
    NULL,
    POINTER_RELOCATIONS,
    REL,
    RELA,
    RELR,
)
from fatpack.binary.elf.relocations import (
    MAX_RELOCATIONS,
    relative_places,
    relocation_shape,
    section_relocations,
    unpacked_relocations,
)
from fatpack.binary.pointers import (
    INSIDE,
    NULL_POINTER,
    OUTSIDE,
    UNDEFINED,
    UNKNOWN_POINTER,
    LoadedRanges,
    Pointer,
    PointerSearch,
    max_pointers,
    too_many_pointers,
    words_at,
    words_between,
)
from fatpack.errors import FormatError
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from fatpack.binary import CodeSection
    from fatpack.binary.elf.file import ElfSection
    from fatpack.binary.elf.relocations import RelocationBlock
    from fatpack.io.source import View

#: e_type of files that can be loaded anywhere
_DYN = 3

_UNDEFINED = 0

#: Types of tables whose relocations add to the word in place, and of unsupported tables.
_IN_PLACE = (REL, RELR)
_UNREAD = (CREL, ANDROID_REL)

#: Types of tables that state the target.
_STATED = (RELA, ANDROID_RELA)

#: SHF_EXECINSTR
_CODE = 0x4


class _PointerRelocation(Record):
    """A relocation of a pointer: its type, symbol number, and addend (None: it is in place)."""

    type: int
    symbol: int
    addend: int | None
    symbols: int


class ElfPointers:
    """A reader of pointers in an ELF file. Raises FormatError for a damaged header.

    If the section table is missing or damaged, the program headers are used.
    """

    def __init__(self, view: View) -> None:
        self.view = view
        try:
            self._elf = ElfFile(view)
        except FormatError:
            self._elf = ElfFile(view, sections=False)
        self.word = self._elf.layouts.word
        self.order = self._elf.layouts.order
        relative, narrow, wide = POINTER_RELOCATIONS.get(self._elf.header.machine, (-1, -1, -1))
        self._relative, self._absolute = relative, wide if self.word == 8 else narrow
        self._loaded: LoadedRanges | None = None
        #: the relocations of packed tables by section, None for a damaged one; and how many may still be unpacked
        self._unpacked: dict[int, RelocationBlock | None] = {}
        self._relocation_budget = min(MAX_RELOCATIONS, len(view) // self.word)
        self.is_linked = self._elf.is_linked

    def pointers(self, table: CodeSection, offsets: Sequence[int]) -> list[Pointer]:
        """Return the targets of the pointers at some offsets of a table, which the caller has checked."""
        section = self._elf.section(table.number)
        stored = [self._word(table.data.read(offset, self.word)) for offset in offsets]
        if not self._elf.is_linked:
            found = self._relocations(table.number, set(offsets))
            return [
                self._in_object(found[offset], value)
                if offset in found
                else (UNKNOWN_POINTER if value else NULL_POINTER)
                for offset, value in zip(offsets, stored, strict=True)
            ]
        return self._program_pointers([section.address + offset for offset in offsets], stored)

    def values_at(self, places: Sequence[int]) -> list[Pointer]:
        """Return the targets of the pointers at some addresses of a program."""
        found = [self.at(place) for place in places]
        stored = [
            self._word(self.view.read(place.position, self.word)) if place.room >= self.word else 0 for place in found
        ]
        return self._program_pointers(places, stored)

    def _program_pointers(self, places: Sequence[int], stored: Sequence[int]) -> list[Pointer]:
        empty = {place for place, value in zip(places, stored, strict=True) if not value}
        found = self._relocations(None, empty) if empty else {}
        # Words that unread relocations change may point anywhere.
        nothing = UNKNOWN_POINTER if empty and self._has_unread_relocations() else NULL_POINTER
        return [
            self._in_program(found[place], value) if place in found else self.at(value) if value else nothing
            for place, value in zip(places, stored, strict=True)
        ]

    def address(self, section: int) -> int:
        """Return the address of a section."""
        return self._elf.section(section).address

    def values_in(self, low: int, high: int, *, everywhere: bool = False) -> PointerSearch:
        """Return address → value of the pointers in a program's data whose value lies between two, both included.

        Sections that start between the two are targets of pointers, and searched only if ``everywhere`` is true.
        In a position-independent program whose relocations all contain their targets, no other word is a pointer, so
        its data is not read.
        """
        data = (
            (section.address, self.view.slice(section.offset, section.size))
            for section in self._elf.sections()
            if section.flags & ALLOC
            and not section.flags & _CODE
            and section.stored_size
            and section.end <= len(self.view)
            and (everywhere or not low <= section.address <= high)
        )
        found = PointerSearch({}, is_exact=True)
        if self._elf.header.type != _DYN or not self._has_relocations():
            found = words_between(data, self.word, self.order, low, high)
        elif self._has_pointers_in_place():
            found = words_at(self, self._in_place(), low, high)
        left = max_pointers()
        for section in self._relocation_sections(None):
            if section.type not in _STATED:
                continue
            for place, addend in self._stated(section, low, high):
                if not left:
                    return too_many_pointers(found.values)
                found.values[place] = addend
                left -= 1
        return found

    def _kinds(self) -> set[int]:
        """Return the types of the loaded sections."""
        types, flags = self._elf.columns("type", "flags")
        return {type for type, flag in zip(types, flags, strict=True) if flag & ALLOC}

    def _has_relocations(self) -> bool:
        """Return whether the program has no other relocation tables than the supported ones."""
        return (
            self._relative >= 0 and not self._has_unread_relocations() and bool(self._kinds() & {*_STATED, *_IN_PLACE})
        )

    def _has_unread_relocations(self) -> bool:
        """Return whether a loaded table of relocations is in an unsupported encoding, or packed and damaged."""
        kinds = self._kinds()
        if not kinds.isdisjoint(_UNREAD):
            return True
        return ANDROID_RELA in kinds and any(
            self._packed(section) is None
            for section in self._elf.sections()
            if section.type == ANDROID_RELA and section.flags & ALLOC
        )

    def _packed(self, section: ElfSection) -> RelocationBlock | None:
        """Return the relocations of a packed table, None if it is damaged or has too many."""
        if section.index not in self._unpacked:
            try:
                block = unpacked_relocations(
                    self._elf.contents(section), relocation_shape(self._elf), self._relocation_budget
                )
            except FormatError:
                self._unpacked[section.index] = None
            else:
                self._relocation_budget -= len(block.places)
                self._unpacked[section.index] = block
        return self._unpacked[section.index]

    def _has_pointers_in_place(self) -> bool:
        """Return whether relocations use the value in place as target, as REL and RELR do."""
        return bool(self._kinds() & {*_IN_PLACE})

    def _in_place(self) -> Iterator[int]:
        """Yield the addresses of words that are relocated in place, by REL and RELR."""
        for section in self._relocation_sections(None):
            if section.type == REL:
                for block in section_relocations(self._elf, section):
                    yield from block.places
        for section in self._elf.sections():
            if section.type == RELR and section.flags & ALLOC and section.end <= len(self.view):
                yield from relative_places(self._elf, section)

    def _stated(self, section: ElfSection, low: int, high: int) -> Iterator[tuple[int, int]]:
        """Yield place and addend of the relative relocations whose target is between two addresses, both included."""
        for block in self._blocks(section):
            targets = block.targets
            if targets is None or min(targets) > high or max(targets) < low:
                continue
            for number, target in enumerate(targets):
                if low <= target <= high and block.types[number] == self._relative:
                    yield block.places[number], target

    def _blocks(self, section: ElfSection) -> Iterable[RelocationBlock]:
        """Return the relocations of a table in blocks; none of a damaged packed one."""
        if section.type != ANDROID_RELA:
            return section_relocations(self._elf, section)
        block = self._packed(section)
        return [block] if block is not None and block.places else []

    def _word(self, data: bytes) -> int:
        return int.from_bytes(data, self.order)

    def at(self, address: int) -> Pointer:
        """Return the target of an address of a program."""
        return self._ranges().at(address) if address else NULL_POINTER

    def address_of(self, position: int) -> int:
        """Return the address of a position in the view, 0 if it is not loaded."""
        rows = self._ranges().rows
        return next((start + position - at for start, size, at, _ in rows if at <= position < at + size), 0)

    def _ranges(self) -> LoadedRanges:
        if self._loaded is None:
            elf = self._elf
            if not elf.section_count:
                self._loaded = LoadedRanges(self._segment_rows(), len(self.view))
                return self._loaded
            columns = elf.columns("address", "size", "offset", "type", "flags")
            rows = [
                (address, size, offset, index)
                for index, (address, size, offset, type, flags) in enumerate(zip(*columns, strict=True))
                if flags & ALLOC and type not in (NOBITS, NULL)
            ]
            self._loaded = LoadedRanges(rows, len(self.view))
        return self._loaded

    def _segment_rows(self) -> list[tuple[int, int, int, int]]:
        from fatpack.binary.elf import segments

        try:
            found = segments.loaded_segments(self._elf)
        except FormatError:
            return []  # locate() reports it
        return [(each.address, each.size, each.offset, each.number) for each in found]

    def _in_program(self, relocation: _PointerRelocation, stored: int) -> Pointer:
        addend = stored if relocation.addend is None else relocation.addend
        if relocation.type == self._relative:
            return self.at(addend & self._elf.layouts.largest)
        if relocation.type != self._absolute:
            return UNKNOWN_POINTER
        symbol = self._symbol(relocation)
        if symbol is None:
            return UNKNOWN_POINTER
        name, section, value = symbol
        if section == _UNDEFINED:
            return Pointer(UNDEFINED, symbol=name)
        return self.at(value + addend & self._elf.layouts.largest)

    def _in_object(self, relocation: _PointerRelocation, stored: int) -> Pointer:
        symbol = self._symbol(relocation) if relocation.type == self._absolute else None
        if symbol is None:
            return UNKNOWN_POINTER
        name, index, value = symbol
        if index == _UNDEFINED:
            return Pointer(UNDEFINED, symbol=name)
        if index >= self._elf.section_count:
            return UNKNOWN_POINTER
        section = self._elf.section(index)
        at = value + (stored if relocation.addend is None else relocation.addend) & self._elf.layouts.largest
        if at >= section.stored_size or section.end > len(self.view):
            return Pointer(OUTSIDE, at, section=index)
        return Pointer(INSIDE, at, section.offset + at, section.size - at, index)

    def _symbol(self, relocation: _PointerRelocation) -> tuple[str, int, int] | None:
        """Return name, section and value of a symbol; None if they are not known."""
        elf, layout = self._elf, self._elf.layouts.symbol
        if not 0 < relocation.symbols < elf.section_count:
            return None
        try:
            table = elf.section(relocation.symbols)
            row = layout.named(elf.contents(table), relocation.symbol * layout.size)
            index = row["section_index"]
            if index == ESCAPED:
                return None
            name = ""
            if index == _UNDEFINED and 0 < table.link < elf.section_count:
                name = elf.string(elf.contents(elf.section(table.link)), row["name_offset"])
            return name, index, row["value"]
        except FormatError:
            return None

    def _relocations(self, target: int | None, places: Collection[int]) -> dict[int, _PointerRelocation]:
        """Return place → relocation for some places: offsets in the ``target`` section, or addresses of a program."""
        found: dict[int, _PointerRelocation] = {}
        low, high = min(places, default=0), max(places, default=-1)
        for section in self._relocation_sections(target):
            for place, type, symbol, addend in self._rows(section, low, high):
                if place in places and type:  # 0 is no relocation
                    found[place] = _PointerRelocation(type, symbol, addend, section.link)
        return found

    def _relocation_sections(self, target: int | None) -> Iterator[ElfSection]:
        if not self._elf.section_count:
            from fatpack.binary.elf import segments

            yield from segments.relocation_tables(self._elf)
            return
        # Only hostile files have more relocations than bytes: thousands of sections over the same ones.
        left = len(self.view)
        types, infos, flags = self._elf.columns("type", "info", "flags")
        for index, (type, info, flag) in enumerate(zip(types, infos, flags, strict=True)):
            if type in (REL, *_STATED):
                is_wanted = info == target if target is not None else flag & ALLOC
                section = self._elf.section(index)
                if is_wanted and section.end <= len(self.view) and section.size <= left:
                    left -= section.size
                    yield section

    def _rows(self, section: ElfSection, low: int, high: int) -> Iterator[tuple[int, int, int, int | None]]:
        """Yield place, type, symbol and addend of the relocations whose places are between two.

        Blocks without any are skipped with two comparisons.
        """
        for block in self._blocks(section):
            if block.overlaps(low, high):
                for number, place in enumerate(block.places):
                    if low <= place <= high:
                        yield block.row(number)
