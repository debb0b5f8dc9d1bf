"""What an ELF file holds beside its memory image: the section table, symbols, debug information, gaps and the end.

None of it is loaded, but all of it is compared: an edit moves it in the file and changes nothing, but for symbols of
containers that moved.
"""

from __future__ import annotations

import struct

from fatpack.proof.elf.headers import Moved, offsets_of
from fatpack.proof.ledger import compare_views, inside
from fatpack.proof.memory import WINDOW
from fatpack.proof.rest import compare_rest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from fatpack.proof.device import DeviceCode
    from fatpack.proof.elf.reading import ElfFile, Section
    from fatpack.proof.ledger import Ledger
    from fatpack.proof.rest import Part

_ALLOCATED = 0x2
_NO_BITS = ("SHT_NOBITS", "SHT_NULL")
_SYMBOLS = "SHT_SYMTAB"


def compare_unloaded(
    before: ElfFile,
    after: ElfFile,
    device: DeviceCode,
    moved: Sequence[Moved],
    ledger: Ledger,
) -> None:
    """Compare section tables, sections that are not loaded, and all bytes that belong to nothing.

    ``device`` says where device code was and where containers went, ``moved`` what made room for the table.
    """
    if not ledger.same("number of sections", len(before.sections), len(after.sections)):
        return
    pairs = list(zip(before.sections, after.sections, strict=True))
    shifts = {0} | {old.offset - new.offset for old, new in pairs if old.size and old.type not in _NO_BITS}
    for old, new in pairs:
        _compare_header(after, old, new, device, moved, shifts, ledger)
        if old.flags & _ALLOCATED or old.type in _NO_BITS or new.type in _NO_BITS:
            continue
        if old.size == new.size and _is_stored(before, old) and _is_stored(after, new):
            _compare_content(before, after, old, new, device.moves, moved, ledger)
        else:
            ledger.differ("section", offset=new.offset, expected="in the file, as it was", found=new.name)
    ours = [(start, end) for start, end, _ in _parts(before, before)]
    compare_rest(before.view, after.view, ours, _parts(after, before), ledger)


def _compare_header(
    after: ElfFile,
    old: Section,
    new: Section,
    device: DeviceCode,
    moved: Sequence[Moved],
    shifts: Collection[int],
    ledger: Ledger,
) -> None:
    expected = old.replace(offset=new.offset)
    if old.flags & _ALLOCATED:
        gone = next((each for each in moved if each.old <= old.address < each.old + max(each.size, 1)), None)
        where = inside(old.address, device.ranges)
        if gone is not None and new.address != old.address:
            expected = expected.replace(address=old.address - gone.old + gone.new)
        elif where is not None and old.address + old.size <= where[1] and new.size < old.size:
            expected = expected.replace(size=_size(after, old, new, device, moved))
    place = after.header["e_shoff"] + new.number * after.section_size
    if not _is_placed(after, old, new, shifts):
        ledger.differ(f"offset of section {new.name}", offset=place, expected=old.offset, found=new.offset)
    ledger.same("section header", expected, new, offset=place)


def _is_placed(after: ElfFile, old: Section, new: Section, shifts: Collection[int]) -> bool:
    """Return whether the offset of a section is one that it can have.

    What is loaded stands where its address says. What has no bytes has no place: what is stated is where it would be,
    and goes with what stands around it.
    """
    stretch = after.memory.stretch(new.address) if old.flags & _ALLOCATED else None
    if old.type in _NO_BITS or not old.size:
        is_gone = bool(old.flags & _ALLOCATED) and stretch is None and new.offset <= len(after.view)
        return is_gone or old.offset - new.offset in shifts or new.offset in offsets_of(after, new.address)
    return stretch is None or new.address >= stretch.filled or new.offset - stretch.at == new.address - stretch.start


