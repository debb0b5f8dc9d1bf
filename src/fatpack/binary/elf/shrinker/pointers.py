"""Changing pointers and symbols in linked files.

A linker writes a final address in place, and marks in a relocation that the loader must add the base. With addends
(RELA) the address is the addend, and some linkers write it in place too; without (REL, RELR) it is only in place. A
relocation against a local symbol contains the distance from it. (gABI, "Relocation"; types from the processors' ABI
documents.)
"""

from __future__ import annotations

import sys
from bisect import bisect_right

from fatpack.binary.elf.layout import (
    ALLOC,
    ANDROID_RELA,
    CREL,
    DYNSYM,
    ESCAPED,
    FIRST_RESERVED,
    POINTER_RELOCATIONS,
    REL,
    RELA,
    SECTION_SYMBOL,
    SYMTAB,
    SYMTAB_SHNDX,
    section_type_word,
)
from fatpack.binary.elf.relocations import section_relocations
from fatpack.binary.elf.table import read_table_blocks
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from fatpack.binary.elf.file import ElfSection
    from fatpack.binary.elf.shrinker.shrink import ChangedElfSection, LinkedElfFile
    from fatpack.binary.shrink import ContainerMove
    from fatpack.errors import HostError


_AGAIN = "link the program again without the device code that should go"

#: Types of unsupported dynamic relocations with addends.
_UNREAD = (CREL, ANDROID_RELA)


class _LoaderRelocation(Record):
    """A relocation of a pointer: ``at`` is its position in the file, ``symbol`` the number of its symbol."""

    at: int
    type: int
    symbol: int
    addend: int | None
    table: ElfSection


def pointer_patches(
    elf: LinkedElfFile,
    changed: Sequence[ChangedElfSection],
    moves: Sequence[ContainerMove],
    pointers: Mapping[int, int],
) -> dict[int, bytes]:
    """Return position → bytes for pointers with new values. Raises HostError, FormatError.

    Relocations inside a changed section are refused too, because the words that they change move.
    """
    stretches = [
        (each.section.address, each.section.address + each.section.size)
        for each in changed
        if each.section.flags & ALLOC
    ]
    _check_places(elf, stretches, pointers)
    found = _relocations(elf, changed, pointers)
    moved = {move.old: move.new for move in moves}
    word, order, result = elf.layouts.word, elf.layouts.order, dict[int, bytes]()
    for place, value in pointers.items():
        position = elf.position_of(place, word)
        stored = int.from_bytes(elf.view.read(position, word), order)
        relocation = found.get(place)
        if relocation is not None and relocation.addend is not None:
            addend = value - _base(elf, relocation, place, moved)
            result[relocation.at] = _with_addend(elf, relocation, addend)
            if not stored:
                continue
        elif relocation is not None:
            _base(elf, relocation, place, moved)
        if not stored:
            raise elf.refusal(
                f"there is no pointer at address {place:#x}, {elf.at(position)} in the file: its bytes are zero and no "
                "relocation sets them",
                _AGAIN,
            )
        result[position] = value.to_bytes(word, order)
    return result


def has_relative_pointer_into(elf: LinkedElfFile, low: int, high: int) -> bool:
    """Return whether the target of a base-relative relocation is between two addresses, the second excluded."""
    relative = POINTER_RELOCATIONS.get(elf.header.machine, (-1,))[0]
    for table in _tables(elf, {}):
        for block in section_relocations(elf, table):
            for number, target in enumerate(block.targets or ()):
                if low <= target < high and block.types[number] == relative:
                    return True
    return False


def _check_places(elf: LinkedElfFile, stretches: Sequence[tuple[int, int]], pointers: Mapping[int, int]) -> None:
    from bisect import bisect_right

    word, ordered = elf.layouts.word, sorted(stretches)
    starts = [start for start, _ in ordered]
    for place, value in pointers.items():
        if elf.position_of(place, word) < 0:
            raise elf.refusal(f"the file holds no bytes of a pointer at address {place:#x}", _AGAIN)
        number = bisect_right(starts, place + word - 1) - 1
        if number >= 0 and place < ordered[number][1]:
            raise elf.refusal(f"the pointer at address {place:#x} lies in the device code that changes", _AGAIN)
        elf.check_size(value)


