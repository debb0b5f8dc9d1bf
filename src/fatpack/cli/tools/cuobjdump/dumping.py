"""Dumps: the heading of every entry, and what is asked for of its image."""

from __future__ import annotations

from itertools import chain

from fatpack.cli.tools.cuobjdump import arch
from fatpack.cli.tools.cuobjdump.headings import heading, text_pieces
from fatpack.cli.tools.cuobjdump.reading import is_elf, is_ptx
from fatpack.errors import FormatError, Unsupported

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.cli.tools.cuobjdump.options import Request
    from fatpack.cli.tools.cuobjdump.output import Output
    from fatpack.cli.tools.cuobjdump.reading import Cubin
    from fatpack.formats.cuda_fatbin.stored import Entry, Group
    from fatpack.io.source import View


class Dump:
    """Prints entries and cubins as they come."""

    def __init__(self, request: Request, output: Output) -> None:
        self._request = request
        self._output = output

    def member(self, title: str) -> None:
        """Print the line of a member of an archive."""
        self._output.lines(["", f"member {self._output.path}:{title}:"])

    def entry(self, entry: Entry) -> None:
        """Print an entry; members of a group are indented."""
        indent = "" if entry.group is None else "\t"
        self._heading(heading(entry), indent)
        try:
            if is_elf(entry):
                self._image(entry.data)
            elif is_ptx(entry) and self._request.shows_ptx:
                self._output.raw(chain([indent.encode()], text_pieces(entry.data.pieces()), [b"\n"]))
        except Unsupported:
            self._output.obfuscated()
        except FormatError as error:
            self._output.damage(str(error), "Uncompress failed")

    def group(self, group: Group) -> None:
        """Print the heading of a group."""
        self._heading(heading(group), "")

    def cubin(self, cubin: Cubin) -> None:
        """Print what is asked for of a cubin that is a file of its own."""
        if self._request.takes(arch.of_cubin(cubin.data)):
            self._image(cubin.data)

    def finish(self, found: bool) -> None:
        """Nothing is left to be done."""

    def _heading(self, lines: list[str], indent: str) -> None:
        self._output.line()
        for line in lines:
            self._output.line(line, indent)

    def _image(self, data: View) -> None:
        try:
            if self._request.shows_resources:
                self._resources(data)
            if self._request.shows_symbols:
                from fatpack.cli.tools.cuobjdump.symbols import symbol_lines

                self._output.lines(["", *symbol_lines(data)])
        except FormatError as error:
            self._output.damage(str(error), f"Invalid ELF in '{self._output.path}'")

    def _resources(self, data: View) -> None:
        from fatpack.cli.tools.cuobjdump.resources import resource_lines, section_of_function

        names, index = self._request.functions, self._request.function_index
        section: int | None = None
        if index:
            try:
                section = section_of_function(data, index)
            except IndexError:
                section = -1
        seen: set[str] = set()

        def is_wanted(number: int, name: str) -> bool:
            seen.add(name)
            return (names is None or name in names) and (not index or number == section)

        self._output.lines(["", *resource_lines(data, is_wanted, is_sorted=self._request.is_sorted)])
        for name in dict.fromkeys(names or ()):
            if name not in seen:
                self._output.warning(f"Function listed in --function '{name}' not found")
        if section == -1:
            self._output.fatal(f"Invalid ELF in '{self._output.path}'")
