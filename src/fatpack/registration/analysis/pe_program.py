"""PE programs and libraries as input of code analysis: imports, thunks, functions, constructors.

Pointers are in place, with the address at which the image expects to be loaded. Imports have a slot in the import
address table; linkers make thunks that jump through it. ``.pdata`` lists the functions that call others, also in
stripped images. Constructors are in ``.CRT$XC…`` (lld puts it into ``.rdata``) or ``.ctors`` (GNU ld: elsewhere): any
word with the address of a function may be one. (Microsoft PE and COFF specification.)
"""

from __future__ import annotations

from array import array
from bisect import bisect_right

from fatpack.binary.coff.layout import SYMBOL
from fatpack.binary.coff.tables import symbol_name_offset, symbol_rows
from fatpack.binary.memory import LONGEST, Constructor, MemorySection, MemorySymbol, itanium_name
from fatpack.binary.pe.reader import IMPORTS, UNWINDING, PeFile
from fatpack.errors import Truncated
from fatpack.registration.analysis import model, references
from fatpack.registration.analysis.registers import LinkedProgram

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Set

    from fatpack.io.source import View

_MACHINES = {0x8664: "x86-64", 0xAA64: "aarch64"}

#: IMAGE_SCN_MEM_EXECUTE; the type of a symbol that is a function
_CODE, _FUNCTION = 0x20000000, 0x20

#: LIMIT: bytes of the tables of imports and of functions, of symbols, and of a section that is searched for pointers
_TABLE, _SYMBOLS, _SEARCHED = 1 << 22, 1 << 26, 1 << 26

#: LIMIT: sections of one image
_SECTIONS = 1 << 12


