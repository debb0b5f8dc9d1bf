"""Relocations that name symbols by number: checked, and renumbered without holding them in memory."""

from __future__ import annotations

from fatpack import limits
from fatpack.binary.coff.coff_layout import RELOCATION
from fatpack.binary.coff.objcopy.sections import coff_error
from fatpack.errors import HostError
from fatpack.io.source import Source

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fatpack.binary.coff.objcopy.sections import MutableCoffSection
    from fatpack.binary.coff.objcopy.symbols import MutableCoffSymbol
    from fatpack.binary.coff.reader import CoffObject
    from fatpack.io.source import View

_BLOCK = limits.CHUNK // RELOCATION.size * RELOCATION.size


class RenumberedCoffRelocations(Source):
    """Relocations of a view with the new numbers of symbols, made when they are read."""

    def __init__(self, view: View, symbols: Sequence[MutableCoffSymbol | None]) -> None:
        self.name = ""
        self.size = self.present = len(view)
        self._view = view
        self._symbols = symbols

    def read(self, offset: int, size: int) -> bytes:
        """Return a copy of ``size`` bytes at ``offset``."""
        record = RELOCATION.size
        start = offset - offset % record
        end = min(-(-(offset + size) // record) * record, self.size)
        unpacked = RELOCATION.struct.iter_unpack(self._view.read(start, end - start))
        block = b"".join(RELOCATION.pack(address, self._index(old), type) for address, old, type in unpacked)
        return block[offset - start : offset - start + size]

    def _index(self, old: int) -> int:
        symbol = self._symbols[old]
        assert symbol is not None  # checked before
        return symbol.index


def _targets(coff: CoffObject, part: MutableCoffSection) -> Iterator[int]:
    """Yield the symbol number of every relocation of a section."""
    end = part.relocations + part.relocation_count * RELOCATION.size
    for at in range(part.relocations, end, _BLOCK):
        for _, number, _ in RELOCATION.struct.iter_unpack(coff.view.read(at, min(_BLOCK, end - at))):
            yield number


def check_relocations(coff: CoffObject, part: MutableCoffSection, symbols: Sequence[MutableCoffSymbol | None]) -> None:
    """Raise FormatError unless every relocation names a symbol; ``symbols`` are by their numbers in the old table."""
    count = len(symbols)
    for number in _targets(coff, part):
        if number >= count:
            raise coff_error(coff, "SymbolTableIndex out of range", part.relocations, "relocation")
        if symbols[number] is None:
            raise coff_error(coff, "invalid SymbolTableIndex", part.relocations, "relocation")


def check_kept_relocations(
    coff: CoffObject, part: MutableCoffSection, symbols: Sequence[MutableCoffSymbol | None]
) -> None:
    """Raise HostError if a relocation names a symbol that is gone."""
    for number in _targets(coff, part):
        symbol = symbols[number]
        if symbol is not None and symbol.index < 0:
            raise HostError(
                f"relocation target '{symbol.title}' ({symbol.ordinal}) not found",
                hint=f"{part.title} needs what would be removed; compile the host without it instead",
                chain=coff.view.chain,
            )


def renumber_relocations(
    coff: CoffObject, part: MutableCoffSection, symbols: Sequence[MutableCoffSymbol | None]
) -> View:
    """Return the relocations of a section with the new numbers of symbols, which are by their old ones."""
    view = coff.view.slice(part.relocations, part.relocation_count * RELOCATION.size)
    return RenumberedCoffRelocations(view, symbols).view()
