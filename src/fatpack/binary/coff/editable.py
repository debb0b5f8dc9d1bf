"""Checks of COFF objects before an edit: everything is inside the file, in the usual order, and all references known.

All compilers write the same order: header, section table, contents and relocations of the sections, symbols, strings.
Only such objects are edited. Truncated objects fail these checks; an edit would hide that they are truncated.
"""

from __future__ import annotations

from fatpack.binary import section_names
from fatpack.binary.coff.layout import (
    FORMAT,
    RELOCATION,
    SIZES_PREFIX,
    STATIC,
    UNINITIALIZED,
    CoffSection,
    is_device_name,
    name_offset,
)
from fatpack.binary.coff.reader import CoffObject, coff_kind
from fatpack.binary.coff.tables import relocation_rows, symbol_name_offset, symbol_rows
from fatpack.errors import BadValue, HostError
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from fatpack.io.source import View

    CoffPart = tuple[int, int, int, bool]

#: Kinds of objects that cannot be edited → reason and alternative
_REFUSED = {
    "import": ("this is an import object, which has no sections", "edit the objects of the library itself"),
    "anonymous": (
        "this object holds the compiler's intermediate code (/GL), and only that compiler knows its layout",
        "compile without whole-program optimisation",
    ),
}

#: machine → relocation type → size of the patched bytes, for types whose whole addend is in them
_PLAIN_RELOCATIONS: Mapping[int, Mapping[int, int]] = {
    0x8664: {1: 8, 2: 4, 3: 4, 4: 4, 10: 2, 11: 4},
    0x014C: {6: 4, 7: 4, 10: 2, 11: 4, 20: 4},
    0xAA64: {1: 4, 2: 4, 8: 4, 13: 2, 14: 8},
}


class DefinedCoffSymbol(Record):
    """A symbol in an edited section; ``at`` is the position of its record, ``index`` its number."""

    index: int
    at: int
    name: str
    value: int
    section: int
    storage_class: int
    aux_count: int

    @property
    def is_section_definition(self) -> bool:
        """True if it only describes the section: compilers write one such symbol for each section."""
        return self.storage_class == STATIC and self.value == 0 and self.aux_count > 0


#: the section with DPC++'s symbols of a fat object's images
_SYMBOLS = section_names.SYCL_SYMBOLS.encode()


