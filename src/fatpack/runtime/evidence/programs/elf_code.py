"""ELF programs and libraries with what their code needs to be followed: pointers, imports, stubs of the PLT, functions.

Pointers are in place, or in RELATIVE relocations where a linker left zeros; a slot of the GOT has the name of what it
imports in its relocation. Functions are those of the symbols, or of ``.eh_frame_hdr``, which ``strip`` keeps. (gABI,
"Dynamic Linking"; LSB, "Exception Frames".)
"""

from __future__ import annotations

import struct
from array import array
from itertools import islice

from fatpack.elf import constants
from fatpack.runtime.evidence import functions
from fatpack.runtime.evidence.memory import Constructor, Symbol
from fatpack.runtime.evidence.programs.elf import LinkedElf, names_in
from fatpack.runtime.evidence.symbol_tables import STRINGS, budget, symbol_tables

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from fatpack.elf.file import ElfFile
    from fatpack.runtime.evidence.memory import Section

#: machine → types of relocation: RELATIVE; those that put the address of a symbol into a word
_TYPES = {"x86-64": (8, (1, 6, 7)), "aarch64": (1027, (257, 1025, 1026))}

#: LIMIT: bytes of relocations that are read, 24 each
_RELOCATIONS = 1 << 28

#: LIMIT: functions that a table of unwinding names
_MOST = 1 << 21

_CONSTRUCTORS = (".init_array", ".ctors")
_DATAREL_SDATA4, _UDATA4, _FUNCTION = 0x3B, 3, 2


