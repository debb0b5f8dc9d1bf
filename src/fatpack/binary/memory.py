"""The memory of a loaded host file: sections, functions and pointers by address, for every file format."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence, Set
    from typing import TypeAlias

    from fatpack.io.source import View

    Relocation: TypeAlias = tuple[int, str, int, int | None]
    """Offset of the place, kind of the result, address of the symbol, and the addend (None: it is in place)."""


#: LIMIT: bytes of a string. Names of C++ kernels have some hundred, seldom some thousand.
LONGEST = 8192

#: sections of writable data, and prefixes of the names of constant ones
_WRITTEN, _CONSTANT = (".data", ".bss", ".ldata", ".lbss", "__nv_managed_data__"), (".data.rel.ro",)

_X86_64, _AARCH64 = "x86-64", "aarch64"

#: (machine, whether it is for Windows) → argument registers, by their numbers in instructions
_ARGUMENTS = {
    (_X86_64, False): (7, 6, 2, 1, 8, 9),
    (_X86_64, True): (1, 2, 8, 9),
    (_AARCH64, False): tuple(range(8)),
    (_AARCH64, True): tuple(range(8)),
}


class MemorySection(Record):
    """A loaded section: its ``number`` in the file's table, its address range, and its bytes in the file."""

    number: int
    name: str
    address: int
    size: int
    data: View
    is_code: bool

    @property
    def end(self) -> int:
        """The address after its last byte."""
        return self.address + self.size


class MemorySymbol(Record):
    """A named symbol; one that is not ``is_defined`` has an invented address outside all sections."""

    name: str
    address: int
    size: int
    is_function: bool
    is_defined: bool
    is_local: bool
    is_weak: bool = False


class MemoryFunction(Record):
    """A function: the half-open address range of its code."""

    start: int
    end: int
    name: str


class Constructor(Record):
    """A function that runs before main: the address of the pointer to it, and its own address.

    ``priority`` is the number in the section's name, None without one.
    """

    place: int
    section: str
    priority: int | None
    function: int


