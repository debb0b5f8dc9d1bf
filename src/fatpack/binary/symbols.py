"""Symbols of objects and programs for linkers and archives: COFF, ELF, bitcode.

COFF (objects, big objects, PE images with symbols, and import objects)::

    classic  machine u16, sections u16, time u32, symbols at u32, count u32, …      symbols of 18 bytes
    big      00 00 FF FF, version u16, machine u16, time u32, class id, …           symbols of 20 bytes
    PE       MZ, at 3C the offset of "PE\0\0", after that a classic header
    import   00 00 FF FF, 0 u16, machine u16, …, type in two bits, then the name and that of the library

Microsoft's PE/COFF specification; ``COFFObjectFile`` and ``COFFImportFile`` of LLVM 22.1 decide which symbols count.

QUIRK(LLVM 22): two zero bytes start an object of unknown machine, so a file of zeros is one, without symbols.
"""

from __future__ import annotations

import struct

from fatpack import magic_numbers
from fatpack.binary.coff.layout import BIG_HEADER, BIG_SYMBOL, FORMAT, HEADER, SECTION, SYMBOL, pe_header_offset
from fatpack.binary.coff.tables import symbol_name_offset, symbol_rows
from fatpack.binary.elf.layout import SYMTAB
from fatpack.binary.elf.quick_header import read_quick_header
from fatpack.binary.elf.symbols import ElfSymbolTable
from fatpack.errors import BadValue, Truncated, Unsupported
from fatpack.limits import limit_name_size
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Literal

    from fatpack.io.source import View
    from fatpack.layout import Layout


# Symbols by which linkers decide whether a member of an archive is needed: definitions and references of a file.
# Relocatable ELF files and bitcode have them; other device code (cubins, PTX, SPIR-V) does not. Local and
# format-specific symbols are left out.
#
# Sources: ``getSymbolsFromObject`` and ``getSymbolsFromBitcode`` in clang/tools/clang-linker-wrapper/
# ClangLinkerWrapper.cpp and the getSymbolFlags of both formats, LLVM 19; the tool itself, 19.1.7, on generated inputs.

#: e_type of relocatable objects
_RELOCATABLE = 1

#: Values of st_info, st_other and st_shndx
_LOCAL, _WEAK, _SECTION, _FILE, _HIDDEN, _UNDEFINED = 0, 2, 3, 4, 2, 0

#: Flags in LLVM's symbol table of bitcode: the first two bits are the visibility
_STORED_HIDDEN, _STORED_UNDEFINED, _STORED_WEAK, _STORED_OMITTED = 1, 1 << 3, 1 << 4, 1 << 9


class LinkSymbol(Record):
    """A symbol that other files can use. ``is_visible``: it is not hidden, so programs can look it up at run time."""

    name: bytes
    is_defined: bool
    is_weak: bool
    is_visible: bool


def link_symbols(view: View) -> Iterator[LinkSymbol] | None:
    """Return the symbols of a file in the order of its table; None for a file that resolves no symbols.

    Raises FormatError for damaged tables, Unsupported for bitcode without LLVM's table of symbols.
    """
    head = view.head(0, 18)
    if head[:4] in (magic_numbers.BITCODE, magic_numbers.WRAPPED_BITCODE):
        return _of_bitcode(view)
    order: Literal["little", "big"] = "big" if head[5:6] == b"\2" else "little"
    if head[:4] != magic_numbers.ELF or int.from_bytes(head[16:18], order) != _RELOCATABLE:
        return None
    return _of_elf(view)


def _of_elf(view: View) -> Iterator[LinkSymbol]:
    table = ElfSymbolTable(view, (SYMTAB,))
    for number, (name_at, info, other, section) in enumerate(table):
        if not number or info >> 4 == _LOCAL or info & 15 in (_SECTION, _FILE):
            continue
        yield LinkSymbol(table.name(name_at), section != _UNDEFINED, info >> 4 == _WEAK, other & 3 != _HIDDEN)


def _of_bitcode(view: View) -> Iterator[LinkSymbol]:
    from fatpack.binary.bitcode import symbols

    for name, flags in symbols.symbol_table_names(view):
        is_hidden = flags & 3 == _STORED_HIDDEN or bool(flags & _STORED_OMITTED)
        yield LinkSymbol(name, not flags & _STORED_UNDEFINED, bool(flags & _STORED_WEAK), not is_hidden)


#: Machines by which LLVM detects an object, as two bytes in stored order; 0 (unknown) is one
_MACHINES = frozenset(
    bytes.fromhex(text)
    for text in (
        *("0000", "4c01", "4c02", "5001", "5002", "6601", "6602", "8301", "8302", "8401", "8402", "c401", "c402"),
        *("f001", "f002", "9002", "6802", "6486", "64aa", "41a6", "4ea6"),
    )
)
_ARM64EC, _ARM64X = 0xA641, 0xA64E

