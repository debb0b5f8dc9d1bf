"""The evidence of ELF programs and libraries that needs no code: what they import and define by name, and entries.

What a file imports survives ``strip``. A program with the runtime in it and without symbols shows no names at all, so
that nothing can be said of it here.
"""

from __future__ import annotations

from fatpack.binary.elf import constants
from fatpack.binary.elf.symbol_tables import STRINGS, read_symbol_tables, section_budget
from fatpack.binary.memory import HostMemory, MemorySection, MemorySymbol
from fatpack.registration.analysis import entries, functions

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from fatpack.binary.elf.file import ElfFile

MACHINES = {62: "x86-64", 183: "aarch64", 3: "i386"}

#: LIMIT: symbols with one of the words in their names that are read. Libraries of CUDA have some ten thousand stubs.
_MAX_SYMBOLS = 1 << 17

#: SHF_EXECINSTR, SHF_TLS; STT_FUNC, STB_LOCAL
_EXECUTABLE, _THREADS, _STT_FUNC, _LOCAL = 4, 0x400, 2, 0


#: what is looked for in tables of strings, besides the functions' whole names
STUBS = functions.STUB.encode()
LINKS = functions.LINKED_BINARY.encode()
NAME_PARTS = (STUBS, functions.HIP_IMAGE.encode(), LINKS)

#: what the functions' names start with: a file has few of these, and each name is a search of its own
_BEGINNINGS = (b"__cuda", b"cudaLaunch", b"__hip", b"hipLaunch", b"__tgt_", b"__sycl_")


class LinkedElfMemory(HostMemory):
    """An ELF program with the symbols that matter, and its sections. Raises FormatError for damaged tables."""

    def __init__(self, elf: ElfFile) -> None:
        self._elf = elf
        machine = MACHINES.get(elf.header.machine, "")
        symbols = list(find_symbols(elf))
        super().__init__(elf.view, machine, elf.layouts.word, loaded_sections(elf), symbols, is_windows=False)

    def pointers(self, section: MemorySection) -> Mapping[int, int]:
        """Return none: what is in place is enough for counting entries."""
        return {}


def loaded_sections(elf: ElfFile) -> list[MemorySection]:
    """Return the sections that are loaded, without those of threads, which have the addresses of others."""
    sections, left = [], section_budget(elf.view)
    for section in elf.sections():
        if section.flags & constants.ALLOC and section.size and not section.flags & _THREADS:
            is_there = section.end <= len(elf.view) and section.stored_size <= left
            stored = section.stored_size if is_there else 0
            left -= stored
            data = elf.view.slice(section.offset if stored else 0, stored)
            is_code = bool(section.flags & _EXECUTABLE)
            name = elf.name(section)
            sections.append(MemorySection(section.index, name, section.address, section.size, data, is_code))
    return sections


def find_symbols(elf: ElfFile, parts: Sequence[bytes] = NAME_PARTS, *, wholes: bool = True) -> Iterator[MemorySymbol]:
    """Yield the symbols of a runtime's functions, and those with one of some parts in their names."""
    layout, left = elf.layouts.symbol, _MAX_SYMBOLS
    name, value, size, info, index = map(layout.position, ("name_offset", "value", "size", "info", "section_index"))
    searched: dict[tuple[int, int], dict[int, str]] = {}
    for table, strings in read_symbol_tables(elf, constants.SYMTAB, constants.DYNSYM):
        key = strings.offset, strings.size
        if key not in searched:
            searched[key] = find_names(elf.contents(strings).head(0, STRINGS), parts, wholes=wholes)
        places = searched[key]
        if not places:
            continue
        data = elf.contents(table)
        for row in layout.struct.iter_unpack(data.head(0, len(data) - len(data) % layout.size)):
            text = places.get(row[name])
            if text and left:
                left -= 1
                defined = row[index] != 0
                kind = row[info] & 15
                yield MemorySymbol(text, row[value], row[size], kind == _STT_FUNC, defined, row[info] >> 4 == _LOCAL)


def find_names(strings: bytes, parts: Sequence[bytes] = NAME_PARTS, *, wholes: bool = True) -> dict[int, str]:
    """Return place → name of the strings that are the name of a runtime's function, or have one of some parts.

    The end of a longer name stands for a name of its own.
    """
    found: dict[int, str] = {}
    beginnings = tuple(each.decode() for each in _BEGINNINGS if each in strings) if wholes else ()
    for whole in sorted(name for name in functions.FUNCTION_NAMES if name.startswith(beginnings)):
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
    """Return how many offload entries a program has of each kind."""
    found: dict[str, int] = {}
    for table in entries.find_entry_tables(file):
        for entry in table.entries:
            found[entry.kind] = found.get(entry.kind, 0) + 1
    return found