class HostMemory:
    """The interface of all host files: bytes, strings and pointers by address, and the functions.

    ``machine`` is ``x86-64``, ``aarch64`` or another name. ``undefined``: names of symbols of other files, by the
    address that represents them here. ``is_linked``: whether addresses are those at run time (except the load base).
    """

    is_linked = True

    def __init__(
        self,
        view: View,
        machine: str,
        word: int,
        sections: Sequence[MemorySection],
        symbols: Sequence[MemorySymbol],
        *,
        is_windows: bool,
    ) -> None:
        self.view, self.machine, self.word, self.is_windows = view, machine, word, is_windows
        self.sections = sorted(sections, key=lambda section: section.address)
        self._starts = [section.address for section in self.sections]
        self._own_symbols = symbols
        self.undefined = {symbol.address: symbol.name for symbol in symbols if not symbol.is_defined}
        self.functions: list[MemoryFunction] = []
        self._function_starts: list[int] = []
        self.set_functions(symbols)
        self.arguments: Sequence[int] = _ARGUMENTS.get((machine, is_windows), ())
        self._bytes: dict[int, bytes] = {}
        self._by_place: list[tuple[int, int, int]] | None = None

    @property
    def symbols(self) -> Sequence[MemorySymbol]:
        """All symbols, or only the symbols that the caller needs."""
        return self._own_symbols

    def set_functions(self, symbols: Iterable[MemorySymbol]) -> None:
        """Set the functions from symbols."""
        self.functions = _functions(symbols, self)
        self._function_starts = [function.start for function in self.functions]

    def section_at(self, address: int) -> MemorySection | None:
        """Return the section at an address."""
        index = bisect_right(self._starts, address) - 1
        if index < 0:
            return None
        section = self.sections[index]
        return section if address < section.end else None

    def function_at(self, address: int) -> MemoryFunction | None:
        """Return the function at an address."""
        index = bisect_right(self._function_starts, address) - 1
        if index < 0:
            return None
        function = self.functions[index]
        return function if address < function.end else None

    def is_start(self, address: int) -> bool:
        """Return whether a function starts at an address."""
        index = bisect_right(self._function_starts, address) - 1
        return index >= 0 and self._function_starts[index] == address

    def content(self, section: MemorySection) -> bytes:
        """Return the bytes of a section, which are read once."""
        if section.number not in self._bytes:
            self._bytes[section.number] = section.data.tobytes()
        return self._bytes[section.number]

    def release_content(self) -> None:
        """Release the bytes of sections, which are read again if they are needed: code has up to hundreds of MB."""
        self._bytes.clear()

    def bytes_at(self, address: int, size: int) -> bytes:
        """Return the bytes of the file at an address, fewer if the section ends."""
        section = self.section_at(address)
        at = address - section.address if section is not None else 0
        return section.data.head(at, min(size, len(section.data) - at)) if section and at < len(section.data) else b""

    def string_at(self, address: int) -> str:
        """Return the string at an address of data, "" if there is none that could be a name."""
        section = self.section_at(address)
        if section is None or section.is_code or self.pointers(section).get(address) is not None:
            return ""
        at = address - section.address
        text = section.data.head(at, min(LONGEST, max(len(section.data) - at, 0)))
        end = text.find(b"\0")
        if end <= 0 or not text[:end].isascii() or not text[:end].decode().isprintable():
            return ""
        return text[:end].decode()

    def pointers(self, section: MemorySection) -> Mapping[int, int]:
        """Return address → value of the pointers in a section whose value differs from its bytes."""
        raise NotImplementedError

    def pointer_at(self, address: int) -> int | None:
        """Return the pointer at an address, None if the file has no bytes there."""
        section = self.section_at(address)
        if section is None:
            return None
        found = self.pointers(section).get(address)
        if found is not None:
            return found
        at = address - section.address
        stored = section.data.head(at, self.word) if at < len(section.data) else b""
        return int.from_bytes(stored, "little") if len(stored) == self.word else None

    def place(self, address: int) -> int:
        """Return the position of an address in the view, 0 if the file has no byte for it."""
        section = self.section_at(address)
        if section is None or address - section.address >= len(section.data):
            return 0
        return section.data.start - self.view.start + address - section.address

    def address_of(self, place: int) -> int | None:
        """Return the address of a position in the view, None if it is not loaded."""
        if self._by_place is None:
            start = self.view.start
            self._by_place = sorted((each.data.start - start, each.address, len(each.data)) for each in self.sections)
        index = bisect_right(self._by_place, (place, 1 << 64, 0)) - 1
        if index < 0 or place >= self._by_place[index][0] + self._by_place[index][2]:
            return None
        return self._by_place[index][1] + place - self._by_place[index][0]

    def constructors(self) -> list[Constructor]:
        """Return the functions that run before main."""
        raise NotImplementedError

    @property
    def has_variables(self) -> bool:
        """True if a table of symbols names the variables of the file."""
        return True

    def shadows(self, names: Set[str]) -> dict[str, int]:
        """Return name → address of host variables that represent device variables.

        Only writable variables defined in a single file are such shadows: every file of a program defines an inline
        variable. nvcc makes them local, with mangled C++ names.
        """
        found: dict[str, int] = {}
        wanted = {spelling: name for name in names for spelling in (name, f"_ZL{len(name)}{name}")}
        for each in self._variables(wanted.keys()):
            section = self.section_at(each.address)
            is_data = section is not None and section.name.startswith(_WRITTEN)
            if is_data and section is not None and not section.name.startswith(_CONSTANT):
                found.setdefault(wanted[each.name], each.address)
        return found

    def _variables(self, names: Set[str]) -> Iterable[MemorySymbol]:
        """Yield the symbols of data that have one of some names and are not weak."""
        return ()


