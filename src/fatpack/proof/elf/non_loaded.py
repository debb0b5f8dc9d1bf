"""Parts of an ELF file outside its memory image: the section table, symbols, debug information, gaps and the end.

None of it is loaded, but all of it is compared: an edit moves it in the file and changes nothing, except symbols of
containers that moved.
"""

from __future__ import annotations

import struct
from bisect import bisect_right

from fatpack.proof.elf.headers import MovedTable, possible_offsets
from fatpack.proof.ledger import compare_views, find_range
from fatpack.proof.memory import WINDOW
from fatpack.proof.records import compare_padding, split_into_words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from fatpack.io.source import View
    from fatpack.proof.device_code import DeviceCodeComparison
    from fatpack.proof.elf.reader import ProofElfFile, ProofElfSection
    from fatpack.proof.ledger import DifferenceLog
    from fatpack.proof.records import FilePart

_ALLOCATED = 0x2
_NO_BITS = ("SHT_NOBITS", "SHT_NULL")
_SYMBOLS = "SHT_SYMTAB"

#: types of symbols without an address in a section: STT_SECTION, STT_FILE, STT_TLS
_NO_PLACES = (3, 4, 6)
#: SHN_LORESERVE: higher numbers are not sections. LIMIT: neither is SHN_XINDEX, for files of 65,280 and more.
_FIRST_RESERVED = 0xFF00


def compare_non_loaded(
    before: ProofElfFile,
    after: ProofElfFile,
    device: DeviceCodeComparison,
    moved: Sequence[MovedTable],
    ledger: DifferenceLog,
) -> None:
    """Compare section tables, sections that are not loaded, and all bytes outside sections and segments.

    ``device`` has the ranges of device code and the moves of containers, ``moved`` the tables moved for program
    headers.
    """
    if not ledger.same("number of sections", len(before.sections), len(after.sections)):
        return
    pairs = list(zip(before.sections, after.sections, strict=True))
    shifts = {0} | {old.offset - new.offset for old, new in pairs if old.size and old.type not in _NO_BITS}
    for old, new in pairs:
        if not _is_placed(after, old, new, shifts):
            place = _header_at(after, new)
            ledger.differ(f"offset of section {new.name}", offset=place, expected=old.offset, found=new.offset)
        if not _is_header_right(after, (old, new), device, moved, ledger):
            continue
        if old.flags & _ALLOCATED or old.type in _NO_BITS:
            continue
        if _is_stored(before, old) and _is_stored(after, new):
            old_view, new_view = before.view.slice(old.offset, old.size), after.view.slice(new.offset, new.size)
            if old.type == _SYMBOLS:
                _compare_symbols(old_view, new_view, _SymbolFollower(before, device.moves, moved), ledger)
            else:
                compare_views(f"section {new.name}", old_view, new_view, ledger)
        else:
            ledger.differ("section", offset=new.offset, expected="in the file, as it was", found=new.name)
    old_parts = [(start, end) for start, end, _ in _parts(before, before)]
    compare_padding(before.view, after.view, old_parts, _parts(after, before), ledger)


def _header_at(elf: ProofElfFile, section: ProofElfSection) -> int:
    return int(elf.header["e_shoff"]) + section.number * elf.section_size


def _is_header_right(
    after: ProofElfFile,
    pair: tuple[ProofElfSection, ProofElfSection],
    device: DeviceCodeComparison,
    moved: Sequence[MovedTable],
    ledger: DifferenceLog,
) -> bool:
    """Compare the headers of a section, and return whether the new one is as it has to be."""
    old, new = pair
    expected = old.replace(offset=new.offset)
    if old.flags & _ALLOCATED:
        moved_table = next((each for each in moved if each.old <= old.address < each.old + max(each.size, 1)), None)
        where = find_range(old.address, device.ranges)
        if moved_table is not None and new.address != old.address:
            expected = expected.replace(address=old.address - moved_table.old + moved_table.new)
        elif where is not None and old.address + old.size <= where[1] and new.size < old.size:
            expected = expected.replace(size=_size(after, old, new, device, moved))
    return ledger.same("section header", expected, new, offset=_header_at(after, new))


def _is_placed(after: ProofElfFile, old: ProofElfSection, new: ProofElfSection, shifts: Collection[int]) -> bool:
    """Return whether the offset of a section is possible.

    The offset of a loaded section follows from its address. A section without bytes has the offset that it would have,
    and moves with the sections around it.
    """
    loaded = after.memory.loaded_range(new.address) if old.flags & _ALLOCATED else None
    if old.type in _NO_BITS or not old.size:
        is_gone = bool(old.flags & _ALLOCATED) and loaded is None and new.offset <= len(after.view)
        return is_gone or old.offset - new.offset in shifts or new.offset in possible_offsets(after, new.address)
    return loaded is None or new.address >= loaded.filled or new.offset - loaded.at == new.address - loaded.start


def _size(
    after: ProofElfFile,
    old: ProofElfSection,
    new: ProofElfSection,
    device: DeviceCodeComparison,
    moved: Sequence[MovedTable],
) -> int:
    """Return the required size of a section of device code: up to its last container, or to other content.

    If it has neither of these sizes, return its old size.
    """
    start, end = old.address, old.address + old.size
    containers = [at + size for _, at, size in device.moves.values() if start <= at < end]
    others = [each.new + each.size for each in moved if start <= each.new < end]
    loaded = after.memory.loaded_range(start)
    ends = {max(containers, default=start), max([*containers, *others], default=start)}
    ends |= {at + -at % max(old.align, 1) for at in ends} | ({loaded.filled} if loaded else set())
    return new.size if start + new.size in ends else old.size


