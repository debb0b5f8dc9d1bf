"""The headers of an edited PE image, and its debug directory: the words that may differ, and their required values.

An edit removes device code's pages from the file and moves the bytes after them. Addresses stay, so only offsets, sizes
in the file and the checksum change (Microsoft's PE format specification).
"""

from __future__ import annotations

import struct

from fatpack.proof.ledger import compare_views, find_range
from fatpack.proof.memory import WINDOW
from fatpack.proof.pe.reader import CERTIFICATES, DEBUG, ProofPeFile
from fatpack.proof.records import compare_padding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from fatpack.io.source import View
    from fatpack.proof.ledger import DifferenceLog, Range
    from fatpack.proof.memory import ProgramMemory
    from fatpack.proof.pe.reader import ProofPeSection
    from fatpack.proof.records import FilePart


# References of a PE image into device code: words that the loader relocates, and exports.
#
# Base relocations come in blocks: the address of a page, the bytes of the block, then 16 bits for each word, four of
# which are the type of the relocation (Microsoft's PE format specification, "The .reloc Section").

_EXPORTS, _RELOCATIONS = 0, 5

_BLOCK = struct.Struct("<II")
_PAGE = 4096

#: The type of a base relocation, by word size: IMAGE_REL_BASED_DIR64, IMAGE_REL_BASED_HIGHLOW.
_WHOLE_WORD = {8: 10, 4: 3}

#: Export directory: number of functions, and the address of the table of their addresses.
_EXPORT_COUNT_AT, _EXPORT_TABLE_AT = 20, 28


def loader_tables(pe: ProofPeFile) -> Iterator[tuple[str, Range]]:
    """Yield the tables of the data directories: their numbers as names, and addresses of start and end."""
    for number, (start, size) in enumerate(pe.directories):
        if size and number != CERTIFICATES:  # those are no memory
            yield f"data directory {number}", (start, start + size)


