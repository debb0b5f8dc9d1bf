"""ELF programs and libraries as input of code analysis: pointers, imports, PLT stubs, functions.

Pointers are in place, or in RELATIVE relocations if the linker left zeros. The relocation of a GOT slot has the name of
the import. (gABI, "Dynamic Linking".)
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left
from itertools import chain, islice

from fatpack.binary.elf.layout import ALLOC, ANDROID_RELA, DYNSYM, RELA, SHARED, SYMTAB
from fatpack.binary.elf.relocations import (
    MAX_RELOCATIONS,
    relocation_blocks,
    relocation_shape,
    unpacked_relocations,
)
from fatpack.binary.elf.segments import dynamic_entries
from fatpack.binary.elf.symbols import STRINGS, read_symbol_tables, read_symbols, section_budget
from fatpack.binary.memory import Constructor, HostMemory, MemorySection, MemorySymbol
from fatpack.registration.analysis import entries, model
from fatpack.registration.analysis.registers import LinkedProgram

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence, Set

    from fatpack.binary.elf.file import ElfFile, ElfSection
    from fatpack.binary.elf.relocations import RelocationBlock
    from fatpack.io.source import View


# Evidence that needs no code: the names that a program imports and defines, and its offload entries.
#
# The names of imports survive ``strip``. A program with a static runtime and without symbols has no names at all, so
# nothing is reported for it here.

MACHINES = {62: "x86-64", 183: "aarch64", 3: "i386"}

#: LIMIT: symbols with one of the name parts that are read. Libraries of CUDA have some ten thousand stubs.
_MAX_SYMBOLS = 1 << 17

#: bytes of a table of strings that are in memory at a time
_STRING_BLOCK = 8 << 20

#: SHF_EXECINSTR, SHF_TLS; STT_FUNC, STB_LOCAL
_EXECUTABLE, _THREADS, _STT_FUNC, _LOCAL = 4, 0x400, 2, 0


#: searched for in tables of strings, besides the functions' whole names
STUBS = model.STUB.encode()
LINKS = model.LINKED_BINARY.encode()
NAME_PARTS = (STUBS, model.HIP_IMAGE.encode(), LINKS)

#: prefixes of the functions' names: a file has few of these, and each name takes a search of its own
_BEGINNINGS = (b"__cuda", b"cudaLaunch", b"__hip", b"hipLaunch", b"__tgt_", b"__sycl_")


class LinkedElfMemory(HostMemory):
    """An ELF program with the symbols that matter, and its sections. Raises FormatError for damaged tables."""

    def __init__(self, elf: ElfFile) -> None:
        self._elf = elf
        machine = MACHINES.get(elf.header.machine, "")
        symbols = list(find_symbols(elf))
        super().__init__(elf.view, machine, elf.layouts.word, loaded_sections(elf), symbols, is_windows=False)

    def pointers(self, section: MemorySection) -> Mapping[int, int]:
        """Return none: the values in place are enough for counting entries."""
        return {}


def loaded_sections(elf: ElfFile) -> list[MemorySection]:
    """Return the loaded sections, without thread-local ones, whose addresses overlap others."""
    sections, left = [], section_budget(elf.view)
    for section in elf.sections():
        if section.flags & ALLOC and section.size and not section.flags & _THREADS:
            is_there = section.end <= len(elf.view) and section.stored_size <= left
            stored = section.stored_size if is_there else 0
            left -= stored
            data = elf.view.slice(section.offset if stored else 0, stored)
            is_code = bool(section.flags & _EXECUTABLE)
            name = elf.name(section)
            sections.append(MemorySection(section.index, name, section.address, section.size, data, is_code))
    return sections


def find_symbols(elf: ElfFile, parts: Sequence[bytes] = NAME_PARTS, *, wholes: bool = True) -> Iterator[MemorySymbol]:
    """Yield the symbols of runtime functions, and those with one of ``parts`` in their names."""
    left = _MAX_SYMBOLS
    searched: dict[tuple[int, int], dict[int, str]] = {}
    for table, strings in read_symbol_tables(elf, SYMTAB, DYNSYM):
        key = strings.offset, strings.size
        if key not in searched:
            searched[key] = _find_names(elf.contents(strings), parts, wholes=wholes)
        places = searched[key]
        if not places:
            continue
        for name, info, _, index, value, size in read_symbols(elf, table):
            text = places.get(name)
            if text and left:
                left -= 1
                yield MemorySymbol(text, value, size, info & 15 == _STT_FUNC, index != 0, info >> 4 == _LOCAL)


def _find_names(strings: View, parts: Sequence[bytes], *, wholes: bool = True) -> dict[int, str]:
    """Return the result of :func:`find_names` for a table of strings, a block of which is in memory at a time."""
    found: dict[int, str] = {}
    for at, block in _string_blocks(strings):
        found.update((at + place, name) for place, name in find_names(block, parts, wholes=wholes).items())
        if len(found) >= _MAX_SYMBOLS:  # the limit counts names of the whole table, one part after the other
            return find_names(strings.head(0, STRINGS), parts, wholes=wholes)
    return found


def _string_blocks(strings: View) -> Iterator[tuple[int, bytes]]:
    """Yield a table of strings in blocks that end after a NUL, the last one at its end, each with its place.

    The table of jaxlib's plugin for ROCm has 100 MB.
    """
    at, end, most = 0, min(len(strings), STRINGS), _STRING_BLOCK
    while at < end:
        block = strings.head(at, min(most, end - at))
        if at + len(block) < end:
            last = block.rfind(b"\0") + 1
            if not last:  # a longer string than a block
                most *= 2
                continue
            block = block[:last]
        yield at, block
        at, most = at + len(block), _STRING_BLOCK


def find_names(strings: bytes, parts: Sequence[bytes] = NAME_PARTS, *, wholes: bool = True) -> dict[int, str]:
    """Return the names of runtime functions in a table of strings, and names with one of ``parts``, by offset.

    The end of a longer name may serve as a name of its own.
    """
    found: dict[int, str] = {}
    beginnings = tuple(each.decode() for each in _BEGINNINGS if each in strings) if wholes else ()
    for whole in sorted(name for name in model.FUNCTION_NAMES if name.startswith(beginnings)):
        word = whole.encode() + b"\0"
        at = strings.find(word)
        while at >= 0:
            found[at] = whole
            at = strings.find(word, at + len(word))
    for part in parts:
        at = strings.find(part)
        while at >= 0 and len(found) < _MAX_SYMBOLS:
            start, end = strings.rfind(b"\0", 0, at) + 1, strings.find(b"\0", at)
            end = end if end >= 0 else len(strings)
            if end - start < 8192:
                found[start] = strings[start:end].decode("utf-8", "backslashreplace")
            at = strings.find(part, end)
    return found


def count_entry_kinds(file: HostMemory) -> dict[str, int]:
    """Return the number of offload entries of each kind in a program."""
    found: dict[str, int] = {}
    for table in entries.find_entry_tables(file):
        for entry in table.entries:
            found[entry.kind] = found.get(entry.kind, 0) + 1
    return found


# Starts of functions, from the unwind tables, which ``strip`` keeps.
#
# ``.eh_frame_hdr`` has them in order; without it ``.eh_frame`` itself is read. (LSB, "Exception Frames".)

#: LIMIT: functions in an unwind table
_MAX_FUNCTIONS = 1 << 21

_DATAREL_SDATA4, _UDATA4 = 0x3B, 3

#: DW_EH_PE: the encoding of an address relative to its own place, sizes by format, and the bit for signed formats
_PCREL, _SIZES, _SIGNED = 0x10, {0: 8, 2: 2, 3: 4, 4: 8, 10: 2, 11: 4, 12: 8}, 8


def function_starts(program: LinkedProgram) -> Iterable[int]:
    """Return the starts of the functions in the unwind tables of an ELF program."""
    by_name = {section.name: section for section in program.sections}
    header, frames = by_name.get(".eh_frame_hdr"), by_name.get(".eh_frame")
    if header is not None:
        data = program.content(header)
        if len(data) >= 12 and data[2] == _UDATA4 and data[3] == _DATAREL_SDATA4:
            count = min(int.from_bytes(data[8:12], "little"), (len(data) - 12) // 8, _MAX_FUNCTIONS)
            if count:
                base = header.address
                return [base + start for start in array("i", data[12 : 12 + 8 * count])[::2]]
    if frames is not None:
        return _walked(program.content(frames), frames.address)
    return ()


def _walked(data: bytes, base: int) -> Iterator[int]:
    """Yield the starts of functions from the FDEs of ``.eh_frame``, each with the encoding of its CIE."""
    encodings: dict[int, int] = {}
    at, left = 0, _MAX_FUNCTIONS
    while at + 8 <= len(data) and left:
        size, head = int.from_bytes(data[at : at + 4], "little"), 4
        if size == 0xFFFFFFFF:
            size, head = int.from_bytes(data[at + 4 : at + 12], "little"), 12
        if not size or at + head + size > len(data):
            return
        body = at + head
        lead = int.from_bytes(data[body : body + 4], "little")
        if not lead:
            encodings[at] = _encoding(data[body + 4 : body + size])
        else:
            how = encodings.get(body - lead, -1)
            place = body + 4
            width = _SIZES.get(how & 15, 0)
            if how >= 0 and width and place + width <= body + size:
                value = int.from_bytes(data[place : place + width], "little", signed=bool(how & _SIGNED))
                yield value + (base + place if how & 0x70 == _PCREL else 0)
                left -= 1
        at = body + size


def _encoding(body: bytes) -> int:
    """Return the encoding of the addresses that belong to a CIE: absolute without augmentation."""
    end = body.find(b"\0", 1)
    augmentation = body[1:end] if end > 0 else b""
    if not augmentation.startswith(b"z"):
        return 0 if not augmentation else -1
    at = end + 1
    for _ in range(3):  # code alignment, data alignment, register of the return address; then the length
        at = _offset_after(body, at)
    at = _offset_after(body, at)
    for letter in augmentation[1:]:
        if letter == 0x52:  # R
            return body[at] if at < len(body) else -1
        if letter == 0x50:  # P: how, and the address of the personality
            at += 1 + _SIZES.get(body[at] & 15 if at < len(body) else 0, 8)
        elif letter == 0x4C:  # L
            at += 1
    return 0


def _offset_after(body: bytes, at: int) -> int:
    """Return the offset after a LEB128 number."""
    while at < len(body) and body[at] & 0x80:
        at += 1
    return at + 1


#: machine → relocation types: RELATIVE; types that store the address of a symbol in a word; PLT slots
_TYPES = {"x86-64": (8, (1, 6, 7), 7), "aarch64": (1027, (257, 1025, 1026), 1026)}

_TABLES = (RELA, ANDROID_RELA)

#: LIMIT: bytes of relocations that are read, 24 each
_RELOCATIONS = 1 << 28

_CONSTRUCTORS = (".init_array", ".ctors", ".preinit_array")
_OF_CODE = ".ctors"

#: SHT_DYNAMIC; the tags of the address and size of the arrays of constructors: DT_PREINIT_ARRAY, DT_INIT_ARRAY
_DYNAMIC, _ARRAYS = 6, ((32, 33), (25, 27))

#: STT_OBJECT, STB_WEAK
_OBJECT, _WEAK = 1, 2

#: LIMIT: names that are searched for in the tables of symbols
_NAMES = 1024

#: LIMIT: bytes of a function's name
_LONGEST = 8192


class ElfCodeProgram(LinkedProgram):
    """An ELF program whose code can be followed. Raises FormatError for damaged tables."""

    def __init__(self, elf: ElfFile) -> None:
        self._elf = elf
        machine = MACHINES.get(elf.header.machine, "")
        sections, is_movable = loaded_sections(elf), elf.header.type == SHARED
        super().__init__(elf.view, machine, elf.layouts.word, sections, is_windows=False, is_movable=is_movable)
        self._found: list[MemorySymbol] | None = None
        self._titles: _Titles | None = None
        #: slots of symbols that this program defines, and those of them that PLT stubs use
        self._bound: dict[int, int] = {}
        self._bound_jumps: set[int] = set()
        self._relocate()
        self.dynamic = frozenset(self.imports.values())
        self._stubs()
        starts = list(function_starts(self))
        starts += self._symbol_starts()
        starts += [each.function for each in self.constructors()]
        self.set_starts(starts)
        self._defined()

    @property
    def symbols(self) -> Sequence[MemorySymbol]:
        """The symbols of runtime functions, of stubs, and of bundles that the link should bring."""
        if self._found is None:
            self._found = list(find_symbols(self._elf))
        return self._found

    def stubs(self) -> Mapping[int, str]:
        """Return address → name of the stubs of kernels that have symbols."""
        found = find_symbols(self._elf, [STUBS], wholes=False)
        return {each.address: each.name for each in found if each.is_function and each.is_defined}

    @property
    def has_variables(self) -> bool:
        """True if the program has its table of symbols: that of dynamic ones names no local variables."""
        return any(each.type == SYMTAB and each.size for each in self._elf.sections())

    def _variables(self, names: Set[str]) -> Iterator[MemorySymbol]:
        wanted = sorted(names)[:_NAMES]
        for table, strings in read_symbol_tables(self._elf, SYMTAB, DYNSYM):
            places: dict[int, str] = {}
            left = wanted
            for at, block in _string_blocks(self._elf.contents(strings)):
                before = b"\0" if at else b""  # the end of the block before it
                text = before + block
                found = {name: text.find(f"\0{name}\0".encode()) + 1 for name in left}
                places |= {at - len(before) + place: name for name, place in found.items() if place}
                left = [name for name, place in found.items() if not place]
            if not places:
                continue
            for place, info, _, index, value, _ in read_symbols(self._elf, table):
                if place in places and index and info & 15 == _OBJECT and info >> 4 != _WEAK:
                    yield MemorySymbol(places[place], value, 0, False, True, not info >> 4)

    def _relocate(self) -> None:
        elf = self._elf
        relative, symbolic, jumping = _TYPES.get(self.machine, (-1, (), -1))
        names, values = self._dynamic()
        left, unpacked = min(_RELOCATIONS, section_budget(elf.view)), min(MAX_RELOCATIONS, len(elf.view) // 8)
        held, shape = self._values, relocation_shape(elf)
        for section in elf.sections():
            if section.type not in _TABLES or not section.flags & ALLOC or section.size > left:
                continue
            left -= section.size
            data = elf.contents(section)
            blocks: Iterable[RelocationBlock] = relocation_blocks(data, shape, section.type, 0, len(data))
            if section.type == ANDROID_RELA:
                blocks = [unpacked_relocations(data, shape, unpacked)]
                unpacked -= len(blocks[0].places)
            for place, kind, number, addend in chain.from_iterable(block.rows() for block in blocks):
                if kind == relative and not number:
                    held[place] = (addend or 0) & 0xFFFFFFFFFFFFFFFF
                    continue
                if kind not in symbolic:
                    continue
                if number in names:
                    self.imports[place] = names[number]
                    self.slots.add(place)
                    if kind == jumping:
                        self.jumped.add(place)
                elif number in values:
                    held[place] = self._bound[place] = values[number] + (addend or 0) & 0xFFFFFFFFFFFFFFFF
                    if kind == jumping:
                        self._bound_jumps.add(place)

    def _dynamic(self) -> tuple[dict[int, str], dict[int, int]]:
        """Return the names of the dynamic symbols of a runtime by number, and the values of those defined here."""
        elf = self._elf
        names: dict[int, str] = {}
        values: dict[int, int] = {}
        # A program has one such table (gABI, "Sections").
        for table, strings in islice(read_symbol_tables(elf, DYNSYM), 1):
            known = _find_names(elf.contents(strings), ())
            for number, (place, _, _, index, address, _) in enumerate(read_symbols(elf, table)):
                if address:
                    values[number] = address
                if not index and place in known and model.is_runtime_function(known[place]):
                    names[number] = known[place]
        return names, values

    def _stubs(self) -> None:
        """Name the PLT stubs that jump through a slot with a name."""
        for section in self.sections:
            if not section.is_code or not section.name.startswith((".plt", ".iplt")):
                continue
            code = self.content(section)
            for start, slot in _slots(self.machine, section.address, code):
                if slot in self.imports:
                    self.imports[start] = self.imports[slot]

    def _defined(self) -> None:
        """Name the functions of a runtime that the program has itself, if it does not import them."""
        is_dynamic = not model.REGISTER_BINARY.keys().isdisjoint(self.dynamic)
        for symbol in find_symbols(self._elf, [LINKS], wholes=not is_dynamic):
            if symbol.is_defined and symbol.is_function and model.is_runtime_function(symbol.name):
                self.imports.setdefault(symbol.address, symbol.name)
        self._own_stubs()

    def _own_stubs(self) -> None:
        """Name the slots and the PLT stubs of runtime functions that the program defines itself.

        Libraries call their own exports through the PLT, so that another definition can replace them.
        """
        own = {at: name for at, name in self.imports.items() if at not in self.slots}
        for place, value in self._bound.items():
            if value in own:
                self.imports[place] = own[value]
                self.slots.add(place)
                if place in self._bound_jumps:
                    self.jumped.add(place)
        if self._bound:
            self._stubs()

    def constructors(self) -> list[Constructor]:
        """Return the functions that run before main, by the dynamic table if the program has one.

        The loader reads DT_INIT_ARRAY and DT_INIT_ARRAYSZ, and ignores sections (gABI, "Initialization and Termination
        Functions"). ``.ctors`` is run by code of the program itself.
        """
        found = []
        ranges = self._arrays()
        for section in self.sections:
            if section.name.startswith(_CONSTRUCTORS):
                start, end = section.address, section.address + len(section.data)
                for low, high in [(start, end)] if ranges is None or section.name.startswith(_OF_CODE) else ranges:
                    for place in range(max(low, start), min(high, end) - 7, 8):
                        value = self.pointer_at(place)
                        if value and self.section_at(value) is not None:
                            found.append(Constructor(place, section.name, None, value))
        return found

    def _arrays(self) -> list[tuple[int, int]] | None:
        """Return the addresses of the arrays of constructors in the dynamic table, None if the program has no table."""
        table = next((each for each in self._elf.sections() if each.type == _DYNAMIC and each.size), None)
        if table is None or table.end > len(self._elf.view):
            return None
        values = dict(dynamic_entries(self._elf, table.offset, table.size))
        found = [(values.get(start, 0), values.get(size, 0)) for start, size in _ARRAYS]
        return [(start, start + size) for start, size in found if start and size]

    def _symbol_starts(self) -> Iterator[int]:
        for table, _ in read_symbol_tables(self._elf, SYMTAB, DYNSYM):
            for _, info, _, index, address, _ in read_symbols(self._elf, table):
                if info & 15 == _STT_FUNC and index:
                    yield address

    def name_of(self, start: int) -> str:
        """Return the name of the function that starts at an address, "" if the file has none."""
        if self._titles is None:
            self._titles = _Titles(self._elf, self.begins())
        return self._titles.name_of(start)


class _Titles:
    """The places of the names of functions, by their starts: of half a million names, few are read."""

    def __init__(self, elf: ElfFile, begins: Sequence[int]) -> None:
        self._begins = begins
        #: tables of strings; of each start the number of its table from 1 on, 0 without a name, and the place in it
        self._tables: list[View] = []
        self._table_of = array("I", bytes(4 * len(begins)))
        self._places = array("I", bytes(4 * len(begins)))
        for table, names in read_symbol_tables(elf, SYMTAB, DYNSYM):
            self._tables.append(elf.contents(names))
            self._take(elf, table)

    def _take(self, elf: ElfFile, table: ElfSection) -> None:
        number, most = len(self._tables), len(self._begins)
        for place, info, _, index, address, _ in read_symbols(elf, table):
            if info & 15 == _STT_FUNC and index:
                at = bisect_left(self._begins, address)
                if at < most and self._begins[at] == address and not self._table_of[at]:
                    self._table_of[at], self._places[at] = number, place

    def name_of(self, start: int) -> str:
        """Return the name of the function that starts at an address, "" if the file has none."""
        at = bisect_left(self._begins, start)
        if at == len(self._begins) or self._begins[at] != start or not self._table_of[at]:
            return ""
        strings, place = self._tables[self._table_of[at] - 1], self._places[at]
        size = min(_LONGEST, min(len(strings), STRINGS) - place)
        text, end, _ = strings.head(place, size).partition(b"\0") if size > 0 else (b"", b"", b"")
        return text.decode("utf-8", "backslashreplace") if end else ""


def _slots(machine: str, base: int, code: bytes) -> Iterator[tuple[int, int]]:
    """Yield the start of each stub, and the slot that it jumps through."""
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
