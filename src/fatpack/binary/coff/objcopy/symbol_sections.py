"""Sections that are nothing but symbol numbers: tables of control flow guard and of exception continuations.

They are the only contents that llvm-objcopy changes (``COFFWriter::finalizeSymIdxContents``, LLVM 22.1).
"""

from __future__ import annotations

from fatpack.binary.coff.coff_layout import SECTION_DEFINITION, STATIC
from fatpack.errors import HostError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from fatpack.binary.coff.objcopy.model import CoffModel
    from fatpack.binary.coff.objcopy.sections import MutableCoffSection
    from fatpack.binary.coff.objcopy.symbols import MutableCoffSymbol

_NAMES = (b".gljmp$y", b".giats$y", b".gfids$y", b".gehcont$y")
_WORD = 4
_CHECKSUM = SECTION_DEFINITION.field_offset("checksum")

#: LIMIT: bytes of such a section: a number for each function of an object.
_LARGEST = 64 << 20


def renumber_symbol_sections(model: CoffModel) -> None:
    """Write the new numbers of symbols into such sections, and their checksums into the sections' definitions."""
    found = [part for part in model.parts if part.name in _NAMES and part.stored_size]
    if not found:
        return
    definitions = {
        symbol.section: symbol
        for symbol in model.symbols
        if symbol.name in _NAMES
        and (symbol.storage_class, len(symbol.auxiliary), symbol.value) == (STATIC, 1, 0)
        and symbol.section is not None
    }
    for part in found:
        symbol = definitions.get(part)
        if symbol is None:
            raise HostError(
                f"section '{part.title}' does not have the corresponding symbol or the symbol has unexpected format",
                hint="compile the object again",
                chain=model.coff.view.chain,
            )
        content = _renumbered(model, part, model.by_old_index)
        part.stored_size, part.content = 0, (content,)
        checksum = _checksum(content).to_bytes(4, "little")
        record = symbol.auxiliary[0]
        symbol.auxiliary = (record[:_CHECKSUM] + checksum + record[_CHECKSUM + 4 :],)


def _renumbered(model: CoffModel, part: MutableCoffSection, symbols: Sequence[MutableCoffSymbol | None]) -> bytes:
    chain = model.coff.view.chain
    size = part.size
    if size % _WORD or size > _LARGEST:
        raise HostError(
            f"section '{part.title}' holds {size} bytes, which are no symbol numbers",
            hint="compile the object again",
            chain=chain,
        )
    old = model.coff.view.read(part.offset, size)
    new = bytearray()
    for at in range(0, size, _WORD):
        number = int.from_bytes(old[at : at + _WORD], "little")
        symbol = symbols[number] if number < len(symbols) else None
        if symbol is None or symbol.index < 0:
            raise HostError(
                f"section '{part.title}' contains a .symidx ({number}) that is incorrect or was stripped",
                hint="compile the host without what would be removed",
                chain=chain,
            )
        new += symbol.index.to_bytes(_WORD, "little")
    return bytes(new)


def _checksum(content: bytes) -> int:
    """Return LLVM's ``JamCRC`` that starts at 0: CRC-32 without its inversions."""
    import zlib

    return zlib.crc32(content, 0xFFFFFFFF) ^ 0xFFFFFFFF
