"""The header and the program header table of an edited ELF file, and the tables that were moved to make room for them.

An edit that removes device code may split a PT_LOAD, and so needs more program headers. The table grows in place;
notes, the interpreter's name and hash tables after it get another address then.
"""

from __future__ import annotations

from fatpack.proof.elf.tables import table_size
from fatpack.proof.ledger import compare_views, merge_ranges
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from fatpack.proof.elf.reader import ProofElfFile, ProofElfSegment
    from fatpack.proof.ledger import DifferenceLog, Range

#: Segments to which only their program header leads.
_MOVABLE = ("PT_INTERP", "PT_NOTE", "PT_GNU_PROPERTY")
#: Tables to which only the dynamic section leads.
_TABLES = ("DT_HASH", "DT_GNU_HASH", "DT_SYMTAB", "DT_STRTAB", "DT_VERSYM", "DT_VERNEED", "DT_VERDEF")

#: The largest size of a page (AArch64, PowerPC), regardless of a segment's alignment.
_LARGEST_PAGE = 0x10000


#: LIMIT: tables that are moved. A file has a dozen that could be.
_MAX_MOVED = 256


class MovedTable(Record):
    """A table at a new address: old and new address, and its size in bytes."""

    old: int
    new: int
    size: int


class HeaderComparison(Record):
    """The bytes that may differ by the header's rules.

    ``header`` are the file header and the table, ``vacated`` the old places of moved tables; ``words`` are values in
    the dynamic section that lead to moved tables.
    """

    header: Sequence[Range]
    vacated: Sequence[Range]
    words: Sequence[Range]
    moved: Sequence[MovedTable]


def compare_headers(before: ProofElfFile, after: ProofElfFile, ledger: DifferenceLog) -> HeaderComparison:
    """Compare file header, program headers and dynamic sections of two files."""
    _compare_file_header(before, after, ledger)
    _compare_loads(before, after, ledger)
    moved = _compare_other_headers(before, after, ledger)
    tables, words = _compare_dynamic(before, after, ledger)
    moved += tables
    if len(moved) > _MAX_MOVED:
        ledger.differ("things moved out of the table's way", expected=f"at most {_MAX_MOVED}", found=len(moved))
        moved = []
    table = _header_ranges(after)
    for each in moved:
        _compare_moved(before, after, each, ledger)
    vacated = [(each.old, each.old + each.size) for each in moved]
    return HeaderComparison(merge_ranges(table), merge_ranges(vacated), merge_ranges(words), moved)


def _header_ranges(elf: ProofElfFile) -> list[Range]:
    """Return the addresses of header and table, if they are loaded."""
    start, size = elf.header["e_phoff"], len(elf.segments) * elf.segment_size
    found = []
    for each in elf.memory.loaded_ranges:
        for low, high in ((0, elf.header_size), (start, start + size)):
            stop = each.at + each.filled - each.start
            if each.at <= low and high <= stop:
                found.append((low - each.at + each.start, high - each.at + each.start))
    return found


def _compare_file_header(before: ProofElfFile, after: ProofElfFile, ledger: DifferenceLog) -> None:
    """Compare the file headers: only the offset of the section table and the number of program headers may differ."""
    wide = before.memory.word == 8
    old_header, new_header = (bytearray(elf.view.head(0, elf.header_size)) for elf in (before, after))
    for at, size in ((40, 8), (56, 2)) if wide else ((32, 4), (44, 2)):
        old_header[at : at + size] = new_header[at : at + size] = bytes(size)
    ledger.same("file header", old_header.hex(), new_header.hex(), offset=0)
    # For 65,535 headers or more their number is in the first section header: loaders read no such file.
    count = len(after.segments)
    if after.header["e_phnum"] not in (before.header["e_phnum"], count):
        ledger.differ("number of program headers", offset=0, expected=count, found=after.header["e_phnum"])
    if not before.sections:
        ledger.same("place of the section table", 0, after.header["e_shoff"], offset=0)


def _compare_loads(before: ProofElfFile, after: ProofElfFile, ledger: DifferenceLog) -> None:
    """Check that each loaded segment is a part of a former one, in order and at an offset that can be mapped."""
    old_loads = [each for each in before.segments if each.type == "PT_LOAD"]
    number = 0
    last: ProofElfSegment | None = None
    for each in after.segments:
        if each.type != "PT_LOAD":
            continue
        while number < len(old_loads) and old_loads[number].end <= each.vaddr and old_loads[number] != each:
            number += 1
        old_load = old_loads[number] if number < len(old_loads) else None
        following = old_loads[number + 1 : number + 2]
        if old_load is None or each.vaddr < old_load.vaddr or each.end > _table_end(after, each, old_load, following):
            ledger.differ("loaded segment", address=each.vaddr, expected="a part of one that there was")
            continue
        for name in ("flags", "align"):
            ledger.same(f"{name} of a loaded segment", getattr(old_load, name), getattr(each, name), address=each.vaddr)
        ledger.same("physical address", _physical(before, old_load, each), each.paddr, address=each.vaddr)
        zeros = old_load.memsz - old_load.filesz if each.end == old_load.end else 0
        ledger.same("zeros after a segment", zeros, each.memsz - each.filesz, address=each.vaddr)
        if each.align > 1 and (each.vaddr - each.offset) % each.align:
            ledger.differ("place of a segment in the file", address=each.vaddr, found=each.offset)
        page = max(1, min(each.align, _LARGEST_PAGE))
        if last is not None and each != old_load and each.vaddr // page < -(-last.end // page):
            ledger.differ("loaded segments share a page", address=each.vaddr, expected=f"after {last.end:#x}")
        last = each