class EditableObject(CoffObject):
    """A COFF object that passed the checks. Raises HostError if it must not be edited, FormatError if it is damaged."""

    def __init__(self, view: View) -> None:
        what = coff_kind(view)
        if what in _REFUSED:
            problem, hint = _REFUSED[what]
            raise HostError(problem, hint=hint, chain=view.chain)
        super().__init__(view)
        self.headers = list(self.rows())
        #: End of the contents of sections: start of the symbols, or end of an object without any.
        self.body_end = self.symbol_offset or len(view)
        self._check_symbols()
        #: The ranges of all sections: (start, size, section number, whether they are relocations)
        self.parts: list[CoffPart] = []
        for number, row in enumerate(self.headers, 1):
            self._add_parts(CoffSection(number, *row))

    @property
    def body_start(self) -> int:
        """The first position of a section's bytes; bytes between it and the section table are free."""
        return min((part[0] for part in self.parts), default=self.body_end)

    @property
    def part_ends(self) -> list[int]:
        """The end of the section table, and the ends of the sections' parts in order."""
        return sorted((self.table_end, *(start + size for start, size, _, _ in self.parts)))

    def header(self, number: int) -> CoffSection:
        """Return a section's header by its number, from 1 on."""
        return CoffSection(number, *self.headers[number - 1])

    def section_name(self, number: int) -> bytes:
        """Return a section's name; the stored bytes if it cannot be resolved."""
        stored = self.headers[number - 1][0]
        try:
            return self.name(stored, self.strings())
        except BadValue:
            return stored

    def title(self, number: int) -> str:
        """Return a section's number and name for errors."""
        return f"section {number} ({self.section_name(number).decode('utf-8', 'backslashreplace')})"

    def is_device(self, number: int) -> bool:
        """Return whether a section's name is that of device code, or of its description in a fat object."""
        stored = self.headers[number - 1][0]
        if stored.rstrip(b"\0") == _SYMBOLS:
            return True
        # All other such names are longer than the 8 bytes of a short name.
        if not stored.startswith(b"/"):
            return False
        name = self.section_name(number)
        return is_device_name(name) or name.startswith(SIZES_PREFIX)

    def section(self, number: int, *, is_removed: bool = False) -> CoffSection:
        """Return the section of that number if its device code can be replaced. Raises HostError.

        With ``is_removed`` it may be empty, as images of fat objects may be.
        """
        if not 1 <= number <= len(self.headers):
            raise HostError(f"no section {number}; the object has {len(self.headers)}", chain=self.view.chain)
        if not self.is_device(number):
            raise HostError(f"{self.title(number)} is no section of device code", chain=self.view.chain)
        section = self.header(number)
        if (not section.raw_size and not is_removed) or section.flags & UNINITIALIZED:
            raise HostError(
                f"{self.title(number)} has no contents", hint="embed a new section instead", chain=self.view.chain
            )
        if section.relocation_count:
            raise HostError(
                f"{self.title(number)} is patched by the linker",
                hint="only contents that stay as they are can be exchanged or removed; compile it again",
                chain=self.view.chain,
            )
        return section

    def check_alone(self, numbers: Collection[int]) -> None:
        """Raise BadValue if contents of one of the sections share bytes with anything else."""
        end, owner = 0, 0
        for start, size, number, _ in sorted(self.parts):
            if start < end and (owner in numbers or number in numbers):
                raise self._bad(self.title(number), f"it shares bytes with {self.title(owner)}")
            if start + size > end:
                end, owner = start + size, number

    def last_name_used(self, section_count: int) -> int:
        """Return the largest position in the string table that the first so many sections, or symbols, refer to."""
        largest = max((name_offset(row[0]) or 0 for row in self.headers[:section_count]), default=0)
        for _, row, _ in symbol_rows(self.symbol_table(), self.symbol_layout):
            largest = max(largest, symbol_name_offset(row[0]) or 0)
        return largest

    def symbols_in(self, numbers: Collection[int]) -> list[DefinedCoffSymbol]:
        """Return the symbols defined in some sections."""
        found = []
        for index, row, _ in symbol_rows(self.symbol_table(), self.symbol_layout):
            stored, value, section, _, storage_class, auxiliary = row
            if index + auxiliary >= self.symbol_count:
                raise self._bad("symbol table", f"the records of symbol {index} continue after its end")
            if section in numbers:
                at, name = self.symbol_offset + index * self.symbol_layout.size, self.symbol_name(stored) or "a symbol"
                found.append(DefinedCoffSymbol(index, at, name, value, section, storage_class, auxiliary))
        return found

    def check_unused(self, symbols: Collection[DefinedCoffSymbol]) -> None:
        """Raise HostError if a relocation refers to one of the symbols."""
        by_index = {symbol.index: symbol for symbol in symbols}
        for number, _, _, symbol in self._relocations(by_index):
            raise HostError(
                f"{self.title(number)} refers to {by_index[symbol].name}, which is in the section",
                hint="the host's code needs it; compile the host without device code instead",
                chain=self.view.chain,
            )

    def check_addends(self, symbols: Collection[DefinedCoffSymbol]) -> None:
        """Raise HostError unless every reference to one of the symbols is to its first byte."""
        by_index = {symbol.index: symbol for symbol in symbols}
        for number, address, type, symbol in self._relocations(by_index):
            section, name = self.header(number), by_index[symbol].name
            width = _PLAIN_RELOCATIONS.get(self.machine, {}).get(type)
            if width is None or address + width > section.raw_size:
                raise HostError(
                    f"{self.title(number)} refers to {name} in a way fatpack cannot check (relocation type {type})",
                    hint="compile the host with the new device code instead",
                    chain=self.view.chain,
                )
            if self.view.read(section.raw_offset + address, width).strip(b"\0"):
                raise HostError(
                    f"{self.title(number)} refers to the inside of {name}",
                    hint="only a section that is used as a whole can get other contents",
                    chain=self.view.chain,
                )

    def _relocations(self, symbols: Mapping[int, DefinedCoffSymbol]) -> Iterator[tuple[int, int, int, int]]:
        """Yield (section number, address, type, symbol) of every relocation that refers to one of the symbols."""
        if not symbols:
            return
        for _, _, number, is_relocations in self.parts:
            if is_relocations:
                for address, symbol, type in relocation_rows(self.relocation_table(self.header(number))):
                    if symbol in symbols:
                        yield number, address, type, symbol

    def _check_symbols(self) -> None:
        if not self.symbol_offset:
            if self.symbol_count:
                raise self._bad("PointerToSymbolTable", "0, but there are symbols")
            return
        strings = self.strings()
        if self.symbol_offset < self.table_end or strings is None:
            raise self._bad("symbol table", "it and the string table are not whole inside the file", "cut short?")
        end = self.symbol_end + len(strings)
        if end != len(self.view):
            raise HostError(
                f"{len(self.view) - end} bytes follow the string table, where an object ends",
                hint="remove them if they are not needed",
                chain=self.view.chain,
            )

    def _add_parts(self, section: CoffSection) -> None:
        number = section.number
        if section.line_count:
            raise HostError(
                f"{self.title(number)} has COFF line numbers, whose places in the file symbols hold too",
                hint="compile it with debug information of today (CodeView or DWARF)",
                chain=self.view.chain,
            )
        if section.raw_size and not section.flags & UNINITIALIZED:
            self._add_part(section.raw_offset, section.raw_size, number, False)
        count = self.relocation_count(section)
        if count:
            self._add_part(section.relocation_offset, count * RELOCATION.size, number, True)

    def _add_part(self, start: int, size: int, number: int, is_relocations: bool) -> None:
        if start < self.table_end or start + size > self.body_end:
            what = "relocations" if is_relocations else "contents"
            raise self._bad(
                self.title(number),
                f"its {what} are not between the section table and the symbols",
                "the object is damaged, or laid out as no compiler does",
            )
        self.parts.append((start, size, number, is_relocations))

    def _bad(self, field: str, problem: str, hint: str = "") -> BadValue:
        offset = self.view.offset(self.table_offset if field.startswith("section") else 0)
        return BadValue(problem, format=FORMAT, offset=offset, field=field, hint=hint, chain=self.view.chain)
