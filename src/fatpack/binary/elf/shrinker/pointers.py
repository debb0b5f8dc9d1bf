"""Pointers in linked files, set to other addresses: where each one is held.

A linker writes an address in place where it is final, and says in a relocation where the loader must add the base.
With addends (RELA) the address is the addend, and some linkers write it in place too; without (REL, RELR) it is in
place only. A relocation against a local symbol holds the distance from it. (gABI, "Relocation"; the types are those of
the processors' own documents.)
"""

from __future__ import annotations

import sys

from fatpack.binary.elf import constants
from fatpack.binary.elf.table import read_table_blocks
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from fatpack.binary.elf.file import ElfSection
    from fatpack.binary.elf.shrinker.linked import ChangedElfSection, LinkedElfFile
    from fatpack.binary.shrink import ContainerMove
    from fatpack.errors import HostError

_AGAIN = "link the program again without the device code that should go"

#: Types of dynamic relocations that are not read here, and hold addends.
_UNREAD = (constants.CREL, constants.ANDROID_RELA)


class _LoaderRelocation(Record):
    """A relocation at a pointer: ``at`` is its position in the file, ``symbol`` the number of its symbol."""

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
    """Return position → bytes for pointers that get other values. Raises HostError, FormatError.

    Relocations inside a changed section are refused too: what they change would be elsewhere now.
    """
    stretches = [
        (each.section.address, each.section.address + each.section.size)
        for each in changed
        if each.section.flags & constants.ALLOC
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
    """Return whether a relocation that adds the base leads to an address between two, the second excluded."""
    relative = constants.POINTER_RELOCATIONS.get(elf.header.machine, (-1,))[0]
    layout = elf.layouts.rela
    for table in _tables(elf, {}):
        if table.type == constants.RELA:
            for block in read_table_blocks(elf.view, table.offset, table.size // layout.size, layout.size):
                infos, addends = (_column(elf, block, layout.size, number) for number in (1, 2))
                for info, addend in zip(infos, addends, strict=True):
                    if low <= addend < high and info & elf.layouts.type_mask == relative:
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
    """Return what the loader adds to a relocation's addend, without the base of the file. Raises HostError."""
    relative, narrow, wide = constants.POINTER_RELOCATIONS.get(elf.header.machine, (-1, -1, -1))
    where = f"the relocation of the pointer at address {place:#x}, {elf.at(relocation.at)} in the file,"
    if relocation.type == relative or (relative < 0 and not relocation.symbol and relocation.addend is None):
        return 0
    if relocation.type != (wide if elf.layouts.word == 8 else narrow):
        raise elf.refusal(f"{where} has type {relocation.type}, whose result is not known", _AGAIN)
    return _local_value(elf, relocation, where, moved)


def _local_value(elf: LinkedElfFile, relocation: _LoaderRelocation, where: str, moved: Mapping[int, int]) -> int:
    """Return the value that a symbol has now, which no other file can replace. Raises HostError for others."""
    layout, link = elf.layouts.symbol, relocation.table.link
    table = elf.section(link) if 0 < link < elf.section_count else None
    at = relocation.symbol * layout.size
    if table is None or at + layout.size > table.stored_size:
        raise elf.bad(f"{where} names a symbol that is not there", relocation.at, "r_info")
    row = layout.named(elf.view, table.offset + at)
    if (row["info"] >> 4 and not row["other"] & 3) or not 0 < row["section_index"] < constants.FIRST_RESERVED:
        raise _visible(elf, where)
    value: int = row["value"]
    return value if row["info"] & 0xF == constants.SECTION_SYMBOL else moved.get(value, value)


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
        if each.section.flags & constants.ALLOC
    ]
    for table in _tables(elf, pointers):
        for relocation, place in _pointer_relocations(elf, table, pointers, stretches):
            if place in found:
                problem = f"two relocations change the pointer at address {place:#x}"
                raise elf.refusal(f"{problem}, at {elf.at(found[place].at)} and {elf.at(relocation.at)}", _AGAIN)
            found[place] = relocation
    return found


def _tables(elf: LinkedElfFile, pointers: Mapping[int, int]) -> Iterator[ElfSection]:
    """Yield the tables of dynamic relocations. Raises HostError where one cannot be read that may matter."""
    types, flags = elf.columns("type", "flags")
    for index, (type, flag) in enumerate(zip(types, flags, strict=True)):
        if flag & constants.ALLOC and type in (constants.REL, constants.RELA):
            yield elf.section(index)
        elif flag & constants.ALLOC and type in _UNREAD and pointers:
            title, kind = elf.title(elf.section(index)), constants.section_type_word(type)
            raise elf.refusal(f"{title} holds relocations as {kind}, which is not read", _AGAIN)


def _pointer_relocations(
    elf: LinkedElfFile, table: ElfSection, pointers: Mapping[int, int], stretches: Sequence[tuple[int, int, ElfSection]]
) -> Iterator[tuple[_LoaderRelocation, int]]:
    """Yield the relocations of a table that change one of the pointers, with their places.

    Programs have millions of relocations and a handful that matter: most blocks are passed by with two comparisons.
    """
    layout = elf.layouts.rela if table.type == constants.RELA else elf.layouts.rel
    low = min((*pointers, *(start for start, _, _ in stretches)), default=0)
    high = max((*pointers, *(end - 1 for _, end, _ in stretches)), default=-1)
    at = table.offset
    for block in read_table_blocks(elf.view, at, table.size // layout.size, layout.size):
        places = _column(elf, block, layout.size)
        if min(places) <= high and max(places) >= low:
            _check_outside(elf, table, places, stretches)
            for number, place in enumerate(places):
                if place in pointers:
                    row = layout.struct.unpack_from(block, number * layout.size)
                    symbol, type = row[1] >> elf.layouts.symbol_shift, row[1] & elf.layouts.type_mask
                    addend = row[2] if len(row) > 2 else None
                    yield _LoaderRelocation(at + number * layout.size, type, symbol, addend, table), place
        at += len(block)


def _column(elf: LinkedElfFile, block: bytes, size: int, number: int = 0) -> list[int]:
    """Return a word of each row in a block, by default the first."""
    from array import array

    words = array("Q" if elf.layouts.word == 8 else "I", block)
    if elf.layouts.order != sys.byteorder:
        words.byteswap()
    return words[number :: size // elf.layouts.word].tolist()


def _check_outside(
    elf: LinkedElfFile, table: ElfSection, places: Sequence[int], stretches: Sequence[tuple[int, int, ElfSection]]
) -> None:
    """Raise HostError if a place lies in a section that changes."""
    from bisect import bisect_left

    ordered = sorted(places)
    for start, end, section in stretches:
        number = bisect_left(ordered, start)
        if number < len(ordered) and ordered[number] < end:
            problem = f"{elf.title(table)} relocates {elf.title(section)}, at address {ordered[number]:#x}"
            raise elf.refusal(f"{problem}: its contents depend on where it is loaded", _AGAIN)
