"""Sections and relocations of COFF objects as in llvm-objcopy: referenced by object, so that numbers can change."""

from __future__ import annotations

from fatpack import limits
from fatpack.binary.coff.layout import (
    FORMAT,
    OVERFLOWED_RELOCATIONS,
    RELOCATION,
    SECTION,
    SECTION_DEFINITION,
    STATIC,
    name_offset,
)
from fatpack.binary.coff.tables import relocation_rows
from fatpack.binary.new_file import read_strings_at
from fatpack.errors import BadValue, HostError, LimitExceeded, Truncated
from fatpack.io.source import Source

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fatpack.binary.coff.layout import SectionRow
    from fatpack.binary.coff.objcopy.symbols import MutableCoffSymbol
    from fatpack.binary.coff.objcopy.writer import CoffModel
    from fatpack.binary.coff.reader import CoffObject
    from fatpack.io.source import Piece, View


#: If a count field has this value, and a flag is set, the first relocation has the count.
ESCAPED_COUNT = 0xFFFF


class MutableCoffSection:
    """A section that is copied from the old object to the new one.

    The first fields are those of its header. ``number`` counts from 1 in the new object and is 0 if the section was
    removed. Its bytes are ``stored_size`` bytes at the old ``offset``, or ``content``, with filler up to ``size``;
    ``new_offset`` is their new position. ``relocations`` is the position of the relocations, and ``relocation_count``
    their number.
    """

    __slots__ = (
        "address",
        "content",
        "flags",
        "line_count",
        "line_offset",
        "name",
        "new_offset",
        "number",
        "offset",
        "relocation_count",
        "relocations",
        "size",
        "stored_size",
        "virtual_size",
    )

    def __init__(self, row: SectionRow, name: bytes, number: int, content: Sequence[Piece] = ()) -> None:
        _, self.virtual_size, self.address, self.size, self.offset, self.relocations, *rest = row
        self.line_offset, self.relocation_count, self.line_count, self.flags = rest
        self.name = name
        self.number = number
        self.content = content
        self.stored_size = self.new_offset = 0

    @property
    def title(self) -> str:
        """The name as errors print it."""
        return self.name.decode("utf-8", "backslashreplace")


def read_strings(coff: CoffObject) -> View | None:
    """Return the string table with its size field; None if there is none. Raises FormatError if it is truncated."""
    if not coff.symbol_offset:
        return None
    strings = coff.strings()
    if strings is None:
        left = len(coff.view) - coff.symbol_end
        raise Truncated(
            needed=4,
            left=left,
            format=FORMAT,
            offset=coff.view.offset(coff.symbol_end),
            field="string table",
            chain=coff.view.chain,
        )
    if len(strings) > 4 and strings.read(len(strings) - 1, 1) != b"\0":
        raise coff_error(coff, "string table missing null terminator", coff.symbol_end, "string table")
    return strings


def coff_error(coff: CoffObject, problem: str, at: int, field: str) -> BadValue:
    """Return the error for a wrong field at a position."""
    return BadValue(problem, format=FORMAT, offset=coff.view.offset(at), field=field, chain=coff.view.chain)


def read_names_at(coff: CoffObject, strings: View | None, places: Sequence[int]) -> dict[int, bytes]:
    """Return the names at some offsets of the string table, which may be inside its size field."""
    if not places:
        return {}
    if strings is None or len(strings) <= 4 or not 0 <= min(places) <= max(places) < len(strings):
        raise coff_error(coff, "a name lies outside the string table", coff.symbol_end, "string table")
    return read_strings_at(strings.tobytes(), places, strings)


