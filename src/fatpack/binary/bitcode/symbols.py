"""The symbols of LLVM bitcode: read from the table that LLVM writes behind the modules, or from the modules themselves.

::

    42 43 C0 DE  IDENTIFICATION  MODULE … (one or more)  SYMTAB (a blob)  STRTAB (a blob)

    SYMTAB       version, producer, modules, comdats, symbols, …   u32 each; a range is a place and a count
    symbol       name at, size; name in the module at, size; comdat; flags                          24 bytes

LLVM's archiver always counts the symbols in the modules. The table was made by the same code (``IRSymtab.cpp``,
``ModuleSymbolTable.cpp``, LLVM 22.1) and says the same, with names mangled and symbols of inline assembly resolved.
Where it is missing (llvm-cat leaves it out, llvm-as too if there is inline assembly), ``bitcode_module`` reads the
modules.

QUIRK(LLVM 22): a file whose size is no multiple of 4, and any that cannot be read, is archived without symbols and
without an error: it may be of a future LLVM.
"""

from __future__ import annotations

import struct

from fatpack.codecs.bitstream import ENTER_BLOCK, BitReader
from fatpack.errors import FormatError, LimitExceeded, Unsupported
from fatpack.limits import limit_name_size
from fatpack.magic_numbers import BITCODE, WRAPPED_BITCODE
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.codecs.bitstream import Abbreviation, ArrayRun
    from fatpack.io.source import View


# The symbols of a bitcode module, from the records of its functions, variables, aliases and ifuncs.
#
# The way for modules without LLVM's own table of symbols. Which of them count is ``ModuleSymbolTable::getSymbolFlags``,
# how their names are spelled in an object ``Mangler::getNameWithPrefix`` of LLVM 22.1.
#
# LIMIT: symbols of inline assembly are not known, functions of i386 Windows that take their arguments off the stack
# (stdcall, fastcall, vectorcall) come without the marks of that, and modules older than LLVM 5, which keep names
# elsewhere, list nothing.

#: Record codes
_VERSION, _DATA_LAYOUT, _SECTION_NAME, _VARIABLE, _FUNCTION, _ALIAS, _IFUNC = 1, 3, 5, 7, 8, 14, 15

#: From this version of a module on, records start with the place and size of their name.
_VERSION_WITH_NAMES = 2

#: Record code → where, behind the name, it says that there is a body or an initialiser, and which value denies it
_BODIES = {_FUNCTION: (2, 1), _VARIABLE: (2, 0)}
_LINKAGE = 3

#: Numbers of linkages: none of these makes a definition that others see
_LOCAL = frozenset((3, 9, 13, 14))
_AVAILABLE_EXTERNALLY = 12

#: A variable's section, and the one whose variables LLVM leaves out
_SECTION, _METADATA = 5, b"llvm.metadata"

#: LIMIT: characters of a data layout and of a section's name.
_LONGEST_TEXT = 1024

#: Ways of mangling, as data layouts name them, that put an underscore before every name
_UNDERSCORED = ("o", "x")
#: … and that leave C++ names of Microsoft's as they are
_MICROSOFT = ("w", "x")


class BitcodeModule(Record):
    """A module of a ``stream``: its content is from bit ``at`` to ``end``, its names are in ``strings``.

    ``width`` is that of the IDs of its abbreviations.
    """

    stream: View
    at: int
    end: int
    width: int
    strings: View


def module_symbols(module: BitcodeModule) -> Iterator[bytes]:
    """Yield the symbols of a module that count. Raises FormatError."""
    reader = _ModuleSymbolReader(module)
    reader.read()
    for code in (_FUNCTION, _VARIABLE, _ALIAS, _IFUNC):
        for values in reader.found[code]:
            name = module.strings.read(*values[:2])
            if not name.startswith(b"llvm."):
                yield reader.mangled(name)


