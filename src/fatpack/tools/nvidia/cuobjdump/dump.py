"""Dumps: the heading of every entry, and what is asked for of its image."""

from __future__ import annotations

from fatpack.errors import FormatError, Unsupported
from fatpack.tools.nvidia.cuobjdump import arch
from fatpack.tools.nvidia.cuobjdump.entries import is_elf, is_ptx
from fatpack.tools.nvidia.cuobjdump.headings import heading_lines, text_pieces

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.formats.cuda_fatbin.stored import CudaEntry, CudaGroup
    from fatpack.io.source import View
    from fatpack.tools.nvidia.cuobjdump.entries import CubinFile
    from fatpack.tools.nvidia.cuobjdump.options import CuobjdumpRequest
    from fatpack.tools.nvidia.cuobjdump.output import ToolOutput


class EntryDump:
    """Prints entries and cubins as they come; ``beside`` is the folder of the program that does it."""

    def __init__(self, request: CuobjdumpRequest, output: ToolOutput, beside: str = "") -> None:
        self._request = request
        self._beside = beside
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
        """Print what is asked for of a cubin that is a file of its own."""
        if self._request.takes(arch.cubin_arch(cubin.data)):
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
                self._code(data, arch.cubin_arch(data) if entry is None else arch.entry_archs([entry])[0])
            if self._request.shows_symbols:
                from fatpack.tools.nvidia.cuobjdump.symbols import symbol_lines

                self._output.lines(["", *symbol_lines(data)])
        except FormatError as error:
            self._output.damage(str(error), f"Invalid ELF in '{self._output.path}'")

    def _resources(self, data: View) -> None:
        from fatpack.tools.nvidia.cuobjdump.resources import resource_lines

        chosen = _SelectedFunctions(self._request, data)
        self._output.lines(["", *resource_lines(data, chosen.is_wanted, is_sorted=self._request.is_sorted)])
        chosen.tell(self._output)

    def _code(self, data: View, target: str) -> None:
        from fatpack.tools.nvidia.cuobjdump.disassembling import Disassembler

        disassembler = Disassembler(self._beside, self._output)
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
    """The functions of a cubin that are asked for, by name or by the index of their symbol."""

    def __init__(self, request: CuobjdumpRequest, data: View) -> None:
        from fatpack.tools.nvidia.cuobjdump.resources import section_of_function

        self._names, self._index = request.functions, request.function_index
        self._section: int | None = None
        self._seen: set[str] = set()
        if self._index:
            try:
                self._section = section_of_function(data, self._index)
            except IndexError:
                self._section = -1

    def is_wanted(self, number: int, name: str) -> bool:
        """Return whether the function in a section is asked for."""
        self._seen.add(name)
        return (self._names is None or name in self._names) and (not self._index or number == self._section)

    def tell(self, output: ToolOutput) -> None:
        """Say what is asked for and was not there, once all functions were seen."""
        for name in dict.fromkeys(self._names or ()):
            if name not in self._seen:
                output.warning(f"Function listed in --function '{name}' not found")
        if self._section == -1:
            output.fatal(f"Invalid ELF in '{output.path}'")