class PointersToDeviceCode:
    """The pointers and exports of an image, by their values."""

    def __init__(self, pe: ProofPeFile) -> None:
        self._pe = pe

    def __call__(self, memory: ProgramMemory, low: int, high: int) -> Iterator[tuple[int, int]]:
        """Yield the pointers and exports with values in ``[low, high)``: their addresses and values."""
        yield from self._exports(memory, low, high)
        at, size = self._pe.directory(_RELOCATIONS)
        end = at + size
        while True:
            page, length = _BLOCK.unpack(memory.read(at, _BLOCK.size) or bytes(_BLOCK.size))
            if length < _BLOCK.size or at + length > end:
                return
            start = at + _BLOCK.size
            # Zeros that are not in the file are padding, and not read.
            entries = memory.read(start, min(length - _BLOCK.size, memory.stored_size(start))) or b""
            yield from _relocated(memory, page, entries, low, high)
            at += length

    def _exports(self, memory: ProgramMemory, low: int, high: int) -> Iterator[tuple[int, int]]:
        start, size = self._pe.directory(_EXPORTS)
        count, table = (memory.number(start + at, 4) for at in (_EXPORT_COUNT_AT, _EXPORT_TABLE_AT))
        if not size or count is None or table is None:
            return
        data = memory.read(table, 4 * min(count, memory.stored_size(table) // 4)) or b""
        for number, (value,) in enumerate(struct.iter_unpack("<I", data)):
            if low <= value < high:
                yield table + 4 * number, value


def _relocated(memory: ProgramMemory, page: int, entries: bytes, low: int, high: int) -> Iterator[tuple[int, int]]:
    """Yield the relocated words of a page with values between two addresses."""
    word, kind = memory.word, _WHOLE_WORD[memory.word]
    loaded = memory.loaded_range(page)
    if loaded is None:
        return
    data = memory.read(page, min(_PAGE + word, loaded.end - page)) or b""
    for (entry,) in struct.iter_unpack("<H", entries[: len(entries) // 2 * 2]):
        if entry >> 12 == kind:
            at = entry & 0xFFF
            value = int.from_bytes(data[at : at + word], "little") - memory.base
            if low <= value < high:
                yield page + at, value


#: Offsets of numbers in the file header with its signature, the optional header, and a section header.
_SYMBOLS_AT, _INITIALIZED_AT, _CHECKSUM_AT = 12, 8, 64
_RAW_SIZE_AT, _RAW_OFFSET_AT, _LINES_AT = 16, 20, 28

#: An entry of the debug directory: size of its data, their address and their file offset at the end.
_DEBUG_ENTRY = struct.Struct("<IIHHIIII")

#: LIMIT: entries of a debug directory; linkers write four.
_MOST_DEBUG = 256


def compare_headers(
    before: ProofPeFile, after: ProofPeFile, ranges: Sequence[Range], ledger: DifferenceLog
) -> list[Range]:
    """Check the numbers that an edit may change; return the words in memory that hold them, in order.

    ``ranges`` held device code.
    """
    if len(before.sections) != len(after.sections) or before.optional_at != after.optional_at:
        ledger.differ("headers", offset=0, expected=len(before.sections), found=len(after.sections))
        return []
    words = [before.optional_at - 24 + _SYMBOLS_AT]
    words += [before.optional_at + _INITIALIZED_AT, before.optional_at + _CHECKSUM_AT]
    saved = 0
    for old, new in zip(before.sections, after.sections, strict=True):
        saved += old.raw_size - new.raw_size
        words += [old.at + _RAW_SIZE_AT, old.at + _RAW_OFFSET_AT]
        _compare_section(before, after, old, new, ranges, ledger)
        if old.line_offset:
            words.append(old.at + _LINES_AT)
            _compare_lines(before, after, old, new, ledger)
    if after.initialized_size != before.initialized_size - saved:
        ledger.same("SizeOfInitializedData", before.initialized_size, after.initialized_size, address=words[1])
    _compare_checksum(before, after, ledger)
    ledger.same("symbol table", bool(before.symbol_offset), bool(after.symbol_offset), address=words[0])
    words += _compare_debug(before, after, ledger)
    found = [(at, at + 4) for at in words]
    if before.directory(CERTIFICATES) != after.directory(CERTIFICATES) == (0, 0):
        at = before.directory_at(CERTIFICATES)
        found.append((at, at + 8))
    return sorted(found)


def _compare_section(
    before: ProofPeFile,
    after: ProofPeFile,
    old: ProofPeSection,
    new: ProofPeSection,
    ranges: Sequence[Range],
    ledger: DifferenceLog,
) -> None:
    where = find_range(old.address, ranges)
    if new.raw_size != old.raw_size and (
        where is None or new.raw_size > old.raw_size or new.raw_size % after.file_align
    ):
        ledger.differ("SizeOfRawData", address=old.at, expected=old.raw_size, found=new.raw_size)
    if new.raw_size and new.raw_offset != old.raw_offset and new.raw_offset % after.file_align:
        ledger.differ("PointerToRawData", address=old.at, expected="a multiple of FileAlignment", found=new.raw_offset)
    if not old.raw_offset and new.raw_offset:
        ledger.differ("PointerToRawData", address=old.at, expected=0, found=new.raw_offset)


def _compare_lines(
    before: ProofPeFile, after: ProofPeFile, old: ProofPeSection, new: ProofPeSection, ledger: DifferenceLog
) -> None:
    size = 6 * old.line_count
    if max(old.line_offset + size - len(before.view), new.line_offset + size - len(after.view)) > 0:
        ledger.differ("line numbers", address=new.at, expected="in the file")
        return
    old_lines, new_lines = before.view.slice(old.line_offset, size), after.view.slice(new.line_offset, size)
    compare_views("line numbers", old_lines, new_lines, ledger)


def _compare_checksum(before: ProofPeFile, after: ProofPeFile, ledger: DifferenceLog) -> None:
    at = after.optional_at + _CHECKSUM_AT
    expected = expected_checksum(after) if before.checksum else 0
    ledger.same("CheckSum", expected, after.checksum, address=at)


def expected_checksum(pe: ProofPeFile) -> int:
    """Return the required checksum of an image: the sum of its 16-bit words with carries, and its size.

    ImageHlp's CheckSumMappedFile computes the same. Adding carries is counting modulo 65535, which long integers do
    fast.
    """
    view, at, total = pe.view, pe.optional_at + _CHECKSUM_AT, 0
    is_zero = True
    for start in range(0, len(view), WINDOW):
        data = bytearray(view.read(start, min(WINDOW, len(view) - start)))
        low, high = max(at - start, 0), min(at + 4 - start, len(data))
        if low < high:
            data[low:high] = bytes(high - low)
        number = int.from_bytes(data, "little")
        is_zero = is_zero and not number
        total += number % 0xFFFF
    folded = total % 0xFFFF
    return ((0 if is_zero else folded or 0xFFFF) + len(view)) & 0xFFFFFFFF


def _compare_debug(before: ProofPeFile, after: ProofPeFile, ledger: DifferenceLog) -> list[int]:
    """Compare the data at the file offsets in the debug directory; return the addresses of these offsets."""
    start, size = before.directory(DEBUG)
    words = []
    for number in range(min(size // _DEBUG_ENTRY.size, _MOST_DEBUG)):
        at = start + number * _DEBUG_ENTRY.size
        old_entry, new_entry = (pe.memory.read(at, _DEBUG_ENTRY.size) for pe in (before, after))
        if old_entry is None or new_entry is None:
            break
        *_, length, address, old = _DEBUG_ENTRY.unpack(old_entry)
        *_, new_length, _, new = _DEBUG_ENTRY.unpack(new_entry)
        if new == old:
            continue
        words.append(at + _DEBUG_ENTRY.size - 4)
        if max(old + length - len(before.view), new + length - len(after.view)) > 0 or length != new_length:
            ledger.differ("PointerToRawData of debug information", address=at, found=new)
            continue
        compare_views("debug information", before.view.slice(old, length), after.view.slice(new, length), ledger)
        loaded = after.memory.loaded_range(address) if address else None
        if loaded is not None:
            place = loaded.at + address - loaded.start
            ledger.same("PointerToRawData of debug information", place, new, address=at)
    return words


# Parts of a PE file outside its memory image: COFF symbols and their strings, padding, and an overlay.
#
# A certificate table signs a file, and is invalid after any edit: an edited file has none.

#: A COFF symbol: name, value, number of the section, type, class, number of records that follow.
_SYMBOL = struct.Struct("<8sIhHBB")

#: Certificates begin at a multiple of this, after zeros.
_ALIGN = 8


def compare_non_loaded(
    before: ProofPeFile,
    after: ProofPeFile,
    moves: Mapping[int, tuple[int, int, int]],
    is_same: bool,
    ledger: DifferenceLog,
) -> None:
    """Compare symbols, and the bytes that belong to no section. ``moves`` are the moves of containers.

    ``is_same``: the files are equal, so that a signature is valid.
    """
    _compare_symbols(before, after, moves, ledger)
    old_view, new_view = before.view, after.view
    start, size = before.directory(CERTIFICATES)
    if size and not is_same:
        if after.directory(CERTIFICATES) != (0, 0):
            ledger.differ("signature", offset=start, expected="none: it does not hold any more")
        elif start + size == len(old_view):
            old_view = _unsigned(old_view.slice(0, start), new_view, before, after)
    old = [(first, stop) for first, stop, _ in _parts(before, before, old_view)]
    compare_padding(old_view, new_view, old, _parts(after, before, new_view), ledger)


def _unsigned(old_view: View, new_view: View, before: ProofPeFile, after: ProofPeFile) -> View:
    """Return a file without its certificates, and without the zeros before them that the other lacks."""
    surplus = (len(old_view) - _end(before)) - (len(new_view) - _end(after))
    if 0 < surplus < _ALIGN and old_view.is_zero(len(old_view) - surplus):
        return old_view.slice(0, len(old_view) - surplus)
    return old_view


def _end(pe: ProofPeFile) -> int:
    """Return the end of the last part of a file."""
    return max((stop for _, stop, _ in _parts(pe, pe, pe.view)), default=0)


def _symbols_end(pe: ProofPeFile) -> int:
    """Return the end of the string table after the symbols."""
    strings = pe.symbol_offset + pe.symbol_count * _SYMBOL.size
    return strings + max(4, int.from_bytes(pe.view.head(strings, 4), "little"))


def _parts(pe: ProofPeFile, before: ProofPeFile, view: View) -> list[FilePart]:
    parts: list[FilePart] = [(0, pe.headers_size, before.headers_size)]
    for each, was in zip(pe.sections, before.sections, strict=False):
        if each.raw_offset and each.raw_size:
            parts.append((each.raw_offset, each.raw_offset + each.raw_size, was.raw_offset + was.raw_size))
    if pe.symbol_offset:
        parts.append((pe.symbol_offset, _symbols_end(pe), _symbols_end(before)))
    return [part for part in parts if part[0] < part[1] <= len(view)]


def _compare_symbols(
    before: ProofPeFile, after: ProofPeFile, moves: Mapping[int, tuple[int, int, int]], ledger: DifferenceLog
) -> None:
    if not before.symbol_offset or not after.symbol_offset:
        return
    size = before.symbol_count * _SYMBOL.size
    end, new_end = _symbols_end(before), _symbols_end(after)
    if end > len(before.view) or new_end > len(after.view) or before.symbol_count != after.symbol_count:
        # If these bytes are no table in the first file, they belong to no part, and are compared as such.
        if end <= len(before.view):
            ledger.differ("symbol table", offset=after.symbol_offset, expected="in the file, as it was")
        return
    old_strings = before.view.slice(before.symbol_offset + size, end - before.symbol_offset - size)
    new_strings = after.view.slice(after.symbol_offset + size, new_end - after.symbol_offset - size)
    compare_views("strings of symbols", old_strings, new_strings, ledger)
    step = WINDOW // _SYMBOL.size * _SYMBOL.size
    for at in range(0, size, step):
        first = before.view.read(before.symbol_offset + at, min(step, size - at))
        second = after.view.read(after.symbol_offset + at, len(first))
        for number, (was, now) in enumerate(zip(_SYMBOL.iter_unpack(first), _SYMBOL.iter_unpack(second), strict=True)):
            if was != now and not _follows(before, was, now, moves):
                place = after.view.offset(after.symbol_offset + at + number * _SYMBOL.size)
                ledger.differ("symbol", offset=place, expected=was, found=now)
                return


def _follows(
    before: ProofPeFile, was: tuple[bytes, int, int, int, int, int], now: tuple[bytes, int, int, int, int, int],
    moves: Mapping[int, tuple[int, int, int]],
) -> bool:  # fmt: skip
    """Return whether a symbol only followed the container that it names."""
    number = was[2]
    if (was[0], *was[2:]) != (now[0], *now[2:]) or not 0 < number <= len(before.sections):
        return False
    start = before.sections[number - 1].address
    return start + was[1] in moves and start + now[1] == moves[start + was[1]][1]
