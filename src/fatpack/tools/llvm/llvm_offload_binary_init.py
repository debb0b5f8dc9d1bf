"""``fatpack tool llvm-offload-binary`` (old name clang-offload-packager): packs and extracts as LLVM's tool does.

========================  ====================================================================
``packing``                ``-o``: inputs → one file
``extracting``             one file → outputs
``writing``                an output: a file or standard output
========================  ====================================================================

It follows LLVM 22 or 23. Differences, all listed in
``docs/tools/llvm-offload-binary.md``: containers of newer versions are read, a damaged
file does not crash, a stored name cannot leave the current directory, and outputs appear only when complete.
"""

from __future__ import annotations

import sys

from fatpack.formats.offload_binary.image_option import parse_image_option
from fatpack.tools.llvm import command_line
from fatpack.tools.llvm.failure import ToolError
from fatpack.tools.versions import version_text
from fatpack.words_printable import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_OPTIONS = (
    command_line.ClOption("archive", "flag", "Write extracted files to a static archive"),
    command_line.ClOption("help", "flag", "Display available options (--help-hidden for more)"),
    command_line.ClOption("h", "flag", ""),
    command_line.ClOption("help-list", "flag", "Display list of available options (--help-list-hidden for more)"),
    command_line.ClOption(
        "image",
        "list",
        "List of key and value arguments. Required keywords are 'file' and 'triple'.",
        "<<key>=<value>,...>",
    ),
    command_line.ClOption("o", "string", "Write output to <file>.", "<file>"),
    command_line.ClOption("version", "flag", "Display the version of this program"),
)

_OVERVIEW = """\
A utility for bundling several object files into a single binary.
The output binary can then be embedded into the host section table
to create a fatbinary containing offloading code."""


def main(program: str, arguments: Sequence[str], version: str) -> int:
    """Run the tool as that version of LLVM does and return its exit code: 0 or 1."""
    if program.rpartition("/")[2] == "clang-offload-packager":
        sys.stderr.write("warning: 'clang-offload-packager' is deprecated. Use 'llvm-offload-binary' instead.\n")
    try:
        words = command_line.expand_response_files(arguments)
        given = command_line.parse_cl(words, _OPTIONS, most_positional=1, program=program)
    except command_line.ClError as error:
        return command_line.print_complaints(error.lines, program)
    output, inputs = given.last("o"), given.positional
    if given.last("version"):
        sys.stdout.write(f"{version_text('llvm-offload-binary', f'LLVM {version}')}\n")
        return 0
    if any(given.last(name) for name in ("help", "h", "help-list")) or not (output or any(inputs)):
        return _print_help(as_list=not given.last("help"))
    try:
        images = [parse_image_option(text) for text in given.values.get("image", [])]
        if output and any(inputs):
            raise ToolError("Packaging to an output file and extracting from an input file are mutually exclusive.")
        if output:
            from fatpack.tools.llvm.packing import pack_images

            pack_images(output, images, version)
        else:
            from fatpack.tools.llvm.llvm_offload_binary import ImageExtractor

            ImageExtractor(program, inputs[0], version, archive=bool(given.last("archive"))).extract(images)
    except ToolError as error:
        sys.stderr.write(printable(f"{program}: error: {error}") + "\n")
        return 1
    return 0


def _print_help(*, as_list: bool) -> int:
    """Print what ``--help`` prints, in groups, or the shorter list that an empty command line gets."""
    from fatpack.tools.llvm.help_page import help_page

    usage = "llvm-offload-binary [options] Extract from <file>."
    options = [option for option in _OPTIONS if option.help]
    sys.stdout.write(help_page(_OVERVIEW, usage, options, tool="llvm-offload-binary", as_list=as_list))
    return 0
