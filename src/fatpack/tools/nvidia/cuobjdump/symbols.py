"""What ``-symbols`` prints of a cubin: a line for every symbol that is not one of a section."""

from __future__ import annotations

from fatpack.binary.elf.quick_header import SYMTAB
from fatpack.binary.elf.symbols import ElfSymbolTable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.io.source import View

_TYPES = {
    0: "NOTYPE",
    1: "OBJECT",
    2: "FUNC",
    4: "FILE",
    5: "COMMON",
    10: "CUDA_TEXTURE",
    11: "CUDA_SAMPLER",
    12: "CUDA_SURFACE",
    13: "CUDA_OBJECT",
}
_BINDINGS = {0: "LOCAL", 1: "GLOBAL", 2: "WEAK"}
_VISIBILITIES = ("DEFAULT", "INTERNAL", "HIDDEN", "PROTECTED")

#: bits 5 to 7 of st_other: where an object lies
_SPACES = {0x20: "GLOBAL", 0x40: "SHARED", 0x60: "LOCAL", 0x80: "CONSTANT", 0xA0: "RESERVED_SHARED"}

#: bits 2 to 4 mean something else for functions and for objects, and 8 the same for all
_OBSCURE = 0x8
_FLAGS = {
    2: {0x10: "ENTRY", 0x4: "UNIFIED_FUNC"},
    1: {0x10: "UNIFIED_OBJECT", 0x4: "MANAGED"},
    13: {0x10: "UNIFIED_OBJECT", 0x4: "MANAGED"},
}

_SECTION = 3

#: st_shndx of symbols that are defined nowhere, or whose section is in a table that cubins do not have.
_NOWHERE = (0, 0xFFFF)


def symbol_lines(view: View) -> Iterator[str]:
    """Yield the lines for a cubin. Raises FormatError when the table of symbols is damaged."""
    yield "symbols:"
    symbols = ElfSymbolTable(view, (SYMTAB,))
    for number, (at, info, other, section) in enumerate(symbols):
        kind = info & 15
        if not number or kind == _SECTION:
            continue
        name = symbols.name(at).decode("utf-8", "surrogateescape")
        undefined = "U" if section in _NOWHERE else " "
        yield (
            f"{_TYPES.get(kind, '?').ljust(14)}{_BINDINGS.get(info >> 4, '?').ljust(8)}"
            f"{_VISIBILITIES[other & 3].ljust(11)}{_words(kind, other).ljust(32)}  {undefined}  {name}"
        )


def _words(kind: int, other: int) -> str:
    """Return the bits of st_other that are not about visibility in words."""
    space, flags = other & 0xE0, _FLAGS.get(kind, {})
    words = [_SPACES[space]] if space in _SPACES else []
    unknown = 0 if space in _SPACES else space
    for bit in (0x10, 0x4):
        if other & bit and bit in flags:
            words.append(flags[bit])
        elif other & bit:
            unknown |= bit
    if other & _OBSCURE:
        words.append("OBSCURE")
    if unknown:
        words.append(f"UNKNOWN({unknown:#x})")
    return "|".join(words) or "-"
