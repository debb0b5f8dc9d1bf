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

from fatpack.binary.bitcode.bitcode_module import BitcodeModule, module_symbols
from fatpack.codecs.bitstream import ENTER_BLOCK, BitReader
from fatpack.errors import FormatError, LimitExceeded, Unsupported
from fatpack.magic_numbers import BITCODE, WRAPPED_BITCODE
from fatpack.proportion import limit_name_size

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.io.source import View

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
            raise bits.bad("no block starts here")
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
