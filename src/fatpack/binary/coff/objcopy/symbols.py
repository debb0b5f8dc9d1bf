"""Symbols of COFF objects as in llvm-objcopy, with references to their sections and symbols instead of numbers."""

from __future__ import annotations

from fatpack.binary.coff.layout import BIG_SYMBOL, MAX_SECTIONS, SECTION_DEFINITION, STATIC, SYMBOL
from fatpack.binary.coff.objcopy.sections import coff_error, read_names_at
from fatpack.binary.coff.tables import symbol_name_offset, symbol_rows
from fatpack.errors import HostError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from fatpack.binary.coff.objcopy.sections import MutableCoffSection
    from fatpack.binary.coff.reader import CoffObject
    from fatpack.io.source import View

#: StorageClass of a symbol
_EXTERNAL, _FILE, _WEAK_EXTERNAL = 2, 103, 105
_ABSOLUTE = -1
#: COMDAT selection "associative": the section stays or is removed with another one
_ASSOCIATIVE = 5

#: Used bytes of an auxiliary record; in big objects two unused ones follow.
_AUX = SYMBOL.size
#: Offsets in a section definition: the section's number, in two halves
_NUMBER, _NUMBER_HIGH = SECTION_DEFINITION.field_offset("number"), 16
_SHORT_NAME = 8


