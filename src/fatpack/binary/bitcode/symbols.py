"""The symbols of LLVM bitcode, from the table that LLVM writes after the modules, or from the modules themselves.

::

    42 43 C0 DE  IDENTIFICATION  MODULE … (one or more)  SYMTAB (a blob)  STRTAB (a blob)

    SYMTAB       version, producer, modules, comdats, symbols, …   u32 each; a range is a place and a count
    symbol       name at, size; name in the module at, size; comdat; flags                          24 bytes

LLVM's archiver always reads the symbols of the modules. The table was made by the same code (``IRSymtab.cpp``,
``ModuleSymbolTable.cpp``, LLVM 22.1) and has the same symbols, with mangled names and those of inline assembly. Without
it (llvm-cat omits it, and llvm-as if there is inline assembly), the modules are read.

QUIRK(LLVM 22): a file whose size is not a multiple of 4, and any unreadable file, is archived without symbols and
without an error, because a future LLVM may have written it.
"""

from __future__ import annotations

import struct

from fatpack.binary.bitcode.bitstream import ENTER_BLOCK, BitReader
from fatpack.errors import FormatError, LimitExceeded, Unsupported
from fatpack.limits import limit_name_size
from fatpack.magic_numbers import BITCODE, WRAPPED_BITCODE
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.binary.bitcode.bitstream import Abbreviation, ArrayRun
    from fatpack.io.source import View


# Symbols of a module, from the records of its functions, variables, aliases and ifuncs, for modules without LLVM's
# table. ``ModuleSymbolTable::getSymbolFlags`` decides which of them count, ``Mangler::getNameWithPrefix`` how objects
# spell their names (LLVM 22.1).
#
# LIMIT: symbols of inline assembly are unknown; functions of i386 Windows with callee cleanup (stdcall, fastcall,
# vectorcall) have no decoration; modules older than LLVM 5, which store names elsewhere, have no symbols.

#: Record codes
_VERSION, _DATA_LAYOUT, _SECTION_NAME, _VARIABLE, _FUNCTION, _ALIAS, _IFUNC = 1, 3, 5, 7, 8, 14, 15

#: From this module version on, records start with offset and size of their name.
_VERSION_WITH_NAMES = 2

#: Record code → index, after the name, of the value that states a body or initialiser, and the value for none
_BODIES = {_FUNCTION: (2, 1), _VARIABLE: (2, 0)}
_LINKAGE = 3

#: Numbers of linkages without a definition for other files
_LOCAL = frozenset((3, 9, 13, 14))
_AVAILABLE_EXTERNALLY = 12

#: Index of a variable's section, and the section whose variables LLVM omits
_SECTION, _METADATA = 5, b"llvm.metadata"

#: LIMIT: characters of a data layout and of a section's name.
_LONGEST_TEXT = 1024

#: Manglings in data layouts that put an underscore before every name
_UNDERSCORED = ("o", "x")
#: Manglings that do not change Microsoft's C++ names
_MICROSOFT = ("w", "x")


class BitcodeModule(Record):
    """A module of a ``stream``: its content is from bit ``at`` to ``end``, its names are in ``strings``.

    ``width`` is that of its abbreviation IDs.
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
    """A reader of the records of one module. ``found``: values of the candidates, by record code."""

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
        """Return a name in the spelling of objects."""
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

#: LLVM reads no block in the last bytes: archivers pad files.
_TAIL_BITS = 64

#: Versions of the table with the layout above
_VERSIONS = range(1, 5)
#: version, offset and count of modules, of symbols
_HEADER = struct.Struct("<I8xII8xII")
#: offset and size of the name, flags
_SYMBOL = struct.Struct("<II12xI")
_UNDEFINED, _GLOBAL, _FORMAT_SPECIFIC = 1 << 3, 1 << 10, 1 << 11

#: Symbols per read
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
    """Yield the names and flags of the global symbols in LLVM's table, including undefined ones.

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

    A string table belongs to all modules before it without one: files can be concatenated.
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
    """Return the only blob in a block whose content is at the current position; moves the position."""
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
    """Return the symbols of LLVM's table; None for an unsupported version or file type."""
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
    """Yield offset and size of the name, and the flags, of each symbol."""
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
