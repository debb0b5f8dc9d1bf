"""What a PE image holds beside its memory image: COFF symbols and their strings, padding, and an overlay.

A certificate table, which signs a file, is wrong after any edit: an edited file has none.
"""

from __future__ import annotations

import struct

from fatpack.proof.ledger import compare_views
from fatpack.proof.memory import WINDOW
from fatpack.proof.pe.reader import CERTIFICATES
from fatpack.proof.rest import compare_padding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from fatpack.io.source import View
    from fatpack.proof.ledger import DifferenceLog
    from fatpack.proof.pe.reader import ProofPeFile
    from fatpack.proof.rest import FilePart

#: A COFF symbol: name, value, number of the section, type, class, number of records that follow.
_SYMBOL = struct.Struct("<8sIhHBB")

#: Certificates begin at a multiple of this, behind zeros.
_ALIGN = 8


def compare_non_loaded(
    before: ProofPeFile,
    after: ProofPeFile,
    moves: Mapping[int, tuple[int, int, int]],
    is_same: bool,
    ledger: DifferenceLog,
) -> None:
    """Compare symbols, and the bytes that belong to no section. ``moves`` says where containers went.

    ``is_same`` says that the files are equal, so that a signature holds.
    """
    _compare_symbols(before, after, moves, ledger)
    ours, theirs = before.view, after.view
    start, size = before.directory(CERTIFICATES)
    if size and not is_same:
        if after.directory(CERTIFICATES) != (0, 0):
            ledger.differ("signature", offset=start, expected="none: it does not hold any more")
        elif start + size == len(ours):
            ours = _unsigned(ours.slice(0, start), theirs, before, after)
    old = [(first, stop) for first, stop, _ in _parts(before, before, ours)]
    compare_padding(ours, theirs, old, _parts(after, before, theirs), ledger)


def _unsigned(ours: View, theirs: View, before: ProofPeFile, after: ProofPeFile) -> View:
    """Return a file without its certificates, and without the zeros in front of them that the other lacks."""
    surplus = (len(ours) - _end(before)) - (len(theirs) - _end(after))
    if 0 < surplus < _ALIGN and ours.is_zero(len(ours) - surplus):
        return ours.slice(0, len(ours) - surplus)
    return ours


def _end(pe: ProofPeFile) -> int:
    """Return where the last part of a file ends."""
    return max((stop for _, stop, _ in _parts(pe, pe, pe.view)), default=0)


def _symbols_end(pe: ProofPeFile) -> int:
    """Return where the string table behind the symbols ends."""
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
        # What is no table in the first file belongs to no part, and is compared as that.
        if end <= len(before.view):
            ledger.differ("symbol table", offset=after.symbol_offset, expected="in the file, as it was")
        return
    strings = before.view.slice(before.symbol_offset + size, end - before.symbol_offset - size)
    theirs = after.view.slice(after.symbol_offset + size, new_end - after.symbol_offset - size)
    compare_views("strings of symbols", strings, theirs, ledger)
    step = WINDOW // _SYMBOL.size * _SYMBOL.size
    for at in range(0, size, step):
        first = before.view.read(before.symbol_offset + at, min(step, size - at))
        second = after.view.read(after.symbol_offset + at, len(first))
        if first == second:
            continue
        for number, (was, now) in enumerate(zip(_SYMBOL.iter_unpack(first), _SYMBOL.iter_unpack(second), strict=True)):
            if was != now and not _follows(before, was, now, moves):
                place = after.view.offset(after.symbol_offset + at + number * _SYMBOL.size)
                ledger.differ("symbol", offset=place, expected=was, found=now)
                return


def _follows(
    before: ProofPeFile, was: tuple[bytes, int, int, int, int, int], now: tuple[bytes, int, int, int, int, int],
    moves: Mapping[int, tuple[int, int, int]],
) -> bool:  # fmt: skip
    """Return whether a symbol only followed the container that it stands for."""
    number = was[2]
    if (was[0], *was[2:]) != (now[0], *now[2:]) or not 0 < number <= len(before.sections):
        return False
    start = before.sections[number - 1].address
    return start + was[1] in moves and start + now[1] == moves[start + was[1]][1]
