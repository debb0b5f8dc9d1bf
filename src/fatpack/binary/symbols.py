"""The symbols of COFF: objects, big objects, PE images that kept theirs, and import objects.

::

    classic  machine u16, sections u16, time u32, symbols at u32, count u32, …      symbols of 18 bytes
    big      00 00 FF FF, version u16, machine u16, time u32, class id, …           symbols of 20 bytes
    PE       MZ, at 3C the place of "PE\\0\\0", behind that a classic header
    import   00 00 FF FF, 0 u16, machine u16, …, type in two bits, then the name and that of the library

Microsoft's PE/COFF specification; ``COFFObjectFile`` and ``COFFImportFile`` of LLVM 22.1 for what counts.

QUIRK(LLVM 22): two zero bytes start an object of unknown machine, so a file of zeros is one, without symbols.
"""

from __future__ import annotations

import struct

from fatpack import magic_numbers
from fatpack.errors import BadValue, Truncated

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.io.source import View

_FORMAT = "coff"

#: Machines by which LLVM knows an object, as two bytes in stored order, 0 (unknown) among them
_MACHINES = frozenset(
    bytes.fromhex(text)
    for text in (
        *("0000", "4c01", "4c02", "5001", "5002", "6601", "6602", "8301", "8302", "8401", "8402", "c401", "c402"),
        *("f001", "f002", "9002", "6802", "6486", "64aa", "41a6", "4ea6"),
    )
)
_ARM64EC, _ARM64X = 0xA641, 0xA64E

#: ClassID of an anonymous object that holds the compiler's intermediate code
_INTERMEDIATE = bytes.fromhex("38feb30ca5d9ab4dac9bd6b6222653c2")
#: A compiled resource starts with an empty one
_RESOURCE = bytes.fromhex("0000000020000000ffff0000ffff0000")

#: sections, symbols at, count, size of the optional header
_CLASSIC = struct.Struct("<2xH4xIIH2x")
_BIG_HEADER = struct.Struct("<44xIII")
_IMPORT = struct.Struct("<6xH8x2xH")
_SECTION_SIZE = 40

#: name or reference, value, section, storage class, count of auxiliary records
_SYMBOL = struct.Struct("<8sIh2xBB")
_BIG_SYMBOL = struct.Struct("<8sIi2xBB")
#: auxiliary record of a weak symbol: the default's number (skipped), how to search
_COFF_WEAK = struct.Struct("<4xI")

_EXTERNAL, _WEAK_EXTERNAL = 2, 105
_COFF_UNDEFINED, _ABSOLUTE = 0, -1
#: Where to look for the default of a weak symbol: in the alias that the object defines
_SEARCH_ALIAS = 3
#: Type of an import: data has no code to jump through
_IMPORT_DATA = 1

#: Symbols read at a time
_ROWS = 4096

#: Bytes of a name fetched at once; longer ones are searched for their end.
_NAME = 256


def coff_symbols(view: View, head: bytes) -> Iterator[bytes] | None:
    """Return the symbols of a file that starts with ``head``; None if LLVM takes it for no COFF. Raises FormatError."""
    if head.startswith(magic_numbers.ANONYMOUS_COFF):
        if head[12:28] == magic_numbers.BIG_COFF_CLASS:
            return _big(view)
        return None if head[12:28] == _INTERMEDIATE else _import(view)
    if head.startswith(magic_numbers.DOS):
        at = int.from_bytes(view.head(0x3C, 4), "little")
        return _classic(view, at + 4) if len(head) == 64 and view.head(at, 4) == magic_numbers.PE else None
    if head[:2] in _MACHINES and not head.startswith(_RESOURCE):
        return _classic(view, 0)
    return None


def _classic(view: View, at: int) -> Iterator[bytes]:
    sections, symbol_at, count, optional_size = _unpack(_CLASSIC, view, at, "file header")
    _inside(view, at + _CLASSIC.size + optional_size, sections * _SECTION_SIZE, "section table")
    return _table(view, symbol_at, count, _SYMBOL)


