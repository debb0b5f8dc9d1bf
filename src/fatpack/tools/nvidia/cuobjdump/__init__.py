"""``fatpack tool cuobjdump``: lists, extracts and dumps CUDA device code as cuobjdump of CUDA 13.5 does.

==============================  ==============================================================
``options``                     the table of options; a command line → what to do
``reading``                     a file → its entries, in the original's order
``names``, ``arch``             the names of what is listed and extracted
``listing``, ``extracting``     ``-lelf -lptx -ltext``, ``-xelf -xptx -xtext``
``dumping``, ``headings``       what is printed without these
``resources``, ``symbols``      ``-res-usage``, ``-symbols``
``disassembling``               ``-sass``
``output``                      lines and messages
==============================  ==============================================================

Nothing is inflated that is not looked at: a list costs the headers, and the first bytes of every cubin. Where this is
not like the original, ``docs/tools/cuobjdump.md`` says so.
"""

from __future__ import annotations

import sys

from fatpack.record import gc_paused
from fatpack.tools.nvidia import command_line
from fatpack.tools.nvidia.cuobjdump.options import HELP_WIDTH, OPTIONS, parse_cuobjdump_request
from fatpack.tools.versions import version_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from fatpack.io.source import View
    from fatpack.tools.nvidia.cuobjdump.dump import EntryDump
    from fatpack.tools.nvidia.cuobjdump.listing import EntryListing
    from fatpack.tools.nvidia.cuobjdump.options import CuobjdumpRequest, ToolOutput


def main(program: str, arguments: Sequence[str]) -> int:
    """Run the tool and return its exit code: 0, 1, or 255 for a file without device code."""
    name = program.rpartition("/")[2]

    def warn(text: str) -> None:
        command_line.print_message(name, "warning", text)

    try:
        given = command_line.parse_nvidia_options(arguments, OPTIONS, warn)
        if given.last("help") or (len(given.positional) != 1 and not given.last("version")):
            from fatpack.tools.nvidia.command_line import help_page

            sys.stdout.write(help_page("cuobjdump [options] <file>", OPTIONS, HELP_WIDTH))
            return 0
        if given.last("version"):
            sys.stdout.write(f"cuobjdump: {version_text('cuobjdump', 'CUDA 13.5')}\n")
            return 0
        request = parse_cuobjdump_request(given)
    except command_line.NvidiaCommandLineError as error:
        command_line.print_message(name, "fatal", str(error))
        return 1
    if request.functions == ():
        warn(r"Empty function name provided with --function. Check if you need to escape characters like '\$'.")
    return _run(name, request, program.rpartition("/")[0])


def _run(name: str, request: CuobjdumpRequest, program_folder: str) -> int:
    from fatpack.errors import UsageError
    from fatpack.io.open import open_source
    from fatpack.tools.nvidia.cuobjdump.options import ExitTool, ToolOutput

    output = ToolOutput(name, request.path)
    try:
        # A file called "-" is one; standard input is not read.
        source = open_source("./-" if request.path == "-" else request.path)
    except (OSError, UsageError):
        output.fatal(f"Could not open input file '{output.path}'")
        return output.code
    try:
        with source, gc_paused():
            _walk(source.view(), request, output, program_folder)
            return output.finish()
    except ExitTool:
        return output.code


def _walk(view: View, request: CuobjdumpRequest, output: ToolOutput, program_folder: str) -> None:
    """Go through the file once."""
    from fatpack.tools.nvidia.cuobjdump import entries

    if request.extracts or request.lists:
        from fatpack.tools.nvidia.cuobjdump.listing import EntryListing

        visitor: EntryListing | EntryDump = EntryListing(request, output, view)
    else:
        from fatpack.tools.nvidia.cuobjdump.dump import EntryDump

        visitor = EntryDump(request, output, program_folder)
    found = False
    for item in entries.read_items(view, wants_all=request.wants_all):
        if isinstance(item, entries.ArchiveMemberItem):
            visitor.member(item.title)
        elif isinstance(item, entries.DamagedEntry):
            output.damage(item.text, f"Invalid {item.what} in '{output.path}'")
        elif isinstance(item, entries.SectionStart):
            found = True
        elif isinstance(item, entries.CubinFile):
            visitor.cubin(item)
        elif isinstance(item, entries.CudaGroup):
            visitor.group(item)
        elif request.arch in (None, item.head.sm):
            visitor.entry(item)
    visitor.finish(found)
    if not found and not output.is_damaged:
        output.info(f"File '{output.path}' does not contain device code")
        output.code = 255
