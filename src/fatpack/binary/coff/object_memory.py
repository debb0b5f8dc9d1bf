"""COFF objects in memory, for x86-64 and AArch64; the counterpart of ``binary.elf.object_memory`` for Windows."""

from __future__ import annotations

from fatpack.binary.coff.layout import UNINITIALIZED
from fatpack.binary.coff.reader import CoffObject
from fatpack.binary.coff.tables import relocation_rows, symbol_name_offset, symbol_rows
from fatpack.binary.memory import (
    CALL,
    PAGE_OFFSET,
    POINTER,
    RELATIVE,
    Constructor,
    MemorySection,
    MemorySymbol,
    ObjectMemory,
)
from fatpack.errors import FormatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.binary.coff.layout import CoffSection
    from fatpack.binary.memory import Relocation
    from fatpack.io.source import View

#: Machine → type of a relocation → its effect (PE Format, "COFF Relocations": IMAGE_REL_AMD64_…, IMAGE_REL_ARM64_…,
#: IMAGE_REL_I386_…)
_WAYS = {
    0x14C: {6: POINTER, 20: RELATIVE},
    0x8664: {1: POINTER, 2: POINTER, **dict.fromkeys(range(4, 10), RELATIVE)},
    0xAA64: {3: CALL, 5: RELATIVE, 6: PAGE_OFFSET, 14: POINTER},
}
_MACHINES = {0x8664: ("x86-64", 8), 0xAA64: ("aarch64", 8), 0x14C: ("i386", 4)}

_GAP, _STEP = 64, 16
_CODE, _FUNCTION, _STATIC, _IMPORT = 0x20, 0x20, 3, "__imp_"

#: prefixes of sections with pointers to constructors: those of Microsoft's runtime, and those of MinGW
_CONSTRUCTORS = (".CRT$XC", ".CRT$XI", ".ctors")
#: digits of a priority in such a name
_DIGITS = 5


class CoffObjectMemory(ObjectMemory):
    """A COFF object. Raises FormatError for damaged tables."""

    def __init__(self, view: View) -> None:
        coff = CoffObject(view)
        self._coff, self._ways = coff, _WAYS.get(coff.machine, {})
        self._headers: dict[int, CoffSection] = {}
        self._budget = 2 * len(view)  # sections of a hostile file overlap, and are longer than it together
        self._addresses: list[int | None] = []
        sections, slots = self._laid_out(), set[int]()
        symbols = self._symbols(sections, slots)
        machine, word = _MACHINES.get(coff.machine, ("", 8))
        super().__init__(view, machine, word, sections, symbols, is_windows=True, slots=frozenset(slots))

    def _laid_out(self) -> list[MemorySection]:
        coff, found, at, left = self._coff, list[MemorySection](), 1 << 16, 2 * len(self._coff.view)
        strings = coff.strings()
        for row in coff.sections():
            size = 0 if row.flags & UNINITIALIZED else row.raw_size
            is_there = size <= left and row.raw_offset + size <= len(coff.view)
            stored = size if is_there else 0
            left -= stored
            at += -at % _GAP
            try:
                name = coff.name(row.stored_name, strings).decode("utf-8", "backslashreplace")
            except FormatError:
                name = ""  # locate() reports it
            data = coff.view.slice(row.raw_offset if stored else 0, stored)
            found.append(MemorySection(row.number, name, at, row.raw_size, data, bool(row.flags & _CODE)))
            self._headers[row.number] = row
            at += row.raw_size + _GAP
        return found

    def _symbols(self, sections: list[MemorySection], slots: set[int]) -> list[MemorySymbol]:
        coff, symbols = self._coff, list[MemorySymbol]()
        strings = coff.strings()
        text = strings.tobytes() if strings is not None else b""
        above = max((section.end for section in sections), default=0)
        above += -above % (1 << 20) + (1 << 20)
        starts = {section.number: section.address for section in sections}
        names = {section.name for section in sections}
        budget = 4 * len(text) + (1 << 20)
        for number, row, _ in symbol_rows(coff.symbol_table(), coff.symbol_layout):
            stored, value, section, type, storage, _ = row
            address = above + number * _STEP if not section else None
            if section > 0 and section in starts:
                address = starts[section] + value
            self._addresses += [None] * (number - len(self._addresses))  # auxiliary records
            self._addresses.append(address)
            if address is None:
                continue
            name = stored.rstrip(b"\0")
            at = symbol_name_offset(stored)
            if at is not None:
                end = text.find(b"\0", at, at + 8192)
                name = text[at:end] if end > at and budget > 0 else b""
                budget -= len(name)
            title = name.decode("utf-8", "backslashreplace")
            if not title or (storage == _STATIC and title in names):
                continue
            if not section and title.startswith(_IMPORT):
                title = title.removeprefix(_IMPORT)
                slots.add(address)
            is_function = type == _FUNCTION and section > 0
            symbols.append(MemorySymbol(title, address, 0, is_function, section > 0, storage == _STATIC))
        return symbols

    def _rows(self, section: MemorySection) -> Iterator[Relocation]:
        row, coff, addresses = self._headers[section.number], self._coff, self._addresses
        try:
            table = coff.relocation_table(row)
        except FormatError:
            return  # locate() reports it
        if len(table) > self._budget:
            return  # headers share tables, which only hostile ones do to this extent
        self._budget -= len(table)
        for place, symbol, type in relocation_rows(table):
            way, at = self._ways.get(type), place - row.virtual_address
            address = addresses[symbol] if symbol < len(addresses) else None
            if address is None or not type or not 0 <= at < section.size:  # type 0 does nothing
                continue
            self.referred.add(address)
            if way is not None:
                yield at, way, address, None

    def constructors(self) -> list[Constructor]:
        """Return the functions that run before main, in the order of the sections with their pointers."""
        found = []
        for section in self.sections:
            if section.name.startswith(_CONSTRUCTORS):
                priority = _priority(section.name)
                for place, value in sorted(self.pointers(section).items()):
                    found.append(Constructor(place, section.name, priority, value))
        return found


def _priority(name: str) -> int | None:
    """Return the priority in the name of a section, None without one: MinGW's counts down from 65535."""
    number = name[len(name.rstrip("0123456789")) :]
    if not number or len(number) > _DIGITS:
        return None
    return 65535 - int(number) if name.startswith(".ctors") else int(number)