def _size(after: ElfFile, old: Section, new: Section, device: DeviceCode, moved: Sequence[Moved]) -> int:
    """Return the size that a section of device code must state: up to its last container, or what else is there.

    If it states neither of them, the size that it had.
    """
    start, end = old.address, old.address + old.size
    containers = [at + size for _, at, size in device.moves.values() if start <= at < end]
    others = [each.new + each.size for each in moved if start <= each.new < end]
    stretch = after.memory.stretch(start)
    ends = {max(containers, default=start), max([*containers, *others], default=start)}
    ends |= {at + -at % max(old.align, 1) for at in ends} | ({stretch.filled} if stretch else set())
    return new.size if start + new.size in ends else old.size


def _compare_content(
    before: ElfFile,
    after: ElfFile,
    old: Section,
    new: Section,
    moves: Mapping[int, tuple[int, int, int]],
    moved: Sequence[Moved],
    ledger: Ledger,
) -> None:
    ours, theirs = before.view.slice(old.offset, old.size), after.view.slice(new.offset, new.size)
    if old.type != _SYMBOLS:
        compare_views(f"section {new.name}", ours, theirs, ledger)
        return
    wide = before.memory.word == 8
    sign = "<" if before.memory.order == "little" else ">"
    record = struct.Struct(sign + ("IBBHQQ" if wide else "IIIBBH"))
    step = WINDOW // record.size * record.size
    places = sorted((each.old, each.old + each.size, each.new) for each in moved)
    for at in range(0, old.size, step):
        size = min(step, old.size - at)
        first, second = ours.read(at, size), theirs.read(at, size)
        if first == second:
            continue
        if size % record.size:
            ledger.differ("table of symbols", offset=theirs.offset(at), expected="whole symbols")
            return
        pairs = zip(record.iter_unpack(first), record.iter_unpack(second), strict=True)
        for number, (was, now) in enumerate(pairs):
            if was != now and not _follows(was, now, wide, moves, places):
                place = theirs.offset(at + number * record.size)
                ledger.differ("symbol", offset=place, expected=was, found=now)
                return


def _follows(
    was: tuple[int, ...],
    now: tuple[int, ...],
    wide: bool,
    moves: Mapping[int, tuple[int, int, int]],
    places: Sequence[tuple[int, int, int]],
) -> bool:
    """Return whether a symbol only followed what it stands for: a container, or what made room for the table."""
    value, size = (4, 5) if wide else (1, 2)
    if any(was[field] != now[field] for field in range(len(was)) if field not in (value, size)):
        return False
    if was[value] in moves:
        old_size, new, new_size = moves[was[value]]
        return now[value] == new and now[size] in {was[size], new_size if was[size] == old_size else was[size]}
    return now[size] == was[size] and any(
        start <= was[value] < max(end, start + 1) and now[value] == was[value] - start + new
        for start, end, new in places
    )


def _is_stored(elf: ElfFile, section: Section) -> bool:
    return section.offset + section.size <= len(elf.view)


def _parts(elf: ElfFile, before: ElfFile) -> list[Part]:
    """Return the parts of a file: start, end, and where the same part ended in the file before.

    Where a segment was cut the last number is where it was cut.
    """
    header, old = elf.header, before.header
    table, old_table = len(elf.segments) * elf.segment_size, len(before.segments) * before.segment_size
    parts = [(0, elf.header_size, elf.header_size)]
    parts.append((header["e_phoff"], header["e_phoff"] + table, old["e_phoff"] + old_table))
    size = len(elf.sections) * elf.section_size
    parts.append((header["e_shoff"], header["e_shoff"] + size, old["e_shoff"] + size))
    for each in elf.memory.stretches:
        stop = each.at + each.filled - each.start
        whole = before.memory.stretch(each.start)
        parts.append((each.at, stop, stop if whole is None else whole.at + each.filled - whole.start))
    for section, was in zip(elf.sections, before.sections, strict=False):
        if section.type not in _NO_BITS and not section.flags & _ALLOCATED:
            parts.append((section.offset, section.offset + section.size, was.offset + was.size))
    return [part for part in parts if part[0] < part[1] <= len(elf.view)]