def _physical(elf: ProofElfFile, old: ProofElfSegment, new: ProofElfSegment) -> int:
    """Return the physical address for an address of a segment; it wraps around at the size of a word."""
    return (old.paddr + new.vaddr - old.vaddr) % (1 << 8 * elf.memory.word)


def _table_end(
    after: ProofElfFile, new: ProofElfSegment, old: ProofElfSegment, following: Sequence[ProofElfSegment]
) -> int:
    """Return the highest end of a segment: its old end, or that of the program headers, if the pages are free."""
    table = after.header["e_phoff"]
    end = table + len(after.segments) * after.segment_size - new.offset + new.vaddr
    page = max(1, min(old.align, _LARGEST_PAGE))
    is_free = old.memsz == old.filesz and following and end <= following[0].vaddr // page * page
    return max(old.end, end) if new.offset <= table < old.offset + old.filesz and is_free else old.end


def _compare_other_headers(before: ProofElfFile, after: ProofElfFile, ledger: DifferenceLog) -> list[MovedTable]:
    """Compare the other program headers one by one; return the moved tables."""
    old_headers, new_headers = ([each for each in elf.segments if each.type != "PT_LOAD"] for elf in (before, after))
    if not ledger.same("program headers but PT_LOAD", [e.type for e in old_headers], [e.type for e in new_headers]):
        return []
    loads = [[each.type == "PT_LOAD" for each in elf.segments] for elf in (before, after)]
    ledger.same("program headers in front of the first PT_LOAD", _first(loads[0]), _first(loads[1]))
    moved = []
    for old, new in zip(old_headers, new_headers, strict=True):
        expected = old.replace(offset=new.offset)
        if old.type == "PT_PHDR" and len(after.segments) != len(before.segments):
            size = len(after.segments) * after.segment_size
            expected = expected.replace(filesz=size, memsz=size)
        elif old.type in _MOVABLE and old.vaddr != new.vaddr and old.filesz == new.filesz:
            expected = expected.replace(vaddr=new.vaddr, paddr=_physical(before, old, new))
            moved.append(MovedTable(old.vaddr, new.vaddr, old.filesz))
        ledger.same(f"program header {old.type}", expected, new, address=new.vaddr)
        _compare_place(before, after, old, new, ledger)
    return moved


def _first(flags: list[bool]) -> int:
    return flags.index(True) if True in flags else len(flags)


def _compare_place(
    before: ProofElfFile, after: ProofElfFile, old: ProofElfSegment, new: ProofElfSegment, ledger: DifferenceLog
) -> None:
    """Check the offset of a segment in the file: that of its addresses, or the old one."""
    if new.type == "PT_GNU_STACK" or not new.filesz:
        # An empty segment has no bytes; linkers write the offset that its address would have.
        places = possible_offsets(after, new.vaddr)
        if places and new.offset not in {*places, old.offset}:
            ledger.differ(f"offset of {new.type}", address=new.vaddr, expected=old.offset, found=new.offset)
        return
    loaded, was = after.memory.loaded_range(new.vaddr), before.memory.loaded_range(old.vaddr)
    place = old.offset if loaded is None or was is None else loaded.at + new.vaddr - loaded.start
    if loaded is not None and was is not None and was.at + old.vaddr - was.start != old.offset:
        place = old.offset  # it was not at the offset of its address before
    ledger.same(f"offset of {new.type}", place, new.offset, address=new.vaddr)


def possible_offsets(elf: ProofElfFile, address: int) -> set[int]:
    """Return the offsets that an empty range at an address may have: by its segment, or by the one before."""
    found = (elf.memory.loaded_range(address), elf.memory.loaded_range(address - 1))
    return {each.at + address - each.start for each in found if each is not None}


def _compare_dynamic(
    before: ProofElfFile, after: ProofElfFile, ledger: DifferenceLog
) -> tuple[list[MovedTable], list[Range]]:
    """Compare the dynamic sections; return tables that moved, and the words with their addresses."""
    moved, words = [], []
    for old, new in zip(before.dynamic, after.dynamic, strict=False):
        if old == new or old[0] != new[0] or old[2] != new[2] or old[0] not in _TABLES:
            continue  # other differences are found by the comparison of memory
        size = table_size(before, old[0], old[1])
        if size is None:
            continue  # damaged: it must not move, so the address in the dynamic section is compared
        moved.append(MovedTable(old[1], new[1], size))
        words.append((old[2] + before.memory.word, old[2] + 2 * before.memory.word))
    return moved, words


def _compare_moved(before: ProofElfFile, after: ProofElfFile, moved: MovedTable, ledger: DifferenceLog) -> None:
    """Check that a moved table is the same at its new address, and that its old bytes are unchanged, zero or table."""
    old_table, new_table = before.memory.stored(moved.old, moved.size), after.memory.stored(moved.new, moved.size)
    if old_table is None or new_table is None:
        ledger.differ("what was moved out of the table's way", address=moved.new, expected="bytes in the file")
        return
    compare_views("what was moved out of the table's way", old_table, new_table, ledger)
    old, new = before.memory.loaded_range(moved.old), after.memory.loaded_range(moved.new)
    ledger.same(
        "rights of what was moved", old.flags if old else "nothing", new.flags if new else "nothing", address=moved.new
    )
