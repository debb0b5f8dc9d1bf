"""Symbols on containers that move or lose bytes, and on sections that make room for the program headers."""

from __future__ import annotations

import sys
from bisect import bisect_right

from fatpack.binary.elf import constants
from fatpack.binary.elf.table import read_table_blocks
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from fatpack.binary.elf.file import ElfSection
    from fatpack.binary.elf.shrinker.linked import ChangedElfSection, LinkedElfFile
    from fatpack.binary.shrink import ContainerMove


class ContainerSymbol(Record):
    """A symbol of a table: ``at`` is its position in the file, ``values`` its record, ``section`` where it lies."""

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
        """Whether other files can see it: defined for the loader, neither local nor hidden (gABI, "Symbol Table")."""
        return self.table.type == constants.DYNSYM and bool(self.info >> 4) and self.other & 3 not in (1, 2)


def symbols_on_sections(elf: LinkedElfFile, sections: Collection[int]) -> list[ContainerSymbol]:
    """Return the symbols that are defined in some sections. Raises FormatError for damaged tables."""
    found: list[ContainerSymbol] = []
    wide = {row[6]: index for index, row in enumerate(elf.section_rows) if row[1] == constants.SYMTAB_SHNDX}
    for index, row in enumerate(elf.section_rows):
        if row[1] in (constants.SYMTAB, constants.DYNSYM):
            words = elf.section(wide[index]) if index in wide else None
            found += _table_symbols(elf, elf.section(index), words, sections)
    return found


def _table_symbols(
    elf: LinkedElfFile, table: ElfSection, words: ElfSection | None, sections: Collection[int]
) -> Iterator[ContainerSymbol]:
    layout = elf.layouts.symbol
    value, size, info, other = (layout.position(name) for name in ("value", "size", "info", "other"))
    wanted = {index if index < constants.FIRST_RESERVED else constants.ESCAPED for index in sections}
    at, number = table.offset, 0
    for block in read_table_blocks(elf.view, at, table.size // layout.size, layout.size):
        for place, stored in _hits(elf, block, wanted):
            section = _wide(elf, words, number + place) if stored == constants.ESCAPED else stored
            if section in sections:
                row = layout.struct.unpack_from(block, place * layout.size)
                position = at + place * layout.size
                yield ContainerSymbol(table, position, row, section, row[value], row[size], row[info], row[other])
        at += len(block)
        number += len(block) // layout.size


#: Of more sections than these, symbols are looked at one by one.
_FEW = 16


def _hits(elf: LinkedElfFile, block: bytes, wanted: Collection[int]) -> list[tuple[int, int]]:
    """Return (place in the block, stored number of the section) of the symbols of some sections.

    Programs have a million symbols and a handful on device code: these are searched for, not come across.
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
    """Return the changed sections whose end a symbol names, as ``__stop_NAME`` of linkers does: index → title.

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
    """Return position → bytes for those of the changed sections' symbols that name something else now.

    ``reduced`` are the sections that end earlier now: symbols on what is gone name their end, and nothing. Raises
    HostError for a symbol that other files can see, on something that moves or goes.
    """
    sections = {each.section.index: each for each in changed}
    ordered = sorted(moves, key=lambda move: move.old)
    starts = [move.old for move in ordered]
    result = {}
    for symbol in symbols:
        change = sections[symbol.section]
        inside = symbol.value - change.section.address
        # Linkers give symbols of other places the section before or behind: __ehdr_start, _end.
        if symbol.info & 0xF == constants.SECTION_SYMBOL or not 0 <= inside <= change.section.size:
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
    """Return the address and size that a symbol has now; ``move`` is that of the container that it is in."""
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
