"""The symbols of ELF files, of any machine and kind: objects, code objects, cubins, libraries.

Only the full table (SYMTAB) counts; a stripped library has none, its dynamic symbols notwithstanding.

QUIRK(LLVM 22): labels that mark code and data in objects for ARM, AArch64, C-SKY and RISC-V do not count even when
they are global; nor do ARM's symbols without a name.
"""

from __future__ import annotations

from fatpack.binary.elf.quick_header import SYMTAB, read_quick_header
from fatpack.binary.elf.symbols import ElfSymbolTable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.io.source import View

#: Parts of st_info and st_shndx that exclude a symbol
_ELF_LOCAL, _ELF_SECTION, _ELF_FILE, _ELF_UNDEFINED = 0, 3, 4, 0

#: e_machine → what the names of mapping symbols start with
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
    """Say whether a name stands for no symbol: assemblers write such for differences of labels."""
    return (machine == _ARM and not name) or (machine == _RISCV and name == b".L0 ")
