"""Dumps: the heading of every entry, and the requested content of its image."""

from __future__ import annotations

import os
import sys

from fatpack.binary.elf.layout import SYMTAB
from fatpack.binary.elf.symbols import ElfSymbolTable
from fatpack.concurrency.system import find_programs
from fatpack.errors import FormatError, Unsupported
from fatpack.tools.nvidia.cuobjdump import entries
from fatpack.tools.nvidia.cuobjdump.entries import heading_lines, is_elf, is_ptx, text_pieces
from fatpack.tools.nvidia.cuobjdump.options import ExitTool

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.formats.cuda_fatbin.layout import CudaEntry, CudaGroup
    from fatpack.io.source import View
    from fatpack.tools.nvidia.cuobjdump.entries import CubinFile
    from fatpack.tools.nvidia.cuobjdump.options import CuobjdumpRequest, ToolOutput


# ``-sass``: cubins handed over to NVIDIA's nvdisasm, which prints their code.
#
# It is looked for as cuobjdump 13.5 does it: in the folder that ``NVDISASM_PATH`` names, beside the program, on PATH.
# Its output is passed through; if it fails, its exit code becomes the tool's.

_NAME = "nvdisasm"

_MISSING = (
    "Could not find executable file 'nvdisasm'; you can try adding path to environment variables PATH or "
    "NVDISASM_PATH; "
    "the CUDA toolkit has it, and the package nvidia-cuda-nvdisasm of PyPI"
)


class Disassembler:
    """Runs nvdisasm; ``beside`` is the folder of the program, "" if it is not known.

    Its methods raise ExitTool where that is not to be found or fails: ``output`` has the message and the exit code.
    """

    def __init__(self, program_folder: str, output: ToolOutput) -> None:
        self._program_folder = program_folder
        self._output = output

    def whole(self, data: View, *, is_sorted: bool) -> None:
        """Print the code of a cubin."""
        self._run(data, ["-pb", "-hex", "-novliw", *(["-sort"] if is_sorted else [])])

    def raw(self, code: View, arch: str) -> None:
        """Print instructions for an architecture, which are nothing but that."""
        self._run(code, ["-b", f"SM{arch.removeprefix('sm_').rstrip('af')}", "-hex"])

    def _run(self, data: View, options: list[str]) -> None:
        self._output.flush()
        program = _found(self._program_folder)
        if program is None:
            self._output.fatal(_MISSING)
            raise ExitTool
        # Processes and temporary files take longer to load than most files to list.
        import subprocess
        import tempfile

        from fatpack.io.atomic_write import write_file

        with tempfile.TemporaryDirectory(prefix="fatpack.") as folder:
            path = os.path.join(folder, "cubin")
            write_file(path, [data])
            sys.stdout.flush()
            done = subprocess.run([program, path, *options], stdin=subprocess.DEVNULL, check=False)
        if done.returncode:
            self._output.code = done.returncode if 0 < done.returncode < 256 else 1
            raise ExitTool


def _found(program_folder: str) -> str | None:
    """Return the path of nvdisasm, None if it is nowhere."""
    return next(find_programs([_NAME], (os.environ.get("NVDISASM_PATH", ""), program_folder)), None)


class EntryDump:
    """Prints entries and cubins as they come; ``beside`` is the folder of the program that does it."""

    def __init__(self, request: CuobjdumpRequest, output: ToolOutput, program_folder: str = "") -> None:
        self._request = request
        self._program_folder = program_folder
        self._output = output

    def member(self, title: str) -> None:
        """Print the line of a member of an archive."""
        self._output.lines(["", f"member {self._output.path}:{title}:"])

    def entry(self, entry: CudaEntry) -> None:
        """Print an entry; members of a group are indented."""
        indent = "" if entry.group is None else "\t"
        self._heading(heading_lines(entry), indent)
        try:
            if is_elf(entry):
                self._image(entry.data, entry)
            elif is_ptx(entry) and self._request.shows_ptx:
                from itertools import chain

                self._output.raw(chain([indent.encode()], text_pieces(entry.data.pieces()), [b"\n"]))
        except Unsupported:
            self._output.obfuscated()
        except FormatError as error:
            self._output.damage(str(error), "Uncompress failed")

    def group(self, group: CudaGroup) -> None:
        """Print the heading of a group."""
        self._heading(heading_lines(group), "")

    def cubin(self, cubin: CubinFile) -> None:
        """Print the requested content of a cubin that is a file of its own."""
        if self._request.takes(entries.cubin_arch(cubin.data)):
            self._image(cubin.data)

    def finish(self, found: bool) -> None:
        """Nothing is left to be done."""

    def _heading(self, lines: list[str], indent: str) -> None:
        self._output.line()
        for line in lines:
            self._output.line(line, indent)

    def _image(self, data: View, entry: CudaEntry | None = None) -> None:
        try:
            if self._request.shows_resources:
                self._resources(data)
            if self._request.shows_code:
                self._code(data, entries.cubin_arch(data) if entry is None else entries.entry_archs([entry])[0])
            if self._request.shows_symbols:
                self._output.lines(["", *symbol_lines(data)])
        except FormatError as error:
            self._output.damage(str(error), f"Invalid ELF in '{self._output.path}'")

    def _resources(self, data: View) -> None:
        from fatpack.tools.nvidia.cuobjdump.listing import resource_lines

        chosen = _SelectedFunctions(self._request, data)
        self._output.lines(["", *resource_lines(data, chosen.is_wanted, is_sorted=self._request.is_sorted)])
        chosen.tell(self._output)

    def _code(self, data: View, target: str) -> None:

        disassembler = Disassembler(self._program_folder, self._output)
        self._output.line()
        self._output.line(f"code for {target}", "\t")
        if self._request.functions is None and not self._request.function_index:
            disassembler.whole(data, is_sorted=self._request.is_sorted)
            return
        from fatpack.tools.nvidia.cuobjdump.listing import function_code

        chosen = _SelectedFunctions(self._request, data)
        rows = [(name, code) for number, name, code in function_code(data) if chosen.is_wanted(number, name)]
        for name, code in sorted(rows, key=lambda row: row[0]) if self._request.is_sorted else rows:
            self._output.line(f"Function : {name}", "\t\t")
            disassembler.raw(code, target)
            self._output.line("..........", "\t\t")
            self._output.lines(["", ""])
        chosen.tell(self._output)


class _SelectedFunctions:
    """The requested functions of a cubin, by name or by the index of their symbol."""

    def __init__(self, request: CuobjdumpRequest, data: View) -> None:
        from fatpack.tools.nvidia.cuobjdump.listing import section_of_function

        self._names, self._index = request.functions, request.function_index
        self._section: int | None = None
        self._seen: set[str] = set()
        if self._index:
            try:
                self._section = section_of_function(data, self._index)
            except IndexError:
                self._section = -1

    def is_wanted(self, number: int, name: str) -> bool:
        """Return whether the function in a section is requested."""
        self._seen.add(name)
        return (self._names is None or name in self._names) and (not self._index or number == self._section)

    def tell(self, output: ToolOutput) -> None:
        """Report requested functions that were not found, after all functions were read."""
        for name in dict.fromkeys(self._names or ()):
            if name not in self._seen:
                output.warning(f"Function listed in --function '{name}' not found")
        if self._section == -1:
            output.fatal(f"Invalid ELF in '{output.path}'")


# The output of ``-symbols`` for a cubin: a line for every symbol except section symbols.

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