def _base(elf: LinkedElfFile, relocation: _LoaderRelocation, place: int, moved: Mapping[int, int]) -> int:
    """Return the value that the loader adds to a relocation's addend, without the base. Raises HostError."""
    relative, narrow, wide = POINTER_RELOCATIONS.get(elf.header.machine, (-1, -1, -1))
    where = f"the relocation of the pointer at address {place:#x}, {elf.at(relocation.at)} in the file,"
    if relocation.type == relative or (relative < 0 and not relocation.symbol and relocation.addend is None):
        return 0
    if relocation.type != (wide if elf.layouts.word == 8 else narrow):
        raise elf.refusal(f"{where} has type {relocation.type}, whose result is not known", _AGAIN)
    return _local_value(elf, relocation, where, moved)


def _local_value(elf: LinkedElfFile, relocation: _LoaderRelocation, where: str, moved: Mapping[int, int]) -> int:
    """Return the value of a symbol that no other file can replace. Raises HostError for others."""
    layout, link = elf.layouts.symbol, relocation.table.link
    table = elf.section(link) if 0 < link < elf.section_count else None
    at = relocation.symbol * layout.size
    if table is None or at + layout.size > table.stored_size:
        raise elf.error(f"{where} names a symbol that is not there", relocation.at, "r_info")
    row = layout.named(elf.view, table.offset + at)
    if (row["info"] >> 4 and not row["other"] & 3) or not 0 < row["section_index"] < FIRST_RESERVED:
        raise _visible(elf, where)
    value: int = row["value"]
    return value if row["info"] & 0xF == SECTION_SYMBOL else moved.get(value, value)


def _visible(elf: LinkedElfFile, where: str) -> HostError:
    return elf.refusal(
        f"{where} goes through a symbol that another file may define",
        "leave the container that it leads to where it is, or link with -Bsymbolic",
    )


def _with_addend(elf: LinkedElfFile, relocation: _LoaderRelocation, addend: int) -> bytes:
    layout = elf.layouts.rela
    offset, info, _ = layout.read(elf.view, relocation.at)
    bits = elf.layouts.bits
    return layout.pack(offset, info, (addend + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1))


def _relocations(
    elf: LinkedElfFile, changed: Sequence[ChangedElfSection], pointers: Mapping[int, int]
) -> dict[int, _LoaderRelocation]:
    """Return the relocations of the pointers by their places. Raises HostError for those in changed sections."""
    found: dict[int, _LoaderRelocation] = {}
    stretches = [
        (each.section.address, each.section.address + each.section.size, each.section)
        for each in changed
        if each.section.flags & ALLOC
    ]
    for table in _tables(elf, pointers):
        for relocation, place in _pointer_relocations(elf, table, pointers, stretches):
            if place in found:
                problem = f"two relocations change the pointer at address {place:#x}"
                raise elf.refusal(f"{problem}, at {elf.at(found[place].at)} and {elf.at(relocation.at)}", _AGAIN)
            found[place] = relocation
    return found


def _tables(elf: LinkedElfFile, pointers: Mapping[int, int]) -> Iterator[ElfSection]:
    """Yield the tables of dynamic relocations. Raises HostError if an unsupported one may be relevant."""
    types, flags = elf.columns("type", "flags")
    for index, (type, flag) in enumerate(zip(types, flags, strict=True)):
        if flag & ALLOC and type in (REL, RELA):
            yield elf.section(index)
        elif flag & ALLOC and type in _UNREAD and pointers:
            title, kind = elf.title(elf.section(index)), section_type_word(type)
            raise elf.refusal(f"{title} holds relocations as {kind}, which is not read", _AGAIN)


def _pointer_relocations(
    elf: LinkedElfFile, table: ElfSection, pointers: Mapping[int, int], stretches: Sequence[tuple[int, int, ElfSection]]
) -> Iterator[tuple[_LoaderRelocation, int]]:
    """Yield the relocations of a table that change one of the pointers, with their places.

    Most blocks are skipped with two comparisons.
    """
    low = min((*pointers, *(start for start, _, _ in stretches)), default=0)
    high = max((*pointers, *(end - 1 for _, end, _ in stretches)), default=-1)
    for block in section_relocations(elf, table):
        if block.overlaps(low, high):
            _check_outside(elf, table, block.places, stretches)
            for number, place in enumerate(block.places):
                if place in pointers:
                    _, type, symbol, addend = block.row(number)
                    yield _LoaderRelocation(block.at + number * block.size, type, symbol, addend, table), place