#: ClassID of an anonymous object with the compiler's intermediate code
_INTERMEDIATE = bytes.fromhex("38feb30ca5d9ab4dac9bd6b6222653c2")
#: First bytes of a compiled resource, which starts with an empty one
_RESOURCE = bytes.fromhex("0000000020000000ffff0000ffff0000")

_IMPORT = struct.Struct("<6xH8x2xH")
#: auxiliary record of a weak symbol: the default's number (skipped), search rule
_COFF_WEAK = struct.Struct("<4xI")

_EXTERNAL, _WEAK_EXTERNAL = 2, 105
_COFF_UNDEFINED, _ABSOLUTE = 0, -1
#: Search rule of a weak symbol: the alias that the object defines
_SEARCH_ALIAS = 3
#: Type of an import: data has no code stub
_IMPORT_DATA = 1

#: Bytes of a name that are read at once; the end of longer ones is searched for.
_NAME = 256


def coff_symbols(view: View, head: bytes) -> Iterator[bytes] | None:
    """Return the symbols of a file that starts with ``head``; None if LLVM detects no COFF. Raises FormatError."""
    if head.startswith(magic_numbers.ANONYMOUS_COFF):
        if head[12:28] == magic_numbers.BIG_COFF_CLASS:
            return _big(view)
        return None if head[12:28] == _INTERMEDIATE else _import(view)
    if head.startswith(magic_numbers.DOS):
        at = pe_header_offset(view)
        return None if at is None else _classic(view, at)
    if head[:2] in _MACHINES and not head.startswith(_RESOURCE):
        return _classic(view, 0)
    return None


def _classic(view: View, at: int) -> Iterator[bytes]:
    _, sections, _, symbol_at, count, optional_size, _ = _unpack(HEADER.struct, view, at, "file header")
    _inside(view, at + HEADER.size + optional_size, sections * SECTION.size, "section table")
    return _table(view, symbol_at, count, SYMBOL)


def _big(view: View) -> Iterator[bytes]:
    *_, sections, symbol_at, count = _unpack(BIG_HEADER.struct, view, 0, "file header")
    _inside(view, BIG_HEADER.size, sections * SECTION.size, "section table")
    return _table(view, symbol_at, count, BIG_SYMBOL)


def _table(view: View, symbol_at: int, count: int, layout: Layout) -> Iterator[bytes]:
    """Yield the symbols that count."""
    if not count:
        return
    _inside(view, symbol_at, count * layout.size, "symbol table")
    strings = _CoffStrings(view, symbol_at + count * layout.size)
    for number, row, _ in symbol_rows(view.slice(symbol_at, count * layout.size), layout):
        name, value, section, _, kind, auxiliary = row
        if kind == _WEAK_EXTERNAL:
            at = symbol_at + (number + 1) * layout.size
            counts = not auxiliary or _unpack(_COFF_WEAK, view, at, "weak external")[0] == _SEARCH_ALIAS
        else:
            # In C++/CLI, absolute symbols are followed by a section definition; LLVM leaves those out.
            is_section = section == _ABSOLUTE and auxiliary
            counts = kind == _EXTERNAL and (section != _COFF_UNDEFINED or value != 0) and not is_section
        if counts:
            yield strings.name(name)


class _CoffStrings:
    """The string table of an object, and the names of its symbols."""

    def __init__(self, view: View, at: int) -> None:
        size = int.from_bytes(view.head(at, 4), "little")
        self._at = at
        self._table = view.slice(at, max(4, min(size, len(view) - at))) if at + 4 <= len(view) else None
        self._view = view

    def name(self, stored: bytes) -> bytes:
        """Return the name for 8 stored bytes. Raises BadValue."""
        place = symbol_name_offset(stored)
        if place is None:
            return stored.partition(b"\0")[0]
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
            format=FORMAT,
            offset=self._view.offset(min(self._at, len(self._view))),
            field="symbol name",
            chain=self._view.chain,
        )


def _import(view: View) -> Iterator[bytes]:
    """Yield the names of the pointer and the function of an import, for ARM64EC also those of its own code."""
    machine, flags = _unpack(_IMPORT, view, 0, "import header")
    end = view.find(b"\0", _IMPORT.size)
    if end < 0:
        raise Truncated(
            needed=1, left=0, format=FORMAT, offset=view.offset(len(view)), field="import name", chain=view.chain
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
    """Return a name without the prefix and infix of ARM64EC code: ``#``, and ``$$h`` in C++."""
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
            needed=size, left=len(view) - at, format=FORMAT, offset=view.offset(at), field=field, chain=view.chain
        )