def _big(view: View) -> Iterator[bytes]:
    sections, symbol_at, count = _unpack(_BIG_HEADER, view, 0, "file header")
    _inside(view, _BIG_HEADER.size, sections * _SECTION_SIZE, "section table")
    return _table(view, symbol_at, count, _BIG_SYMBOL)


def _table(view: View, symbol_at: int, count: int, layout: struct.Struct) -> Iterator[bytes]:
    """Yield the symbols that count; auxiliary records belong to the symbol before them."""
    if not count:
        return
    _inside(view, symbol_at, count * layout.size, "symbol table")
    strings = _CoffStrings(view, symbol_at + count * layout.size)
    skip = 0
    for first in range(0, count, _ROWS):
        rows = min(_ROWS, count - first)
        block = view.read(symbol_at + first * layout.size, rows * layout.size)
        for row, (name, value, section, kind, auxiliary) in enumerate(layout.iter_unpack(block), first):
            if skip:
                skip -= 1
                continue
            skip = auxiliary
            if kind == _WEAK_EXTERNAL:
                at = symbol_at + (row + 1) * layout.size
                counts = not auxiliary or _unpack(_COFF_WEAK, view, at, "weak external")[0] == _SEARCH_ALIAS
            else:
                # C++/CLI follows absolute symbols by the definition of a section; LLVM leaves those out.
                is_section = section == _ABSOLUTE and auxiliary
                counts = kind == _EXTERNAL and (section != _COFF_UNDEFINED or value != 0) and not is_section
            if counts:
                yield strings.name(name)


class _CoffStrings:
    """The string table of an object, and the names that symbols have."""

    def __init__(self, view: View, at: int) -> None:
        size = int.from_bytes(view.head(at, 4), "little")
        self._at = at
        self._table = view.slice(at, max(4, min(size, len(view) - at))) if at + 4 <= len(view) else None
        self._view = view

    def name(self, stored: bytes) -> bytes:
        """Return the name that 8 stored bytes stand for. Raises BadValue."""
        if stored[:4] != bytes(4):
            return stored.partition(b"\0")[0]
        place = int.from_bytes(stored[4:], "little")
        if self._table is not None and 4 <= place < len(self._table):
            text = self._table.head(place, _NAME)
            end = text.find(b"\0")
            if end >= 0:
                return text[:end]
            end = self._table.find(b"\0", place)
            if end >= 0:
                return self._table.read(place, end - place)
        raise BadValue(
            f"at {place:#x} is not in the string table",
            format=_FORMAT,
            offset=self._view.offset(min(self._at, len(self._view))),
            field="symbol name",
            chain=self._view.chain,
        )


def _import(view: View) -> Iterator[bytes]:
    """Yield the pointer's and the function's name, for ARM64EC those of its own code as well."""
    machine, flags = _unpack(_IMPORT, view, 0, "import header")
    end = view.find(b"\0", _IMPORT.size)
    if end < 0:
        raise Truncated(
            needed=1, left=0, format=_FORMAT, offset=view.offset(len(view)), field="import name", chain=view.chain
        )
    name = view.read(_IMPORT.size, end - _IMPORT.size)
    is_arm64ec = machine in (_ARM64EC, _ARM64X)
    plain = _unmangled(name) if is_arm64ec else name
    yield b"__imp_" + plain
    if flags & 3 != _IMPORT_DATA:
        yield plain
        if is_arm64ec:
            yield b"__imp_aux_" + plain
            yield name


def _unmangled(name: bytes) -> bytes:
    """Return a name without what ARM64EC code adds to it: ``#`` in front, in C++ ``$$h``."""
    if name.startswith(b"#"):
        return name[1:]
    before, _, after = name.partition(b"$$h")
    return before + after if name.startswith(b"?") and after else name


def _unpack(layout: struct.Struct, view: View, at: int, field: str) -> tuple[int, ...]:
    _inside(view, at, layout.size, field)
    return layout.unpack(view.read(at, layout.size))


def _inside(view: View, at: int, size: int, field: str) -> None:
    if at + size > len(view):
        raise Truncated(
            needed=size, left=len(view) - at, format=_FORMAT, offset=view.offset(at), field=field, chain=view.chain
        )
