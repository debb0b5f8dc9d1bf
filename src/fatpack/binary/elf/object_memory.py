"""ELF objects in memory: loaded sections and undefined symbols get invented addresses."""

from __future__ import annotations

from fatpack.binary.elf.file import ElfFile
from fatpack.binary.elf.layout import ALLOC, NOBITS, REL, RELA, SECTION_SYMBOL, SYMTAB
from fatpack.binary.elf.relocations import section_relocations
from fatpack.binary.elf.symbols import read_symbols, section_budget
from fatpack.binary.memory import (
    CALL,
    GOT,
    PAGE_OFFSET,
    POINTER,
    RELATIVE,
    Constructor,
    MemorySection,
    MemorySymbol,
    ObjectMemory,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.binary.memory import Relocation
    from fatpack.io.source import View

#: e_machine → type of a relocation → its effect (System V ABI for AMD64, 1.0; ELF for the Arm 64-bit Architecture)
_WAYS: dict[int, dict[int, str]] = {
    3: {1: POINTER, 2: RELATIVE, 4: RELATIVE},
    62: {
        1: POINTER,
        2: RELATIVE,
        4: RELATIVE,
        9: GOT,
        10: POINTER,
        11: POINTER,
        41: GOT,
        42: GOT,
        43: GOT,
    },
    183: {257: POINTER, 274: RELATIVE, 277: PAGE_OFFSET, 282: CALL, 283: CALL, 312: GOT},
}
_MACHINES = {62: "x86-64", 183: "aarch64", 3: "i386"}

#: Smallest distance between sections; undefined symbols follow them.
_GAP, _STEP = 64, 16

_EXECUTABLE, _FUNCTION, _LOCAL, _WEAK, _TLS = 4, 2, 0, 2, 0x400

#: names of sections with pointers to constructors; a number after a dot is a priority
_CONSTRUCTORS = (".init_array", ".ctors")


class ElfObjectMemory(ObjectMemory):
    """An ELF object for x86-64 or AArch64. Raises FormatError for damaged tables."""

    def __init__(self, view: View) -> None:
        elf = ElfFile(view)
        self._elf = elf
        self._ways = _WAYS.get(elf.header.machine, {}) if elf.layouts.order == "little" else {}
        self._by_target: dict[int, list[int]] = {}
        self._budget = section_budget(view)
        sections, self._addresses = self._laid_out()
        self._symbol_rows, symbols = self._symbols(max((section.end for section in sections), default=0))
        machine = _MACHINES.get(elf.header.machine, "")
        super().__init__(view, machine, elf.layouts.word, sections, symbols, is_windows=False)

    def _laid_out(self) -> tuple[list[MemorySection], dict[int, int]]:
        """Return the loaded sections, and the addresses by number."""
        elf, found, addresses, at = self._elf, list[MemorySection](), dict[int, int](), 1 << 16
        left = section_budget(elf.view)
        types, infos, flags = elf.columns("type", "info", "flags")
        for number, (type, info, flag) in enumerate(zip(types, infos, flags, strict=True)):
            if type in (REL, RELA):
                self._by_target.setdefault(info, []).append(number)
            if not flag & ALLOC or flag & _TLS:
                continue
            section = elf.section(number)
            stored = section.stored_size if section.end <= len(elf.view) and section.stored_size <= left else 0
            left -= stored
            at += -at % max(min(section.align, 1 << 16), _GAP)
            data = elf.view.slice(section.offset if stored else 0, stored)
            found.append(MemorySection(number, elf.name(section), at, section.size, data, bool(flag & _EXECUTABLE)))
            addresses[number] = at
            at += max(section.size if type != NOBITS else min(section.size, 1 << 40), 1) + _GAP
        return found, addresses

    def _symbols(self, above: int) -> tuple[list[int | None], list[MemorySymbol]]:
        """Return the address of each symbol by number (None: of no section), and the named symbols."""
        elf = self._elf
        (types,) = elf.columns("type")
        table = next((elf.section(number) for number, type in enumerate(types) if type == SYMTAB), None)
        if table is None or not 0 < table.link < elf.section_count:
            return [], []
        strings = elf.contents(elf.section(table.link)).tobytes()
        addresses: list[int | None] = []
        symbols: list[MemorySymbol] = []
        above += -above % (1 << 20) + (1 << 20)
        budget = 4 * len(strings) + (1 << 20)  # only names in hostile files overlap that much
        for number, (name, info, _, place, value, size) in enumerate(read_symbols(elf, table)):
            kind = info & 15
            if place == 0:
                address: int | None = above + number * _STEP
            else:
                start = self._addresses.get(place)
                address = None if start is None else start + value
            addresses.append(address)
            if address is None or not number or kind == SECTION_SYMBOL:
                continue
            end = strings.find(b"\0", name, name + 8192)
            if name and end > name and budget > 0:
                budget -= end - name
                text = strings[name:end].decode("utf-8", "backslashreplace")
                is_local, is_weak = info >> 4 == _LOCAL, info >> 4 == _WEAK
                symbols.append(MemorySymbol(text, address, size, kind == _FUNCTION, place != 0, is_local, is_weak))
        return addresses, symbols

    def _rows(self, section: MemorySection) -> Iterator[Relocation]:
        for number in self._by_target.get(section.number, ()):
            yield from self._table(number, section)

    def _table(self, number: int, target: MemorySection) -> Iterator[Relocation]:
        elf, ways, addresses = self._elf, self._ways, self._symbol_rows
        table, count = elf.section(number), len(self._symbol_rows)
        if table.end > len(elf.view) or table.size > self._budget:
            return
        self._budget -= table.size
        for block in section_relocations(elf, table):
            for place, type, symbol, addend in block.rows():
                if symbol >= count or place >= target.size:
                    continue
                address = addresses[symbol]
                if address is None or not type:  # a relocation of type 0 does nothing
                    continue
                self.referred.add(address)
                way = ways.get(type)
                if way is not None:
                    yield place, way, address, addend

    def constructors(self) -> list[Constructor]:
        """Return the functions that run before main, in the order of the sections with their pointers."""
        found = []
        for section in self.sections:
            name = next((name for name in _CONSTRUCTORS if section.name.startswith(name)), None)
            if name is not None:
                number = section.name.removeprefix(name).removeprefix(".")
                priority = int(number) if number.isdecimal() and len(number) < 7 else None
                for place, value in sorted(self.pointers(section).items()):
                    found.append(Constructor(place, section.name, priority, value))
        return found