def _check_outside(
    elf: LinkedElfFile, table: ElfSection, places: Sequence[int], stretches: Sequence[tuple[int, int, ElfSection]]
) -> None:
    """Raise HostError if a place is in a section that changes."""
    from bisect import bisect_left

    ordered = sorted(places)
    for start, end, section in stretches:
        number = bisect_left(ordered, start)
        if number < len(ordered) and ordered[number] < end:
            problem = f"{elf.title(table)} relocates {elf.title(section)}, at address {ordered[number]:#x}"
            raise elf.refusal(f"{problem}: its contents depend on where it is loaded", _AGAIN)


def check_not_relocated(elf: LinkedElfFile, ranges: Sequence[tuple[int, int]]) -> None:
    """Raise HostError if the loader changes a word in one of some ranges: address and size of each."""
    if not ranges:
        return
    ordered = sorted((start, start + size) for start, size in ranges)
    for table in _tables(elf, {}):
        for block in section_relocations(elf, table):
            if not block.overlaps(ordered[0][0], ordered[-1][1] - 1):
                continue
            for place in block.places:
                number = bisect_right(ordered, (place, elf.layouts.largest)) - 1
                if number >= 0 and place < ordered[number][1]:
                    problem = f"{elf.title(table)} relocates device code at address {place:#x}"
                    raise elf.refusal(f"{problem}: its contents depend on where it is loaded", _AGAIN)


# Symbols of containers that move or lose bytes, and of sections that move to free space for program headers


class ContainerSymbol(Record):
    """A symbol of a table: ``at`` is its position in the file, ``values`` its record, ``section`` its section."""

    table: ElfSection
    at: int
    values: tuple[int, ...]
    section: int
    value: int
    size: int
    info: int
    other: int

    @property
    def is_visible(self) -> bool:
        """True if other files can see it: defined for the loader, neither local nor hidden (gABI, "Symbol Table")."""
        return self.table.type == DYNSYM and bool(self.info >> 4) and self.other & 3 not in (1, 2)


def symbols_on_sections(elf: LinkedElfFile, sections: Collection[int]) -> list[ContainerSymbol]:
    """Return the symbols that are defined in some sections. Raises FormatError for damaged tables."""
    found: list[ContainerSymbol] = []
    wide = {row[6]: index for index, row in enumerate(elf.section_rows) if row[1] == SYMTAB_SHNDX}
    for index, row in enumerate(elf.section_rows):
        if row[1] in (SYMTAB, DYNSYM):
            words = elf.section(wide[index]) if index in wide else None
            found += _table_symbols(elf, elf.section(index), words, sections)
    return found