class PeCodeProgram(LinkedProgram):
    """A PE program of 64 bits whose code can be followed. Raises FormatError for damaged headers."""

    def __init__(self, view: View) -> None:
        self._pe = pe = PeFile(view)
        self._base = pe.base
        super().__init__(view, code_machine(pe), 8, list(_sections(pe)), is_windows=True)
        #: start and end of the functions in the unwind table, relative to the base of the image
        self._ranges: list[tuple[int, int]] = []
        self._titles = dict(self._symbols())
        self._import()
        self.dynamic = frozenset(self.imports.values())
        self._thunks()
        self._data = {section.number: _words(section) for section in self.sections}
        begins = [*self._unwound(), *self._titles, *(at for at in self.imports if at not in self.slots)]
        begins += self._leaves()
        self.set_starts(begins)
        for start, name in self._titles.items():
            if model.is_runtime_function(name):
                self.imports.setdefault(start, name)

    def _directory(self, number: int) -> tuple[int, int]:
        """Return the address and the size in a data directory."""
        address, size = self._pe.directory(number)
        return (self._base + address if address else 0), min(size, _TABLE)

    def _bytes_at(self, address: int, size: int) -> bytes:
        section = self.section_at(address)
        if section is None:
            return b""
        at = address - section.address
        return section.data.head(at, size) if at < len(section.data) else b""

    def _import(self) -> None:
        """Name the slots of the import address table for runtime functions."""
        address, size = self._directory(IMPORTS)
        left = _TABLE // 8
        for at in range(address, address + size, 20):
            row = self._bytes_at(at, 20)
            names, slots = int.from_bytes(row[:4], "little"), int.from_bytes(row[16:20], "little")
            if not slots:
                break
            names = names or slots
            table = self._bytes_at(self._base + names, 8 * left)
            for number in range(len(table) // 8):
                entry = int.from_bytes(table[8 * number : 8 * number + 8], "little")
                left -= 1
                if not entry or not left:
                    break
                text = b"" if entry >> 63 else self._bytes_at(self._base + entry + 2, LONGEST).partition(b"\0")[0]
                name = text.decode("utf-8", "backslashreplace")
                if model.is_runtime_function(name):
                    slot = self._base + slots + 8 * number
                    self.imports[slot] = name
                    self.slots.add(slot)

    def _thunks(self) -> None:
        """Name the thunks that jump through a slot with a name."""
        for section in list(references.code_sections(self)) if self.slots else []:
            for at, slot in references.find_thunks(self, section, self.slots):
                self.imports[at] = self.imports[slot]

    def _unwound(self) -> Iterator[int]:
        """Yield the starts of the functions in the unwind table."""
        address, size = self._directory(UNWINDING)
        data = self._bytes_at(address, size)
        step = 3 if self.machine == "x86-64" else 2
        words = array("I", data[: len(data) - len(data) % (4 * step)])
        if step == 3:
            self._ranges = sorted(zip(words[::3], words[1::3], strict=True))
        yield from (self._base + start for start in words[::step] if start)

    def _leaves(self) -> Iterator[int]:
        """Yield the functions to which a word of data points and which the unwind table lacks: leaf functions.

        nvcc's constructor of relocatable device code is one: it takes addresses, and jumps to the registering function.
        Functions start at a multiple of 16, and outside of all others. (Microsoft, "x64 exception handling": leaf
        functions have no entry.)
        """
        starts = [start for start, _ in self._ranges]
        codes = [(each.address, each.end) for each in self.sections if each.is_code] if starts else []
        low, high = min(codes, default=(0, 0))[0], max((end for _, end in codes), default=0)
        for words in self._data.values():
            for value in {word for word in words if low <= word < high and not word & 15}:
                index = bisect_right(starts, value - self._base) - 1
                section = self.section_at(value)
                if section is None or not section.is_code:
                    continue
                if index < 0 or value - self._base >= self._ranges[index][1]:
                    yield value

    @property
    def has_variables(self) -> bool:
        """True if the image has a table of symbols, as those of MinGW have before they are stripped."""
        return bool(self._pe.symbol_offset and self._pe.symbol_count)

    def _variables(self, names: Set[str]) -> Iterator[MemorySymbol]:
        for address, symbol in self._symbols(is_function=False):
            name = itanium_name(symbol)
            if name in names:
                yield MemorySymbol(name, address, 0, False, True, True)

    def _symbols(self, *, is_function: bool = True) -> Iterator[tuple[int, str]]:
        """Yield the address and the name of the functions, or of all else, that the table of symbols has."""
        pe = self._pe
        size = min(pe.symbol_count * SYMBOL.size, _SYMBOLS)
        if not pe.symbol_offset or pe.symbol_offset + size > len(self.view):
            return
        strings = self.view.head(pe.symbol_offset + pe.symbol_count * SYMBOL.size, _SYMBOLS)
        addresses = {section.number: section.address for section in self.sections}
        for _, row, _ in symbol_rows(self.view.slice(pe.symbol_offset, size), SYMBOL):
            stored, value, number, type, _, _ = row
            if (type == _FUNCTION) is is_function and number in addresses:
                start = symbol_name_offset(stored)
                name = stored.rstrip(b"\0") if start is None else strings[start : start + LONGEST].partition(b"\0")[0]
                yield addresses[number] + value, name.decode("utf-8", "backslashreplace")

    def name_of(self, start: int) -> str:
        """Return the name of the function that starts at an address, "" if the file has none."""
        return self._titles.get(start, "")

    def stubs(self) -> Mapping[int, str]:
        """Return address → name of the stubs of kernels that have symbols."""
        return {start: name for start, name in self._titles.items() if model.STUB in name}

    def constructors(self) -> list[Constructor]:
        """Return the functions that may run before main: every function to which a word of data points."""
        found = []
        for section in self.sections:
            for number, value in enumerate(self._data[section.number]):
                if value > self._base and self.is_start(value):
                    found.append(Constructor(section.address + 8 * number, section.name, None, value))
        return found


def code_machine(pe: PeFile) -> str:
    """Return the machine of a 64-bit image whose code can be followed, "" for others."""
    return _MACHINES.get(pe.machine, "") if pe.word == 8 else ""


def _sections(pe: PeFile) -> Iterator[MemorySection]:
    left = 2 * len(pe.view)
    try:
        for count, section in enumerate(pe.sections()):
            size = section.virtual_size or section.raw_size
            stored = min(size, section.raw_size)
            if count >= _SECTIONS or section.raw_offset + stored > len(pe.view) or stored > left:
                continue
            left -= stored
            name = pe.name(section.stored_name).decode("utf-8", "backslashreplace")
            data = pe.view.slice(section.raw_offset, stored)
            is_code = bool(section.flags & _CODE)
            yield MemorySection(section.number, name, pe.base + section.virtual_address, size, data, is_code)
    except Truncated:
        return  # the scan of the host has reported it


def _words(section: MemorySection) -> array[int]:
    """Return the words of a section that may hold pointers; none for a section of device code."""
    size = len(section.data) if len(section.data) <= _SEARCHED and "fat" not in section.name else 0
    return array("Q", section.data.head(0, size - size % 8))
