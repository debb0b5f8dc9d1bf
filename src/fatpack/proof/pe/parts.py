"""The headers of an edited PE image, and its debug directory: which words may differ, and what they must hold.

An edit takes device code's pages out of the file and moves what follows. Addresses stay, so only offsets, sizes in the
file and the checksum change (Microsoft's PE format specification).
"""

from __future__ import annotations

import struct

from fatpack.proof.ledger import compare_views, find_range
from fatpack.proof.memory import WINDOW
from fatpack.proof.pe.reader import CERTIFICATES, DEBUG, ProofPeFile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from fatpack.proof.ledger import DifferenceLog, Range
    from fatpack.proof.pe.reader import ProofPeSection

#: Where numbers are: in the file header with its signature, the optional header, and a section header.
_SYMBOLS_AT, _INITIALIZED_AT, _CHECKSUM_AT = 12, 8, 64
_RAW_SIZE_AT, _RAW_OFFSET_AT, _LINES_AT = 16, 20, 28

#: An entry of the debug directory: size of its data, their address and their file offset at the end.
_DEBUG_ENTRY = struct.Struct("<IIHHIIII")

#: LIMIT: entries of a debug directory; linkers write four.
_MOST_DEBUG = 256


def compare_headers(
    before: ProofPeFile, after: ProofPeFile, ranges: Sequence[Range], ledger: DifferenceLog
) -> list[Range]:
    """Check the numbers that an edit may change; return the words in memory where they are, in order.

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
    ours, theirs = before.view.slice(old.line_offset, size), after.view.slice(new.line_offset, size)
    compare_views("line numbers", ours, theirs, ledger)


def _compare_checksum(before: ProofPeFile, after: ProofPeFile, ledger: DifferenceLog) -> None:
    at = after.optional_at + _CHECKSUM_AT
    expected = expected_checksum(after) if before.checksum else 0
    ledger.same("CheckSum", expected, after.checksum, address=at)


def expected_checksum(pe: ProofPeFile) -> int:
    """Return what the checksum of an image must be: the sum of its 16-bit words with carries, and its size.

    As ImageHlp's CheckSumMappedFile computes it. Adding carries is counting modulo 65535, which long integers do fast.
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
    """Compare what the debug directory leads to by file offset; return the addresses of these offsets."""
    start, size = before.directory(DEBUG)
    words = []
    for number in range(min(size // _DEBUG_ENTRY.size, _MOST_DEBUG)):
        at = start + number * _DEBUG_ENTRY.size
        ours, theirs = (pe.memory.read(at, _DEBUG_ENTRY.size) for pe in (before, after))
        if ours is None or theirs is None:
            break
        *_, length, address, old = _DEBUG_ENTRY.unpack(ours)
        *_, new_length, _, new = _DEBUG_ENTRY.unpack(theirs)
        if new == old:
            continue
        words.append(at + _DEBUG_ENTRY.size - 4)
        if max(old + length - len(before.view), new + length - len(after.view)) > 0 or length != new_length:
            ledger.differ("PointerToRawData of debug information", address=at, found=new)
            continue
        compare_views("debug information", before.view.slice(old, length), after.view.slice(new, length), ledger)
        stretch = after.memory.stretch(address) if address else None
        if stretch is not None:
            place = stretch.at + address - stretch.start
            ledger.same("PointerToRawData of debug information", place, new, address=at)
    return words