def _table_symbols(
    elf: LinkedElfFile, table: ElfSection, words: ElfSection | None, sections: Collection[int]
) -> Iterator[ContainerSymbol]:
    layout = elf.layouts.symbol
    value, size, info, other = (layout.position(name) for name in ("value", "size", "info", "other"))
    wanted = {index if index < FIRST_RESERVED else ESCAPED for index in sections}
    at, number = table.offset, 0
    for block in read_table_blocks(elf.view, at, table.size // layout.size, layout.size):
        for place, stored in _hits(elf, block, wanted):
            section = _wide(elf, words, number + place) if stored == ESCAPED else stored
            if section in sections:
                row = layout.struct.unpack_from(block, place * layout.size)
                position = at + place * layout.size
                yield ContainerSymbol(table, position, row, section, row[value], row[size], row[info], row[other])
        at += len(block)
        number += len(block) // layout.size


#: With more sections than this, every symbol is examined.
_FEW = 16


def _hits(elf: LinkedElfFile, block: bytes, wanted: Collection[int]) -> list[tuple[int, int]]:
    """Return (index in the block, stored section number) of the symbols of some sections.

    Programs have a million symbols and a handful on device code, so the section numbers are searched in bulk.
    """
    layout, order = elf.layouts.symbol, elf.layouts.order
    column = memoryview(block).cast("H")[layout.field_offset("section_index") // 2 :: layout.size // 2].tobytes()
    if len(wanted) > _FEW:
        found = memoryview(column).cast("H").tolist()
        swapped = found if order == sys.byteorder else [(each & 0xFF) << 8 | each >> 8 for each in found]
        return [(place, stored) for place, stored in enumerate(swapped) if stored in wanted]
    hits = []
    for stored in wanted:
        key = stored.to_bytes(2, order)
        at = column.find(key)
        while at >= 0:
            if not at % 2:
                hits.append((at // 2, stored))
            at = column.find(key, at + 1)
    return sorted(hits)


def _wide(elf: LinkedElfFile, words: ElfSection | None, number: int) -> int:
    index = elf.layouts.index
    if words is None or (number + 1) * index.size > words.stored_size:
        return 0
    (section,) = index.read(elf.view, words.offset + number * index.size)
    return int(section)


def sections_with_end_symbol(
    elf: LinkedElfFile, changed: Sequence[ChangedElfSection], symbols: Sequence[ContainerSymbol]
) -> dict[int, str]:
    """Return the changed sections with a symbol at their end, such as linkers' ``__stop_NAME``: index → title.

    ``symbols`` are those of the changed sections.
    """
    sections = {each.section.index: each.section for each in changed}
    found = {}
    for symbol in symbols:
        section = sections[symbol.section]
        if symbol.value == section.address + section.size and section.size and not symbol.size:
            found[symbol.section] = _name(elf, symbol)
    return found


def symbol_patches(
    elf: LinkedElfFile,
    changed: Sequence[ChangedElfSection],
    symbols: Sequence[ContainerSymbol],
    moves: Sequence[ContainerMove],
    reduced: Collection[int],
) -> dict[int, bytes]:
    """Return position → bytes for symbols of the changed sections that need another value.

    ``reduced`` are the sections that end earlier: symbols on removed bytes move to their end, with size 0. Raises
    HostError for a symbol that other files can see, on something that moves or is removed.
    """
    sections = {each.section.index: each for each in changed}
    ordered = sorted(moves, key=lambda move: move.old)
    starts = [move.old for move in ordered]
    result = {}
    for symbol in symbols:
        change = sections[symbol.section]
        inside = symbol.value - change.section.address
        # Linkers assign other symbols the section before or after them: __ehdr_start, _end.
        if symbol.info & 0xF == SECTION_SYMBOL or not 0 <= inside <= change.section.size:
            continue
        number = bisect_right(starts, symbol.value) - 1
        move = ordered[number] if number >= 0 else None
        value, size = _placed(symbol, move, change, symbol.section in reduced)
        if value != symbol.value and symbol.is_visible:
            raise elf.refusal(
                f"{_name(elf, symbol)} at address {symbol.value:#x}, in {elf.title(change.section)}, would move, and "
                "other files can see it",
                "leave that container at its address, or link the program with the symbol hidden",
            )
        if (value, size) != (symbol.value, symbol.size):
            elf.check_size(value)
            result[symbol.at] = move_symbol(elf, symbol, value, size)
    return result


def _placed(
    symbol: ContainerSymbol, move: ContainerMove | None, change: ChangedElfSection, is_reduced: bool
) -> tuple[int, int]:
    """Return the new address and size of a symbol; ``move`` is that of its container."""
    if move is not None and symbol.value == move.old:
        return move.new, move.new_size if symbol.size == move.old_size else min(symbol.size, move.new_size)
    if move is not None and symbol.value < move.old + move.old_size and (move.new != move.old or is_reduced):
        inside = min(symbol.value - move.old, move.new_size)
        return move.new + inside, min(symbol.size, move.new_size - inside)
    end = change.section.address + change.size
    if not is_reduced:
        return symbol.value, symbol.size
    if symbol.value >= end:
        return end, 0
    return symbol.value, min(symbol.size, end - symbol.value)


def move_symbol(elf: LinkedElfFile, symbol: ContainerSymbol, value: int, size: int) -> bytes:
    """Return a symbol's record with another address and size."""
    layout, values = elf.layouts.symbol, list(symbol.values)
    values[layout.position("value")], values[layout.position("size")] = value, size
    return layout.pack(*values)


def _name(elf: LinkedElfFile, symbol: ContainerSymbol) -> str:
    link = symbol.table.link
    if not 0 < link < elf.section_count:
        return "a symbol"
    name = elf.string(elf.contents(elf.section(link)), symbol.values[elf.layouts.symbol.position("name_offset")])
    return f"symbol {name}" if name else "a symbol"
