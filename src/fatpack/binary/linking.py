"""The symbols by which linkers decide whether a member of an archive is needed: what a file defines, and what it wants.

Relocatable ELF files and bitcode have such symbols; other device code (cubins, PTX, SPIR-V) resolves none. Local
symbols and those that only the format needs do not count.

How we know: ``getSymbolsFromObject`` and ``getSymbolsFromBitcode`` in clang/tools/clang-linker-wrapper/
ClangLinkerWrapper.cpp and the getSymbolFlags of both formats, LLVM 19; the tool itself, 19.1.7, on generated lines.
"""

from __future__ import annotations

from fatpack import magic_numbers
from fatpack.binary.elf.quick_header import SYMTAB
from fatpack.binary.elf.symbols import ElfSymbolTable
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Literal

    from fatpack.io.source import View

#: e_type of what is linked further
_RELOCATABLE = 1

#: Parts of st_info, st_other and st_shndx
_LOCAL, _WEAK, _SECTION, _FILE, _HIDDEN, _UNDEFINED = 0, 2, 3, 4, 2, 0

#: Flags of LLVM's own table in bitcode: the first two bits are the visibility
_STORED_HIDDEN, _STORED_UNDEFINED, _STORED_WEAK, _STORED_OMITTED = 1, 1 << 3, 1 << 4, 1 << 9


class LinkSymbol(Record):
    """A symbol that other files see. ``is_visible``: programs can look it up, too, since it is not hidden."""

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