class _ModuleSymbolReader:
    """Reads the records of one module. ``found`` are the values of those that may count, by record code."""

    def __init__(self, module: BitcodeModule) -> None:
        self._module = module
        self._bits = BitReader(module.stream)
        self._bits.at, self._bits.end = module.at, module.end
        self._version = 0
        self._mangling = ""
        self._sections: list[bytes] = []
        self._unnamed = 0
        self.found: dict[int, list[list[int]]] = {_FUNCTION: [], _VARIABLE: [], _ALIAS: [], _IFUNC: []}

    def read(self) -> None:
        for abbreviation in self._bits.records(self._module.width):
            self._record(abbreviation)

    def _record(self, abbreviation: Abbreviation | None) -> None:
        bits = self._bits
        code = bits.code(abbreviation)
        if code in self.found:
            values, _ = bits.values(abbreviation)
            if self._version >= _VERSION_WITH_NAMES and self._counts(code, values[2:]):
                self.found[code].append(values)
        elif code == _VERSION:
            self._version = (bits.values(abbreviation)[0] or [0])[0]
        elif code in (_DATA_LAYOUT, _SECTION_NAME):
            text = self._text(bits.skip(abbreviation))
            if code == _SECTION_NAME:
                self._sections.append(text)
            else:
                self._mangling = next((part[2:] for part in text.decode("latin-1").split("-") if part[:2] == "m:"), "")
        else:
            bits.skip(abbreviation)

    def _counts(self, code: int, values: list[int]) -> bool:
        if len(values) <= _LINKAGE or values[_LINKAGE] in _LOCAL or values[_LINKAGE] == _AVAILABLE_EXTERNALLY:
            return False
        place, missing = _BODIES.get(code, (0, -1))
        if values[place] == missing:
            return False
        section = values[_SECTION] if code == _VARIABLE and len(values) > _SECTION else 0
        return not 0 < section <= len(self._sections) or self._sections[section - 1] != _METADATA

    def _text(self, run: ArrayRun | None) -> bytes:
        if run is None:
            return b""
        short = run.replace(count=min(run.count, _LONGEST_TEXT))
        return bytes(value & 0xFF for value in BitReader(self._module.stream).elements(short))

    def mangled(self, name: bytes) -> bytes:
        """Return a name as an object spells it."""
        if not name:
            self._unnamed += 1
            name = b"__unnamed_%d" % self._unnamed
        if name.startswith(b"\1"):
            return name[1:]
        is_microsoft = self._mangling in _MICROSOFT and name.startswith(b"?")
        return b"_" + name if self._mangling in _UNDERSCORED and not is_microsoft else name


_WRAPPER_SIZE = 20

#: Block IDs
_MODULE, _STRTAB, _SYMTAB = 8, 23, 25

#: LLVM looks for no block in the last bytes: archivers pad files.
_TAIL_BITS = 64

#: Versions of the table that have the layout above
_VERSIONS = range(1, 5)
#: version, place and count of modules, of symbols
_HEADER = struct.Struct("<I8xII8xII")
#: place and size of the name, flags
_SYMBOL = struct.Struct("<II12xI")
_UNDEFINED, _GLOBAL, _FORMAT_SPECIFIC = 1 << 3, 1 << 10, 1 << 11

#: Symbols read at a time
_ROWS = 4096


def bitcode_symbols(view: View) -> list[bytes] | None:
    """Return the symbols that count, module by module; None for bitcode that cannot be read. Raises LimitExceeded."""
    try:
        stream = _stream(view)
        if stream is None:
            return None
        modules, table = _walk(stream)
        stored = _stored(table, modules) if table is not None and modules else None
        return list(limit_name_size(view, _named(modules) if stored is None else stored))
    except LimitExceeded:
        raise
    except FormatError:
        return None