class MutableCoffSymbol:
    """A symbol: its fields, its ``section``, and its auxiliary records without padding, one after the other.

    ``old_index`` is its record's number in the old table and ``index`` that in the new one, -1 if it was removed;
    ``ordinal`` counts symbols without their auxiliary records. ``special`` is its section number if that means no
    section. The symbol of a file has the ``file`` name in its auxiliary records. ``associated`` is the section with
    which this one's contents are kept or removed, ``target`` the default symbol of a weak one.
    """

    __slots__ = (
        "associated",
        "auxiliary",
        "file",
        "index",
        "name",
        "old_index",
        "ordinal",
        "section",
        "special",
        "storage_class",
        "target",
        "type",
        "value",
    )

    def __init__(self, old_index: int, value: int, special: int, type: int, storage_class: int) -> None:
        self.old_index = self.index = old_index
        self.ordinal = 0
        self.name = b""
        self.value = value
        self.special = special
        self.type = type
        self.storage_class = storage_class
        self.auxiliary: Sequence[bytes] = ()
        self.file = b""
        self.section: MutableCoffSection | None = None
        self.associated: MutableCoffSection | None = None
        self.target = -1

    @property
    def title(self) -> str:
        """The name as errors print it."""
        return self.name.decode("utf-8", "backslashreplace")

    def record_count(self, width: int) -> int:
        """Return the number of records of the symbol in a table with records of a given size."""
        return 1 + (-(-len(self.file) // width) if self.file else len(self.auxiliary))


def read_symbols(
    coff: CoffObject, parts: Sequence[MutableCoffSection], strings: View | None, *, is_image: bool
) -> list[MutableCoffSymbol]:
    """Return the symbols of an object. Raises FormatError if they are damaged."""
    symbols: list[MutableCoffSymbol] = []
    places: dict[int, int] = {}
    width = coff.symbol_layout.size
    for number, name, value, stored_section, type, storage_class, records in _records(coff):
        # A classic object has up to 65279 sections, so the number has no sign bit.
        is_high = not coff.is_big and stored_section < 0 and stored_section + 0x10000 <= MAX_SECTIONS
        section = stored_section + 0x10000 if is_high else stored_section
        symbol = MutableCoffSymbol(number, value, section, type, storage_class)
        place = symbol_name_offset(name)
        if place is not None:
            places[len(symbols)] = place
        else:
            symbol.name = name.partition(b"\0")[0]
        if section > 0:
            symbol.section = _section(coff, parts, section, "section number out of range")
        if storage_class == _FILE:
            symbol.file = records.rstrip(b"\0")
            if records and not symbol.file:
                raise HostError(
                    "the name of the source file is empty, of which llvm-objcopy makes a damaged symbol table",
                    hint="compile the object again",
                    chain=coff.view.chain,
                )
        elif records:
            symbol.auxiliary = [records[at : at + _AUX] for at in range(0, len(records), width)]
            _read_auxiliary(coff, symbol, parts, is_image=is_image)
        symbol.ordinal = len(symbols)
        symbols.append(symbol)
    # A name of zeros has offset 0, for which llvm-objcopy reads the table's size field as a name.
    names = read_names_at(coff, strings, list(places.values()))
    for index, place in places.items():
        symbols[index].name = names[place]
    return symbols


def _records(coff: CoffObject) -> Iterator[tuple[int, bytes, int, int, int, int, bytes]]:
    """Yield (number, stored name, value, section, type, storage class, auxiliary records) of all symbols."""
    layout, count = coff.symbol_layout, coff.symbol_count
    if not count:
        return
    if not coff.symbol_offset or coff.symbol_end > len(coff.view):
        raise coff_error(coff, "the symbols do not lie inside the file", 8, "symbol_offset")
    for number, row, records in symbol_rows(coff.symbol_table(), layout):
        name, value, section, type, storage_class, auxiliary = row
        if number + auxiliary >= count:
            place = coff.symbol_offset + number * layout.size
            raise coff_error(coff, "the auxiliary records run over the end of the table", place, "aux_count")
        yield number, name, value, section, type, storage_class, records


def _section(coff: CoffObject, parts: Sequence[MutableCoffSection], number: int, problem: str) -> MutableCoffSection:
    if not 0 < number <= len(parts):
        raise coff_error(coff, problem, coff.symbol_offset, "symbol table")
    return parts[number - 1]


def _read_auxiliary(
    coff: CoffObject, symbol: MutableCoffSymbol, parts: Sequence[MutableCoffSection], *, is_image: bool
) -> None:
    if not symbol.auxiliary:
        return
    record = symbol.auxiliary[0]
    # C++/CLI has absolute external symbols with a section definition.
    is_definition = symbol.storage_class == STATIC or (symbol.storage_class, symbol.special) == (_EXTERNAL, _ABSOLUTE)
    if is_definition and not is_image and record[_NUMBER + 2] == _ASSOCIATIVE:
        number = int.from_bytes(record[_NUMBER : _NUMBER + 2], "little")
        if coff.is_big:
            number |= int.from_bytes(record[_NUMBER_HIGH : _NUMBER_HIGH + 2], "little") << 16
        symbol.associated = _section(coff, parts, number, "unexpected associative section index")
    elif symbol.storage_class == _WEAK_EXTERNAL:
        symbol.target = int.from_bytes(record[:4], "little")


def renumber_symbols(symbols: Sequence[MutableCoffSymbol], width: int) -> bool:
    """Assign new numbers to all symbols, for records of a given size; return whether one changed."""
    number = 0
    has_changed = False
    for symbol in symbols:
        symbol.index = number
        has_changed |= number != symbol.old_index
        number += symbol.record_count(width)
    return has_changed


def finish_auxiliary_records(
    symbols: Sequence[MutableCoffSymbol], by_old_index: Sequence[MutableCoffSymbol | None], chain: Sequence[str]
) -> None:
    """Write new numbers of sections and symbols into auxiliary records. Raises HostError for removed ones."""
    for symbol in symbols:
        is_single = len(symbol.auxiliary) == 1
        if symbol.section is not None and symbol.storage_class == STATIC and is_single:
            # QUIRK(llvm-objcopy): any static symbol with one auxiliary record is taken for a section's definition.
            section = symbol.associated or symbol.section
            record = bytearray(symbol.auxiliary[0])
            record[_NUMBER : _NUMBER + 2] = (section.number & 0xFFFF).to_bytes(2, "little")
            record[_NUMBER_HIGH : _NUMBER_HIGH + 2] = (section.number >> 16).to_bytes(2, "little")
            symbol.auxiliary = (bytes(record),)
        if symbol.target >= 0 and is_single:
            target = by_old_index[symbol.target]
            if target is None or target.index < 0:
                raise HostError(
                    f"symbol '{symbol.title}' is missing its weak target",
                    hint="the host's code needs what would be removed",
                    chain=chain,
                )
            symbol.auxiliary = (target.index.to_bytes(4, "little") + symbol.auxiliary[0][4:],)


def pack_symbols(symbols: Sequence[MutableCoffSymbol], names: Mapping[bytes, int], *, is_big: bool) -> bytes:
    """Return the symbol table."""
    layout = BIG_SYMBOL if is_big else SYMBOL
    padding = bytes(layout.size - _AUX)
    records = []
    for symbol in symbols:
        name = symbol.name.ljust(_SHORT_NAME, b"\0")
        if len(name) > _SHORT_NAME:
            name = bytes(4) + names[symbol.name].to_bytes(4, "little")
        section = symbol.section.number if symbol.section is not None else symbol.special
        if not is_big:
            section = (section + 0x8000 & 0xFFFF) - 0x8000
        count = symbol.record_count(layout.size) - 1
        records.append(layout.pack(name, symbol.value, section, symbol.type, symbol.storage_class, count))
        if symbol.file:
            records.append(symbol.file.ljust(count * layout.size, b"\0"))
        else:
            records += [record + padding for record in symbol.auxiliary]
    return b"".join(records)