def _compare_symbols(old_view: View, new_view: View, follow: _SymbolFollower, ledger: DifferenceLog) -> None:
    record = follow.record
    step = WINDOW // record.size * record.size
    for at in range(0, len(old_view), step):
        size = min(step, len(old_view) - at)
        first, second = old_view.read(at, size), new_view.read(at, size)
        if first == second and not follow.concerns(first):
            continue
        if size % record.size:
            ledger.differ("table of symbols", offset=new_view.offset(at), expected="whole symbols")
            return
        pairs = zip(record.iter_unpack(first), record.iter_unpack(second), strict=True)
        for number, (was, now) in enumerate(pairs):
            if not follow.is_right(was, now):
                place = new_view.offset(at + number * record.size)
                ledger.differ("symbol", offset=place, expected=was, found=now)
                return


class _SymbolFollower:
    """The addresses that symbols for linkers and debuggers must have or may have."""

    def __init__(
        self, elf: ProofElfFile, moves: Mapping[int, tuple[int, int, int]], moved: Sequence[MovedTable]
    ) -> None:
        wide = elf.memory.word == 8
        sign = "<" if elf.memory.order == "little" else ">"
        self.record = struct.Struct(sign + ("IBBHQQ" if wide else "IIIBBH"))
        self._memory, self._sections, self._wide, self._moves = elf.memory, elf.sections, wide, moves
        self._starts = sorted(moves)
        self._places = sorted((each.old, each.old + each.size, each.new) for each in moved)
        moved_ranges = [(start, start + size) for start, (size, new, _) in moves.items() if new != start]
        self._low, self._high = min(moved_ranges, default=(0, 0))[0], max(moved_ranges, default=(0, 0))[1]
        # type and binding, and the number of the section
        self._info, self._section = (1, 3) if wide else (3, 5)
        self._value, self._size = (4, 5) if wide else (1, 2)

    def concerns(self, table: bytes) -> bool:
        """Return whether a symbol in a table may be in a moved container."""
        values = split_into_words(self._memory, table)[1 :: 3 if self._wide else 4]
        return any(self._low <= value < self._high for value in values)

    def is_right(self, was: tuple[int, ...], now: tuple[int, ...]) -> bool:
        """Return whether a symbol only followed its target: a container, or a table moved for program headers.

        A symbol inside a container follows it, too, and ends at its end.
        """
        if any(was[field] != now[field] for field in range(len(was)) if field not in (self._value, self._size)):
            return False
        number = bisect_right(self._starts, was[self._value]) - 1
        start = self._starts[number] if number >= 0 else 0
        inside = was[self._value] - start
        if number >= 0 and inside < self._moves[start][0] and self._has_address(was):
            return self._is_on(was, now, inside, self._moves[start])
        return was == now or (
            now[self._size] == was[self._size]
            and any(
                first <= was[self._value] < max(end, first + 1) and now[self._value] == was[self._value] - first + new
                for first, end, new in self._places
            )
        )

    def _has_address(self, symbol: tuple[int, ...]) -> bool:
        """Return whether a symbol has an address in its section, and is not the section itself."""
        number = symbol[self._section]
        if symbol[self._info] & 0xF in _NO_PLACES or not 0 < number < min(len(self._sections), _FIRST_RESERVED):
            return False
        section = self._sections[number]
        return section.address <= symbol[self._value] < section.address + section.size

    def _is_on(self, was: tuple[int, ...], now: tuple[int, ...], inside: int, move: tuple[int, int, int]) -> bool:
        size, new, new_size = move
        if was == now and was[self._value] == new + inside:
            return True
        value = new + min(inside, new_size)
        sizes = {min(was[self._size], new_size - value + new)} | ({new_size} if was[self._size] == size else set())
        return now[self._value] == value and now[self._size] in sizes | ({was[self._size]} if not inside else set())


def _is_stored(elf: ProofElfFile, section: ProofElfSection) -> bool:
    return section.offset + section.size <= len(elf.view)


def _parts(elf: ProofElfFile, before: ProofElfFile) -> list[FilePart]:
    """Return the parts of a file: start, end, and the end of the same part in the file before.

    If a segment was cut, the last number is the offset of the cut.
    """
    header, old = elf.header, before.header
    table, old_table = len(elf.segments) * elf.segment_size, len(before.segments) * before.segment_size
    parts = [(0, elf.header_size, elf.header_size)]
    parts.append((header["e_phoff"], header["e_phoff"] + table, old["e_phoff"] + old_table))
    size = len(elf.sections) * elf.section_size
    parts.append((header["e_shoff"], header["e_shoff"] + size, old["e_shoff"] + size))
    for each in elf.memory.loaded_ranges:
        stop = each.at + each.filled - each.start
        old_range = before.memory.loaded_range(each.start)
        parts.append((each.at, stop, stop if old_range is None else old_range.at + each.filled - old_range.start))
    for section, was in zip(elf.sections, before.sections, strict=False):
        if section.type not in _NO_BITS and not section.flags & _ALLOCATED:
            parts.append((section.offset, section.offset + section.size, was.offset + was.size))
    return [part for part in parts if part[0] < part[1] <= len(elf.view)]