def itanium_name(name: str) -> str:
    """Return a global variable's name as device code has it: Microsoft's ``?a@space@@3HA`` is ``_ZN5space1aE``."""
    parts, is_variable, _ = name.removeprefix("?").partition("@@3")
    if not name.startswith("?") or not is_variable or "?" in parts:
        return name
    scopes = parts.split("@")[::-1]
    return scopes[0] if len(scopes) == 1 else f"_ZN{''.join(f'{len(part)}{part}' for part in scopes)}E"


def _functions(symbols: Iterable[MemorySymbol], memory: HostMemory) -> list[MemoryFunction]:
    """Return the functions in order, without overlaps; one without a size ends at the next one."""
    found = sorted(
        {
            (each.address, not each.name, -each.size, each.name)
            for each in symbols
            if each.is_function and each.is_defined
        }
    )
    first: dict[int, tuple[int, str]] = {}
    for start, _, size, name in found:
        first.setdefault(start, (size, name))
    functions: list[MemoryFunction] = []
    following: int | None = None
    for start, (size, name) in reversed(first.items()):
        section = memory.section_at(start)
        if section is not None and section.is_code:
            end = start - size if size else section.end
            functions.append(
                MemoryFunction(start, min(end, section.end, end if following is None else following), name)
            )
        following = start
    functions.reverse()
    return functions


# Relocations of objects, in the order of their offsets, for all formats

#: an absolute address; one relative to the place; a call; the low bits of an address, after its page; the GOT slot
#: with an address
POINTER, RELATIVE, CALL, PAGE_OFFSET, GOT = "pointer", "relative", "call", "page offset", "got"


class ObjectRelocations:
    """The relocations of one section: ``rows`` and their ``places``, sorted."""

    __slots__ = ("places", "rows")

    def __init__(self, rows: list[Relocation]) -> None:
        rows.sort(key=lambda row: row[0])
        self.rows = rows
        self.places = [row[0] for row in rows]

    def between(self, start: int, end: int) -> Sequence[Relocation]:
        """Return the relocations whose places are in a half-open range."""
        return self.rows[bisect_left(self.places, start) : bisect_left(self.places, end)]


# Objects: relocations, and functions that run before main


class ObjectMemory(HostMemory):
    """An object with its sections at invented addresses. ``slots`` are the addresses of pointers that the linker makes.

    ``referred`` are the addresses of symbols used by the relocations that were read so far.
    """

    is_linked = False

    def __init__(
        self,
        view: View,
        machine: str,
        word: int,
        sections: Sequence[MemorySection],
        symbols: Sequence[MemorySymbol],
        *,
        is_windows: bool,
        slots: frozenset[int] = frozenset(),
    ) -> None:
        self.slots = slots
        self.referred: set[int] = set()
        self._tables: dict[int, ObjectRelocations] = {}
        self._pointers: dict[int, dict[int, int]] = {}
        super().__init__(view, machine, word, sections, symbols, is_windows=is_windows)

    def relocations(self, section: MemorySection) -> ObjectRelocations:
        """Return the effect of relocations on the bytes of a section, in the order of their places."""
        if section.number not in self._tables:
            self._tables[section.number] = ObjectRelocations(list(self._rows(section)))
        return self._tables[section.number]

    def _rows(self, section: MemorySection) -> Iterable[Relocation]:
        raise NotImplementedError

    def pointers(self, section: MemorySection) -> Mapping[int, int]:
        """Return address → value of the pointers in a section."""
        if section.number not in self._pointers:
            found = {}
            for at, way, target, addend in self.relocations(section).rows:
                if way == POINTER:
                    stored = addend if addend is not None else self._stored(section, at)
                    found[section.address + at] = target + stored
            self._pointers[section.number] = found
        return self._pointers[section.number]

    def _variables(self, names: Set[str]) -> Iterable[MemorySymbol]:
        for each in self.symbols:
            name = itanium_name(each.name)
            if name in names and each.is_defined and not each.is_function and not each.is_weak:
                yield each.replace(name=name)

    def _stored(self, section: MemorySection, at: int) -> int:
        return int.from_bytes(section.data.head(at, self.word), "little") if at < len(section.data) else 0
