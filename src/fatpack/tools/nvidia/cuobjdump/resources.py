"""What ``-res-usage`` prints of a cubin: memory it has in common, and what every function of it needs.

By the sections, as they are named: ``.text.NAME`` is a function; ``.nv.shared.…``, ``.nv.local.…`` and
``.nv.constantN.…`` belong to the function that their ``sh_info`` names; ``.nv.global…`` and ``.nv.constantN`` to all.
Registers and stack of a kernel are in ``.nv.info``; code before sm_90 has registers in its row of the table, too.

Textures, surfaces and samplers are always 0: the original counts none in code since sm_90, and fails on older code that
has some.
"""

from __future__ import annotations

from fatpack.binary.elf.device_elf import DeviceElfSections
from fatpack.binary.elf.quick_header import SYMTAB
from fatpack.binary.elf.symbols import ElfSymbolTable
from fatpack.images.cubin_kernels import UNKNOWN_STACK, function_resources

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fatpack.binary.elf.device_elf import DeviceElfSection
    from fatpack.io.source import View

_CODE, _GLOBAL, _SHARED, _LOCAL, _CONSTANT = ".text.", ".nv.global", ".nv.shared.", ".nv.local.", ".nv.constant"

_FUNC, _ENTRY = 2, 0x10


class _FunctionResources:
    """A function: the lines of its needs are made once all sections are known."""

    def __init__(self, name: str, registers: int) -> None:
        self.name = name
        self.registers = registers
        self.stack = 0
        self.shared = self.local = 0
        self.constants: dict[str, int] = {}

    def line(self) -> str:
        stack = "UNKNOWN" if self.stack == UNKNOWN_STACK else self.stack
        constants = "".join(f"CONSTANT[{bank}]:{size} " for bank, size in self.constants.items())
        return (
            f"  REG:{self.registers} STACK:{stack} SHARED:{self.shared} LOCAL:{self.local} {constants}"
            "TEXTURE:0 SURFACE:0 SAMPLER:0"
        )


def function_names(sections: DeviceElfSections) -> dict[int, str]:
    """Return the names of all functions by the numbers of their sections, in the order of these."""
    return {row.index: row.name[len(_CODE) :] for row in sections.rows if row.name.startswith(_CODE)}


def resource_lines(view: View, is_wanted: Callable[[int, str], bool], *, is_sorted: bool) -> Iterator[str]:
    """Yield the lines for a cubin; functions are asked for by the numbers of their sections and their names.

    Raises FormatError when a table of it is damaged.
    """
    sections = DeviceElfSections(view)
    found = {
        number: _FunctionResources(name, sections.rows[number].info >> 24)
        for number, name in function_names(sections).items()
    }
    common: dict[str, int] = {}
    global_size = 0
    for row in sections.rows:
        if row.name.startswith(_GLOBAL):
            global_size += row.size
        elif row.name.startswith(_CONSTANT):
            bank, dot, _ = row.name[len(_CONSTANT) :].partition(".")
            if not dot:
                common[bank] = row.size
            elif row.info in found:
                found[row.info].constants[bank] = row.size
        elif row.info in found:
            _take(found[row.info], row)
    _add_kernels(sections, found)
    yield "Resource usage:"
    yield " Common:"
    yield "".join([f"  GLOBAL:{global_size}", *(f" CONSTANT[{bank}]:{size}" for bank, size in common.items())])
    rows = sorted(found.items(), key=lambda item: item[1].name) if is_sorted else found.items()
    for number, function in rows:
        if is_wanted(number, function.name):
            yield f" Function {function.name}:"
            yield function.line()


def _take(function: _FunctionResources, row: DeviceElfSection) -> None:
    if row.name.startswith(_SHARED):
        function.shared = row.size
    elif row.name.startswith(_LOCAL):
        function.local = row.size


def _add_kernels(sections: DeviceElfSections, found: dict[int, _FunctionResources]) -> None:
    """Add what the attributes of kernels say; other functions have attributes, too, which the original leaves out."""
    registers, stacks = function_resources(sections)
    for index, (_, _, other, number) in enumerate(ElfSymbolTable(sections.view, (SYMTAB,))):
        if other & _ENTRY and number in found:
            found[number].registers = registers.get(index, found[number].registers)
            found[number].stack = stacks.get(index, 0)


def section_of_function(view: View, index: int) -> int | None:
    """Return the number of the section of the function that a symbol is; None if it is no function.

    Raises IndexError for a symbol that is not there, FormatError when the table is damaged.
    """
    for number, (_, info, _, section) in enumerate(ElfSymbolTable(view, (SYMTAB,))):
        if number == index:
            return section if info & 15 == _FUNC else None
    raise IndexError(index)