class ElfProgram(LinkedElf):
    """An ELF program whose code can be followed. ``imports`` are the names of slots and stubs by address,
    ``dynamic`` those that relocations name."""

    def __init__(self, elf: ElfFile) -> None:
        self._values: dict[int, int] = {}
        self.imports: dict[int, str] = {}
        super().__init__(elf)
        self._relocate()
        self.dynamic = frozenset(self.imports.values())
        self._stubs()
        self.set_functions([*self.symbols, *self._all_functions(), *self.unwound()])
        for symbol in self.symbols:
            if symbol.is_defined and symbol.is_function and functions.is_of_runtime(symbol.name):
                self.imports.setdefault(symbol.address, symbol.name)

    def pointers(self, section: Section) -> Mapping[int, int]:
        """Return address → value of the pointers that relocations hold: those of the program, asked by address.

        A copy for every section would cost the square of the file, where sections lie over each other.
        """
        return self._values

    def pointer_at(self, address: int) -> int | None:
        """Return the pointer at an address, None where the file has no bytes."""
        value = self._values.get(address)
        if value is not None:
            return value
        section = self.section_at(address)
        if section is None or address - section.address + 8 > len(section.data):
            return None
        return int.from_bytes(section.data.head(address - section.address, 8), "little")

    def _relocate(self) -> None:
        elf = self._elf
        relative, symbolic = _TYPES.get(self.machine, (-1, ()))
        names, values = self._dynamic()
        left = min(_RELOCATIONS, budget(elf.view))
        for section in elf.sections():
            if section.type != constants.RELA or not section.flags & constants.ALLOC or section.size > left:
                continue
            left -= section.size
            data = elf.contents(section).tobytes()
            words = array("Q", data[: len(data) - len(data) % 24])
            for place, info, addend in zip(words[::3], words[1::3], words[2::3], strict=True):
                kind = info & 0xFFFFFFFF
                if kind == relative:
                    self._values[place] = addend
                elif kind in symbolic:
                    name = names.get(info >> 32)
                    if name:
                        self.imports[place] = name
                    elif info >> 32 in values:
                        self._values[place] = values[info >> 32] + addend & 0xFFFFFFFFFFFFFFFF

    def _dynamic(self) -> tuple[dict[int, str], dict[int, int]]:
        """Return number → name of the dynamic symbols of a runtime, and number → value of those defined here."""
        elf = self._elf
        names: dict[int, str] = {}
        values: dict[int, int] = {}
        layout = elf.layouts.symbol
        name, value, index = map(layout.position, ("name_offset", "value", "section_index"))
        # A program has one such table (gABI, "Sections").
        for table, strings in islice(symbol_tables(elf, constants.DYNSYM), 1):
            known = names_in(elf.contents(strings).head(0, STRINGS))
            data = elf.contents(table)
            for row_number, row in enumerate(layout.struct.iter_unpack(data.head(0, len(data) - len(data) % 24))):
                if row[index]:
                    values[row_number] = row[value]
                if row[name] in known and functions.is_of_runtime(known[row[name]]) and not row[index]:
                    names[row_number] = known[row[name]]
        return names, values

    def _stubs(self) -> None:
        """Name the stubs of the PLT that jump through a slot with a name."""
        for section in self.sections:
            if not section.is_code or not section.name.startswith((".plt", ".iplt")):
                continue
            code = self.content(section)
            for start, slot in _slots(self.machine, section.address, code):
                if slot in self.imports:
                    self.imports[start] = self.imports[slot]

    def constructors(self) -> list[Constructor]:
        """Return the functions that run before main."""
        found = []
        for section in self.sections:
            if section.name.startswith(_CONSTRUCTORS):
                for place in range(section.address, section.address + len(section.data) - 7, 8):
                    value = self.pointer_at(place)
                    if value and self.section_at(value) is not None:
                        found.append(Constructor(place, section.name, None, value))
        return found

    def _all_functions(self) -> Iterator[Symbol]:
        """Yield the functions that have symbols."""
        elf = self._elf
        layout, largest = elf.layouts.symbol, 8192
        name, value, size, info, index = map(layout.position, ("name_offset", "value", "size", "info", "section_index"))
        last, strings, left = None, b"", 0
        for table, names in symbol_tables(elf, constants.SYMTAB, constants.DYNSYM):
            if (names.offset, names.size) != last:
                last, strings = (names.offset, names.size), elf.contents(names).head(0, STRINGS)
                left = 4 * len(strings) + (1 << 20)
            data = elf.contents(table)
            for row in layout.struct.iter_unpack(data.head(0, len(data) - len(data) % layout.size)):
                if row[info] & 15 == _FUNCTION and row[index] and left > 0:
                    end = strings.find(b"\0", row[name], row[name] + largest)
                    left -= max(end - row[name], 0)
                    text = strings[row[name] : end].decode("utf-8", "backslashreplace")
                    yield Symbol(text, row[value], row[size], True, True, True)

    def unwound(self) -> Iterator[Symbol]:
        """Yield the functions that the table of unwinding names."""
        header = next((section for section in self.sections if section.name == ".eh_frame_hdr"), None)
        if header is None:
            return
        data = self.content(header)
        if len(data) < 12 or data[2] != _UDATA4 or data[3] != _DATAREL_SDATA4:
            return
        count = min(int.from_bytes(data[8:12], "little"), (len(data) - 12) // 8, _MOST)
        frames = next((section for section in self.sections if section.name == ".eh_frame"), None)
        stored = self.content(frames) if frames is not None else b""
        for start, frame in struct.iter_unpack("<ii", data[12 : 12 + 8 * count]):
            size = 0
            at = header.address + frame - frames.address if frames is not None else -1
            if at >= 0 and at + 16 <= len(stored):
                size = int.from_bytes(stored[at + 12 : at + 16], "little")
            yield Symbol("", header.address + start, size, True, True, True)


def _slots(machine: str, base: int, code: bytes) -> Iterator[tuple[int, int]]:
    """Yield where a stub starts, and the slot that it jumps through."""
    if machine == "x86-64":
        at = code.find(b"\xff\x25")
        while at >= 0 and at + 6 <= len(code):
            slot = base + at + 6 + int.from_bytes(code[at + 2 : at + 6], "little", signed=True)
            yield base + at, slot
            yield base + at - at % 16, slot  # with ENDBR64 and a prefix before it
            at = code.find(b"\xff\x25", at + 2)
        return
    for at in range(0, len(code) - 7, 4):
        first, second = struct.unpack_from("<II", code, at)
        if first & 0x9F00001F == 0x90000010 and second & 0xFFC003FF == 0xF9400211:  # adrp x16; ldr x17, [x16, …]
            page = (first >> 5 & 0x7FFFF) << 2 | first >> 29 & 3
            page -= 1 << 21 if page >> 20 else 0
            slot = (base + at & ~0xFFF) + (page << 12) + (second >> 10 & 0xFFF) * 8
            yield base + at, slot
            yield base + at - 4, slot  # with BTI before it
