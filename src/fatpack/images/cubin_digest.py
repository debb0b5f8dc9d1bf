"""Digests of the code of the kernels of a cubin; :mod:`fatpack.images.kernel` defines what they cover.

A function has the section ``.text.NAME``, which includes functions inlined into a kernel. Calls of a section are in
``.nv.callgraph``, pairs of u32 symbol numbers (caller, callee; numbers outside the table mean unknown callees), and in
its relocations. Attributes that a launch needs are in ``.nv.info.NAME``, and in ``.nv.info`` after the number of the
function's symbol; :mod:`fatpack.images.cubin_kernels` describes them.

Sources: ``cuobjdump -elf`` shows the tables and names the attributes, for cubins of ptxas and nvlink 13. With
``-lineinfo``, or in another folder, ptxas 13 writes the same attributes for other symbol numbers.
"""

from __future__ import annotations

from binascii import hexlify
from struct import Struct

from fatpack.binary.elf.device_elf import DeviceElfSections, SectionRelocations
from fatpack.binary.elf.layout import SYMTAB
from fatpack.binary.elf.quick_header import decode_name, decode_names
from fatpack.binary.elf.symbols import ElfSymbolTable
from fatpack.images.cubin import ENTRY, FUNC
from fatpack.images.cubin_kernels import INFO, parse_attributes, read_attributes
from fatpack.images.kernel import (
    digest_parts,
    digest_stated,
    digest_with_calls,
    header_digest_text,
    state_part,
    strip_unit_suffix,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.io.source import View

#: sh_type of ``.nv.callgraph``: SHT_LOPROC + 1
_CALLGRAPH = 0x70000001

_CONSTANTS, _INITIAL, _OWN_INFO = b".nv.constant", b".nv.global.init", b".nv.info."

#: sections without bytes in the file and without a function: reserved memory, and variables in no particular order
_RESERVED_SHARED, _UNSET = b".nv.shared.reserved.", b".nv.global"

#: sh_flags of loaded sections, and the starts of the names of sections that are covered otherwise, or that are made for
#: debuggers or to compile the code again
_ALLOC = 2
_OTHERWISE_COVERED = (_CONSTANTS, _UNSET, _RESERVED_SHARED, b".nv_debug", b".nv.merc", b".nv.capmerc")

#: attributes whose first u32, or each u32, is a symbol number; and the version of CUDA's API, which newer toolkits
#: raise and no launch needs
_PARAM_CBANK, _EXTERNS, _API_VERSION = 0x0A, 0x0F, 0x37
_COVERED = frozenset(range(256)) - {_API_VERSION}

#: how an attribute of one function is covered: its number, no name, and its value after this in hexadecimal
_ATTRIBUTES = [b"%d  " % number for number in range(256)]

#: formats of attributes with a size in two bytes, and of those in four bytes
_SIZED, _FOUR_BYTES = 4, (1, 2, 3)

#: LIMIT: attributes whose texts are kept, and bytes of one: of 14 attributes of a kernel, 12 are those of others too
_MOST_TEXTS, _LONG_ATTRIBUTE = 1 << 14, 64
_texts: dict[bytes, bytes] = {}
#: text of an attribute → that after its size
_stated: dict[bytes, bytes] = {}

#: st_info of the symbols of variables, and of sections, which have no names
_OBJECT, _SECTION = 1, 3

#: e_flags that are covered: the highest byte only marks builds with -lineinfo
_FLAGS = 0xFFFFFF

#: first reserved st_shndx
_RESERVED = 0xFF00


def _value_of(stored: bytes) -> bytes:
    """Return the value of a stored attribute."""
    return stored[_SIZED:] if stored[0] == _SIZED else stored[2 : 1 + stored[0]]


def _text_of(stored: bytes) -> bytes:
    """Return the text by which a digest covers an attribute of one function; texts of short attributes are cached."""
    value = _value_of(stored)
    text = _ATTRIBUTES[stored[1]] + hexlify(value[4:] if stored[1] == _PARAM_CBANK else value)
    if len(stored) <= _LONG_ATTRIBUTE:
        if len(_texts) >= _MOST_TEXTS:
            _texts.clear()
        _texts[stored] = text
    return text


def _state(text: bytes) -> bytes:
    """Return a text with its size before it, as it is hashed; short ones are cached."""
    stated = state_part(text)
    if len(text) <= 2 * _LONG_ATTRIBUTE:
        if len(_stated) >= _MOST_TEXTS:
            _stated.clear()
        _stated[text] = stated
    return stated


def codes(view: View) -> tuple[dict[str, bytes], bytes]:
    """Return the digest of each kernel's code, by its name, and that of the variables.

    Raises FormatError if a table is damaged.
    """
    cubin = _CubinDigests(view)
    return cubin.codes(), cubin.variables()


def functions(view: View) -> tuple[dict[str, bytes], list[bytes]]:
    """Return the digest of each function's own code, by its name, and texts about loaded sections of no function.

    Raises FormatError if a table is damaged.
    """
    cubin = _CubinDigests(view)
    return cubin.functions(), cubin.other_sections()


def check(view: View) -> None:
    """Read all tables that digests of code are made of, and make none.

    Attributes of kernels are left out: :func:`fatpack.images.cubin_kernels.facts` reads them. Raises the FormatError
    that :func:`codes` raises.
    """
    _CubinTables(view).check()


class _CubinDigests:
    def __init__(self, view: View) -> None:
        self._sections = DeviceElfSections(view)
        self._sections.hold()  # nearly all of it is read
        self._relocations = SectionRelocations(self._sections)
        symbols = ElfSymbolTable(view, (SYMTAB,))
        self._symbols = list(symbols)
        self._stored_names = symbols.names([row[0] for row in self._symbols])
        self._names = decode_names(self._stored_names)
        self._places = symbols.places(range(len(self._symbols)))
        #: symbol → the text that represents it; relocations name each many times
        self._meanings: dict[int, str] = {}
        self._words = Struct("<I" if self._sections.order == "little" else ">I")
        most = min(len(self._sections.headers), _RESERVED)
        #: number of a section → symbol number of its function; an entry precedes functions inside it
        self._functions: dict[int, int] = {}
        for index, (_, info, other, number) in enumerate(self._symbols):
            is_first = number not in self._functions or other & ENTRY
            if info & 15 == FUNC and 0 < number < most and is_first:
                self._functions[number] = index
        #: of :class:`_CubinTables`: the sections whose attributes were read as those of kernels
        self._kernels: frozenset[int] | None = None
        #: number of a section of code → numbers of its constant banks
        self._banks: dict[int, list[int]] = {}
        #: numbers of sections with variables that functions share
        self._shared: list[int] = []
        #: number of a section of code → attributes of its functions; 0 for those of no function
        self._attributes: dict[int, list[bytes]] = {}
        for index, (name, row) in enumerate(zip(self._sections.names, self._sections.headers, strict=True)):
            if row[1] == INFO:
                self._take(index, row[7] if name.startswith(_OWN_INFO) else 0)
            elif name.startswith(_CONSTANTS):
                if row[7] in self._functions:
                    self._banks.setdefault(row[7], []).append(index)
                else:
                    self._shared.append(index)
            elif name.startswith(_INITIAL):
                self._shared.append(index)

    def _take(self, index: int, owner: int) -> None:
        """Store the attributes in a section, each with its function."""
        if owner:
            self._attributes.setdefault(owner, []).extend(self._own_attributes(index))
            return
        for attribute, value in read_attributes(self._sections, index, _COVERED):
            of, about, covered = 0, "", value
            if attribute == _EXTERNS:
                covered = self._externs(value)
            elif attribute == _PARAM_CBANK:
                covered = value[4:]
            elif 8 <= len(value) < 12:
                # The value starts with the function's symbol number, which is not covered itself.
                (symbol,) = self._words.unpack_from(value)
                about, covered = self._referent(symbol), value[4:]
                number = self._symbols[symbol][3] if symbol < len(self._symbols) else 0
                of = number if number in self._functions else 0
                if of and self._functions[of] == symbol:
                    about = ""
            self._attributes.setdefault(of, []).append(f"{attribute} {about} {covered.hex()}".encode())

    def _own_attributes(self, index: int) -> list[bytes]:
        """Return the attributes in a section of one function as they are covered; a library has millions."""
        data, texts = self._sections.bytes_of(index), _texts
        low, high = (2, 3) if self._sections.order == "little" else (3, 2)
        found: list[bytes] = []
        at, last = 0, len(data) - 4
        while at <= last:
            end = at + 4
            if data[at] == _SIZED:
                end += data[at + low] | data[at + high] << 8
            elif data[at] not in _FOUR_BYTES:
                break
            attribute = data[at + 1]
            if attribute == _EXTERNS:
                found.append(_ATTRIBUTES[attribute] + hexlify(self._externs(_value_of(data[at:end]))))
            elif attribute != _API_VERSION:
                stored = data[at:end]
                text = texts.get(stored)
                found.append(_text_of(stored) if text is None else text)
            at = end
        if at != len(data):
            parse_attributes(self._sections, index, data, ())  # raises the error
        return found

    def _externs(self, value: bytes) -> bytes:
        """Return the names of the symbols whose numbers an attribute has."""
        words = [number for (number,) in self._words.iter_unpack(value[: len(value) & ~3])]
        return " ".join(sorted(map(self._referent, words))).encode()

    def codes(self) -> dict[str, bytes]:
        """Return the digest of each kernel's code."""
        calls: dict[str, list[str]] = {}
        own = {}
        for number, symbol in self._functions.items():
            name = self._names[symbol]
            own[name] = self._own(number, calls.setdefault(name, []))
        for caller, callee in self._graph():
            if caller in calls:
                calls[caller].append(callee)
        kernels = [
            self._names[index]
            for index, (_, info, other, number) in enumerate(self._symbols)
            if other & ENTRY and info & 15 == FUNC and number
        ]
        return digest_with_calls(own, calls, kernels)

    def functions(self) -> dict[str, bytes]:
        """Return the digest of each function without what it calls, kernels too."""
        return {self._names[symbol]: self._own(number, []) for number, symbol in self._functions.items()}

    def other_sections(self) -> list[bytes]:
        """Return texts about the loaded sections that are neither of a function nor in :meth:`variables`, sorted.

        Memory without bytes counts by its size. The second form of the code is left out: it contains line numbers.
        """
        found: list[bytes] = []
        for index, (name, row) in enumerate(zip(self._sections.names, self._sections.headers, strict=True)):
            if not row[2] & _ALLOC or name.startswith(_OTHERWISE_COVERED) or index in self._functions:
                continue
            content = self._sections.bytes_of(index) if self._sections.has_bytes(index) else b"%d" % row[5]
            moved = (
                f"{at} {kind} {self._referent(symbol)} {more}".encode()
                for at, kind, symbol, more in self._relocations.for_section(index)
            )
            plain = strip_unit_suffix(decode_name(name)).encode()
            found.append(digest_parts((plain, content, *moved)).hex().encode())
        return sorted(found)

    def variables(self) -> bytes:
        """Return the digest of everything that functions share: variables with their relocations, and header fields."""
        elf, names, headers = self._sections.elf, self._sections.names, self._sections.headers
        parts = [
            header_digest_text(elf.osabi, elf.abi_version, elf.flags & _FLAGS),
            *sorted(self._attributes.get(0, ())),
        ]
        for index in sorted(self._shared, key=lambda number: names[number]):
            parts += names[index], self._sections.bytes_of(index)
            parts += (
                f"{at} {self._referent(symbol)} {more}".encode()
                for at, _, symbol, more in self._relocations.for_section(index)
            )
        parts += sorted(
            name + b" %d" % row[5]
            for name, row in zip(names, headers, strict=True)
            if name.startswith(_RESERVED_SHARED)
        )
        variables = (
            (
                f"{self._referent(index)} {decode_name(names[number])} {0 if names[number] == _UNSET else value} {size}"
            ).encode()
            for index, ((_, info, _, number), (value, size)) in enumerate(zip(self._symbols, self._places, strict=True))
            if info & 15 == _OBJECT and 0 < number < len(names)
        )
        return digest_parts((*parts, *sorted(variables)))

    def _own(self, number: int, calls: list[str]) -> bytes:
        """Return the digest of a section of code with its constants; adds the functions that it names to ``calls``."""
        attributes = sorted(self._attributes.get(number, ()))
        stated: list[bytes | memoryview] = [b"".join([_stated.get(text) or _state(text) for text in attributes])]
        banks = sorted(self._banks.get(number, ()), key=lambda index: self._sections.names[index])
        for index in (number, *banks):
            bank = b"" if index == number else self._sections.names[index].split(b".")[2]
            code = self._sections.buffer_of(index)
            stated += state_part(bank), b"%d:" % len(code), code
            for offset, kind, symbol, addend in self._relocations.for_section(index):
                stated.append(state_part(f"{offset} {kind} {self._referent(symbol)} {addend}".encode()))
                if symbol < len(self._symbols) and self._symbols[symbol][1] & 15 == FUNC:
                    calls.append(self._names[symbol])
        return digest_stated(stated)

    def _graph(self) -> list[tuple[str, str]]:
        """Return (caller, callee) of all calls between known functions."""
        pairs = Struct("<II" if self._sections.order == "little" else ">II")
        most = len(self._symbols)
        found: list[tuple[str, str]] = []
        for index, row in enumerate(self._sections.headers):
            if row[1] != _CALLGRAPH:
                continue
            stored = self._sections.bytes_of(index)
            for caller, callee in pairs.iter_unpack(stored[: len(stored) - len(stored) % pairs.size]):
                if 0 < caller < most and 0 < callee < most:
                    found.append((self._names[caller], self._names[callee]))
        return found

    def _referent(self, symbol: int) -> str:
        """Return the text for a relocation's symbol: its name, or the section that it represents."""
        known = self._meanings.get(symbol)
        if known is None:
            known = self._meanings[symbol] = self._found(symbol)
        return known

    def _found(self, symbol: int) -> str:
        if symbol >= len(self._symbols):
            return ""
        _, info, _, number = self._symbols[symbol]
        if info & 15 == _SECTION and number < len(self._sections.names):
            return decode_name(self._sections.names[number])
        return strip_unit_suffix(self._names[symbol])


class _CubinTables(_CubinDigests):
    """The tables of a cubin, read for their damage alone: sections count as read, and their bytes are not copied."""

    def _take(self, index: int, owner: int) -> None:
        if owner in self._kernel_sections():
            self._sections.pass_over(index)
        else:
            read_attributes(self._sections, index, ())

    def _kernel_sections(self) -> frozenset[int]:
        """Return the numbers of the sections of the kernels, of kernels of one name the first."""
        if self._kernels is None:
            first: dict[bytes, int] = {}
            for (_, info, other, number), name in zip(self._symbols, self._stored_names, strict=True):
                if other & ENTRY and info & 15 == FUNC and number:
                    first.setdefault(name, number)
            self._kernels = frozenset(first.values())
        return self._kernels

    def check(self) -> None:
        """Read what digests of functions, calls and variables read, in their order."""
        for number in self._functions:
            for index in (number, *self._banks.get(number, ())):
                self._read(index)
        for index, row in enumerate(self._sections.headers):
            if row[1] == _CALLGRAPH:
                self._sections.pass_over(index)
        for index in self._shared:
            self._read(index)

    def _read(self, index: int) -> None:
        self._sections.pass_over(index)
        for _ in self._relocations.for_section(index):
            pass