def symbol_table_names(view: View) -> Iterator[tuple[bytes, int]]:
    """Yield the names and flags of the global symbols in LLVM's table, those that are undefined too.

    Raises FormatError for damage, LimitExceeded, and Unsupported for bitcode without such a table.
    """
    stream = _stream(view)
    modules, table = _walk(stream) if stream is not None else ([], None)
    rows = _rows(table, modules) if table is not None and modules else None
    if rows is None:
        raise Unsupported(
            "bitcode without LLVM's table of symbols", hint="compile it again with clang", chain=view.chain
        )
    strings = modules[-1].strings
    for at, size, flags in _flagged(rows):
        if flags & (_GLOBAL | _FORMAT_SPECIFIC) == _GLOBAL:
            yield strings.read(at, size), flags


def _stream(view: View) -> View | None:
    if len(view) % 4:
        return None
    if view.head(0, 4) == WRAPPED_BITCODE:
        head = view.head(8, 8)
        offset, size = int.from_bytes(head[:4], "little"), int.from_bytes(head[4:], "little")
        if len(view) < _WRAPPER_SIZE:
            return None
        view = view.slice(offset, size)
    return view if view.head(0, 4) == BITCODE else None


def _walk(stream: View) -> tuple[list[BitcodeModule], View | None]:
    """Return the modules and the table of symbols. Raises FormatError.

    A string table belongs to the modules before it that have none yet: files can be concatenated.
    """
    bits = BitReader(stream)
    bits.at = 32
    waiting: list[tuple[int, int, int]] = []
    modules: list[BitcodeModule] = []
    table = None
    while bits.end - bits.at > _TAIL_BITS:
        if bits.fixed(2) != ENTER_BLOCK:
            raise bits.error("no block starts here")
        block, width, end = bits.enter_block()
        if block == _MODULE:
            waiting.append((bits.at, end, width))
        elif block == _SYMTAB:
            table = _blob(bits, width, end)
        elif block == _STRTAB:
            strings = _blob(bits, width, end)
            modules += [BitcodeModule(stream, *place, strings or stream.slice(0, 0)) for place in waiting]
            waiting = []
        bits.at = end
    return [*modules, *(BitcodeModule(stream, *place, stream.slice(0, 0)) for place in waiting)], table


def _blob(bits: BitReader, width: int, end: int) -> View | None:
    """Return the bytes that are the only content of a block; the position is at the block's content, and moves."""
    whole, bits.end = bits.end, end
    found = None
    for abbreviation in bits.records(width):
        bits.code(abbreviation)
        run = bits.skip(abbreviation)
        if run is not None and abbreviation is not None and abbreviation.is_blob:
            found = bits.view.slice(run.at >> 3, run.count)
            break
    bits.end = whole
    return found


def _stored(table: View, modules: list[BitcodeModule]) -> Iterator[bytes] | None:
    """Return the symbols of the table that LLVM wrote; None if it is of a version or of files we do not know."""
    rows = _rows(table, modules)
    return None if rows is None else _counting(rows, modules[-1].strings)


def _rows(table: View, modules: list[BitcodeModule]) -> View | None:
    """Return the bytes of the symbols in the table."""
    if len(table) < _HEADER.size:
        return None
    version, _, module_count, symbol_at, count = _HEADER.unpack(table.read(0, _HEADER.size))
    if version not in _VERSIONS or module_count != len(modules):
        return None
    return table.slice(symbol_at, count * _SYMBOL.size)


def _flagged(rows: View) -> Iterator[tuple[int, int, int]]:
    """Yield place and size of the name, and the flags, of each symbol."""
    step = _ROWS * _SYMBOL.size
    for first in range(0, len(rows), step):
        yield from _SYMBOL.iter_unpack(rows.head(first, step))


def _counting(rows: View, strings: View) -> Iterator[bytes]:
    for at, size, flags in _flagged(rows):
        if flags & (_GLOBAL | _UNDEFINED | _FORMAT_SPECIFIC) == _GLOBAL:
            yield strings.read(at, size)


def _named(modules: list[BitcodeModule]) -> Iterator[bytes]:
    for module in modules:
        yield from module_symbols(module)
