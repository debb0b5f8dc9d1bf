"""GCC's own offloading (``-fopenmp``, ``-fopenacc`` for nvptx-none and amdgcn-amdhsa): what an ELF file has of it.

=======================  =============================================================================================
object, archive member   bytecode for any accelerator (GIMPLE) in ``.gnu.offload_lto_*``; the target is chosen when it
                         is linked, so there is no image yet
program, library         ``.gnu.offload_funcs``, a pointer for each target region, and an image for each accelerator
                         that a constructor registers with ``GOMP_offload_register_ver``: a code object in ``.data``,
                         which is found there, or PTX texts in ``.rodata``: the program's own and those of libraries
=======================  =============================================================================================

A link without GCC's plug-in leaves the pointers and registers nothing: all regions run on the host, and nothing is
printed. The names of these sections survive ``strip``.

How we know: ``gcc/config/gcn/mkoffload.cc``, ``gcc/config/nvptx/mkoffload.cc`` and ``lto-plugin/lto-plugin.c`` of GCC;
measured with files of GCC 12.2. Files of GCC 13 and later were not tried.
"""

from __future__ import annotations

from fatpack.binary.elf import layout
from fatpack.binary.elf.file import ElfFile
from fatpack.binary.elf.symbols import symbol_table_strings
from fatpack.errors import FormatError, pluralize
from fatpack.findings import finding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.io.source import View
    from fatpack.model import Finding

#: what the names of all these sections begin with
PREFIX = b".gnu.offload_"

#: the section by which GCC's linker plug-in recognises an object, and the tables of regions and of variables
_OPTIONS, _FUNCTIONS, _VARIABLES = ".gnu.offload_lto_.opts", ".gnu.offload_funcs", ".gnu.offload_vars"

#: functions of libgomp: those that register images, and those that start a region
_REGISTER = b"GOMP_offload_register"
_LAUNCH = (b"GOMP_target_ext", b"GOACC_parallel_keyed")

#: LIMIT: bytes of the options that are read, and of one searched section
_MOST_OPTIONS = 1 << 16
_MOST_SEARCHED = 64 << 20

#: what every text for nvptx begins with, up to its version
_PTX = b"// BEGIN PREAMBLE"


def gcc_offload_findings(view: View) -> Iterator[Finding]:
    """Yield what a file has of GCC's offloading; nothing for other ELF files. Damage was reported by the scan."""
    try:
        elf = ElfFile(view)
        if elf.names_table().find(PREFIX) < 0:
            return
        yield from _findings(view, elf)
    except FormatError:
        return


def _findings(view: View, elf: ElfFile) -> Iterator[Finding]:
    own = {name: section for section in elf.sections() if (name := elf.name(section)).startswith(PREFIX.decode())}
    word = elf.layouts.word
    functions = own[_FUNCTIONS].size // word if _FUNCTIONS in own else 0
    variables = own[_VARIABLES].size // (2 * word) if _VARIABLES in own else 0
    if _OPTIONS in own and not elf.is_linked:
        options = elf.contents(own[_OPTIONS]).head(0, _MOST_OPTIONS)
        model = "OpenACC" if b"-fopenacc" in options else "OpenMP"
        counts = [pluralize(functions, "kernel"), *([pluralize(variables, "variable")] if variables else [])]
        if _FUNCTIONS not in own:
            bodies = sum("._omp_fn." in name for name in own)
            counts = [f"at most {pluralize(bodies, 'kernel')}"]
        size = sum(section.size for section in own.values())
        text = f"GCC's bytecode for accelerators (GIMPLE), {model}, {', '.join(counts)}, {size} bytes"
        hint = "the target is chosen when it is linked: gcc -foffload=amdgcn-amdhsa, or nvptx-none"
        yield finding("FP2701", elf.contents(own[_OPTIONS]).span(), text, hint).replace(section=_OPTIONS)
    elif functions and elf.is_linked:
        yield from _linked(view, elf, functions, variables)


def _linked(view: View, elf: ElfFile, functions: int, variables: int) -> Iterator[Finding]:
    """Yield what a program or library does with its target regions."""
    names = list(symbol_table_strings(elf, layout.DYNSYM, layout.SYMTAB))
    regions = pluralize(functions, "target region")
    if any(_REGISTER in table for table in names):
        counts = f"{regions} and {pluralize(variables, 'variable')}" if variables else regions
        yield finding("FP2703", view.span(), f"registers {counts} with libgomp (GCC's offloading)")
    elif any(launch in table for table in names for launch in _LAUNCH):
        text = f"{regions}, and no image is registered with libgomp: all of them run on the host, without a message"
        hint = "link with GCC's linker plug-in and mkoffload; expected if it was linked with -foffload=disable"
        yield finding("FP2702", view.span(), text, hint)


def nvptx_texts(view: View) -> Iterator[View]:
    """Yield the PTX texts that a program or library registers for nvptx, in the order of the file, without their NUL.

    Nothing for files that register no target region. Damage was reported by the scan.
    """
    try:
        elf = ElfFile(view)
        if elf.names_table().find(PREFIX) < 0 or not elf.is_linked:
            return
        if not any(_REGISTER in table for table in symbol_table_strings(elf, layout.DYNSYM, layout.SYMTAB)):
            return
        for section in elf.sections():
            if section.type not in (layout.NULL, layout.NOBITS) and section.flags & layout.ALLOC:
                yield from _texts(elf.contents(section))
    except FormatError:
        return


def _texts(data: View) -> Iterator[View]:
    at = data.find(_PTX) if len(data) <= _MOST_SEARCHED else -1
    while at >= 0:
        end = data.find(b"\0", at)
        if end < 0:
            return
        yield data.slice(at, end - at)
        at = data.find(_PTX, end)