# ELF symbols for archives, of any machine and file type. Only the full table (SYMTAB) counts; a stripped library has
# none, even if it has dynamic symbols.
#
# QUIRK(LLVM 22): mapping symbols in objects for ARM, AArch64, C-SKY and RISC-V do not count even if they are global;
# nor do ARM's symbols without a name.

#: Values of st_info and st_shndx that exclude a symbol
_ELF_LOCAL, _ELF_SECTION, _ELF_FILE, _ELF_UNDEFINED = 0, 3, 4, 0

#: e_machine → prefixes of the names of mapping symbols
_MAPPING_SYMBOLS: dict[int, tuple[bytes, ...]] = {
    40: (b"$d", b"$t", b"$a"),
    183: (b"$d", b"$x"),
    243: (b"$d", b"$x"),
    252: (b"$d", b"$t"),
}
_ARM, _RISCV = 40, 243


def elf_symbols(view: View) -> Iterator[bytes]:
    """Yield the symbols that count, in the table's order. Raises FormatError."""
    table = ElfSymbolTable(view, (SYMTAB,))
    found = read_quick_header(view, view.head(0, 64))
    machine = found.machine if found else 0
    prefixes = _MAPPING_SYMBOLS.get(machine, ())
    for number, (name_at, info, _other, section) in enumerate(table):
        if not number or section == _ELF_UNDEFINED or info >> 4 == _ELF_LOCAL or info & 15 in (_ELF_SECTION, _ELF_FILE):
            continue
        name = table.name(name_at)
        if prefixes and (name.startswith(prefixes) or _is_nothing(machine, name)):
            continue
        yield name


def _is_nothing(machine: int, name: bytes) -> bool:
    """Return whether a name is an assembler's label for a difference, not a symbol."""
    return (machine == _ARM and not name) or (machine == _RISCV and name == b".L0 ")


# Symbols for the table of an archive: the definitions of a file that others can use, by name. The rules for files,
# symbols and their order are LLVM's, so that our archives equal those of llvm-ar 22: defined global and weak symbols
# (common ones too) without format-specific ones, in the order of the file's own table and with repetitions.
#
# ============  ==========================================================================================
# ``elf``       the section of type SYMTAB, for any file: object, code object, cubin, library
# ``coff``      symbols of objects, big objects and PE images; the two names of an import object
# ``bitcode``   the symbol table that LLVM writes after its modules, else the modules' own records
# ============  ==========================================================================================
#
# Sources: ``llvm/lib/Object/ArchiveWriter.cpp`` (isArchiveSymbol), ``SymbolicFile.cpp``, ``llvm/lib/BinaryFormat/
# Magic.cpp`` and the getSymbolFlags of each format, LLVM 22.1; archives of generated members are compared byte by byte.

#: Smallest size of an ELF file that LLVM detects
_ELF_HEAD = 18

#: Files with symbols that are not supported: first bytes → name of the format
_UNREAD = (
    (magic_numbers.BIG_MACH_O_32, "Mach-O"),
    (magic_numbers.BIG_MACH_O_64, "Mach-O"),
    (magic_numbers.MACH_O_32, "Mach-O"),
    (magic_numbers.MACH_O_64, "Mach-O"),
    (magic_numbers.WASM, "WebAssembly"),
    (magic_numbers.XCOFF_32, "XCOFF"),
    (magic_numbers.XCOFF_64, "XCOFF"),
    (magic_numbers.GOFF, "GOFF"),
)


def archive_symbols(view: View) -> Iterator[bytes] | None:
    """Return the names of a file's symbols for an archive's table; None if its format has no symbols.

    Tables are read in blocks, names one by one. Raises FormatError for damaged tables (bitcode that cannot be read
    counts as a file without symbols, as in LLVM), Unsupported for formats that are not supported.
    """
    head = view.head(0, 64)
    magic = head[:4]
    if len(magic) < 4:
        return None
    if magic == magic_numbers.ELF:
        return elf_symbols(view) if len(head) >= _ELF_HEAD else None
    if magic in (magic_numbers.BITCODE, magic_numbers.WRAPPED_BITCODE):
        from fatpack.binary.bitcode import symbols

        found = symbols.bitcode_symbols(view)
        return None if found is None else iter(found)
    for start, name in _UNREAD:
        if head.startswith(start):
            raise Unsupported(
                f"the symbols of {name} files are not read", hint="make this archive with llvm-ar", chain=view.chain
            )
    if magic == magic_numbers.DXIL:
        return iter(())  # LLVM lists none, but treats the file as an object

    table = coff_symbols(view, head)
    return None if table is None else limit_name_size(view, table)