def read_sections(coff: CoffObject, strings: View | None, *, is_image: bool) -> list[MutableCoffSection]:
    """Return the sections of an object or image. Raises FormatError for sections outside the file."""
    rows = list(coff.rows())
    places = {row[0]: name_offset(row[0]) for row in rows if row[0].startswith(b"/")}
    names = read_names_at(coff, strings, [place for place in places.values() if place is not None])
    end = len(coff.view)
    parts = []
    total = 0
    for number, row in enumerate(rows, 1):
        place = places.get(row[0])
        part = MutableCoffSection(row, names[place] if place is not None else _short(row[0]), number)
        if part.flags & OVERFLOWED_RELOCATIONS:
            _count_relocations(coff, part)
        # Without a pointer there are no bytes, whatever the size: uninitialised data.
        if part.offset and part.size:
            # In images, bytes after the size in memory are padding.
            part.stored_size = min(part.size, part.virtual_size) if is_image else part.size
            if part.offset + part.stored_size > end:
                raise _outside(coff, number, "contents")
        if part.relocation_count and part.relocations + part.relocation_count * RELOCATION.size > end:
            raise _outside(coff, number, "relocations")
        total += part.stored_size + part.relocation_count * RELOCATION.size
        parts.append(part)
    if total > limits.COPIES * end:
        raise LimitExceeded(
            "the sections overlap, and written separately they would take many times the bytes of the file",
            format=FORMAT,
            field="section table",
            expected=f"at most {limits.COPIES} times as many",
            hint=limits.advice("COPIES"),
            chain=coff.view.chain,
        )
    return parts


def _short(stored: bytes) -> bytes:
    """Return a name that is stored in place; one of 8 bytes has no NUL."""
    return stored if stored[-1] else stored.partition(b"\0")[0]


def _outside(coff: CoffObject, number: int, what: str) -> BadValue:
    at = coff.table_offset + (number - 1) * SECTION.size
    return coff_error(coff, f"the {what} of section {number} do not lie inside the file", at, "section header")


def _count_relocations(coff: CoffObject, part: MutableCoffSection) -> None:
    part.flags &= ~OVERFLOWED_RELOCATIONS
    if part.relocation_count == ESCAPED_COUNT:
        count = RELOCATION.read(coff.view, part.relocations)[0] - 1
        if count < 0:
            raise _outside(coff, part.number, "relocations")
        part.relocation_count = count
        part.relocations += RELOCATION.size


# Relocations name symbols by number: they are checked, and renumbered without holding them in memory.


class RenumberedCoffRelocations(Source):
    """Relocations of a view with new symbol numbers, computed when they are read."""

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
        found = relocation_rows(self._view.slice(start, end - start))
        block = b"".join(RELOCATION.pack(address, self._index(old), type) for address, old, type in found)
        return block[offset - start : offset - start + size]

    def _index(self, old: int) -> int:
        symbol = self._symbols[old]
        assert symbol is not None  # checked before
        return symbol.index


def _targets(coff: CoffObject, part: MutableCoffSection) -> Iterator[int]:
    """Yield the symbol number of every relocation of a section."""
    for _, number, _ in relocation_rows(_relocation_table(coff, part)):
        yield number


def _relocation_table(coff: CoffObject, part: MutableCoffSection) -> View:
    return coff.view.slice(part.relocations, part.relocation_count * RELOCATION.size)


def check_relocations(coff: CoffObject, part: MutableCoffSection, symbols: Sequence[MutableCoffSymbol | None]) -> None:
    """Raise FormatError unless every relocation names a symbol; ``symbols`` are indexed by old number."""
    count = len(symbols)
    for number in _targets(coff, part):
        if number >= count:
            raise coff_error(coff, "SymbolTableIndex out of range", part.relocations, "relocation")
        if symbols[number] is None:
            raise coff_error(coff, "invalid SymbolTableIndex", part.relocations, "relocation")


def check_kept_relocations(
    coff: CoffObject, part: MutableCoffSection, symbols: Sequence[MutableCoffSymbol | None]
) -> None:
    """Raise HostError if a relocation names a removed symbol."""
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
    """Return the relocations of a section with new symbol numbers; ``symbols`` are indexed by old number."""
    return RenumberedCoffRelocations(_relocation_table(coff, part), symbols).view()


# Sections of symbol numbers: tables of control flow guard and of exception continuations, the only contents that
# llvm-objcopy changes (``COFFWriter::finalizeSymIdxContents``, LLVM 22.1).

_NAMES = (b".gljmp$y", b".giats$y", b".gfids$y", b".gehcont$y")
_WORD = 4
_CHECKSUM = SECTION_DEFINITION.field_offset("checksum")

#: LIMIT: bytes of such a section: a number for each function of an object.
_LARGEST = 64 << 20


def renumber_symbol_sections(model: CoffModel) -> None:
    """Write new symbol numbers into such sections, and their checksums into the section definitions."""
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
