"""``fatpack tool clang-offload-wrapper``: LLVM IR that registers OpenMP images, for old LLVM.

The command line is that of clang-offload-wrapper 15. LLVM 16 has no such tool any more; DPC++ has one of its own, which
is in :mod:`fatpack.tools.llvm.clang_offload_wrapper`. What is registered is laid out as clang-linker-wrapper 19
does it: the offload entries are the same. The page below ``docs/tools`` lists all differences.
"""

from __future__ import annotations

import sys

from fatpack.formats.clang_bundle.llvm_triple import is_architecture
from fatpack.tools.llvm import cl_tool, command_line
from fatpack.tools.llvm.llvm_offload_wrapper import WrapperRequest, run_wrapper, write_to_file, write_to_stdout
from fatpack.words_printable import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from fatpack.io.source import Piece

#: The entries of LLVM 20 and before: one layout.
_LLVM = 19

_OVERVIEW = """\
A tool to create a wrapper bitcode for offload target binaries. Takes offload
target binaries as input and produces bitcode file containing target binaries packaged
as data and initialization code which registers target binaries in offload runtime."""

_O = command_line.ClOption
_TOOL = cl_tool.ClTool(
    "clang-offload-wrapper",
    "LLVM 15",
    _OVERVIEW,
    "[options] <input files>",
    (
        cl_tool.LISTING_H,
        *cl_tool.GENERIC,
        _O("o", "string", "Output filename", "<filename>", is_required=True),
        _O("target", "string", "Target triple for the output module", "<triple>", is_required=True),
        _O("add-omp-offload-notes", "flag", "", is_hidden=True),
        _O("save-temps", "flag", "", is_hidden=True),
        _O("v", "flag", "", is_hidden=True),
    ),
    least=1,
)


def main(program: str, arguments: Sequence[str], version: str = "") -> int:
    """Run the tool and return its exit code: 0 or 1; ``version`` is 15, dpcpp, or "" for what the words are for."""
    try:
        arguments = command_line.expand_response_files(arguments)  # once: one may be a pipe
    except command_line.ClError as error:
        return command_line.print_complaints(error.lines, program)
    if version == "dpcpp" or (not version and _is_dpcpp(arguments)):
        from fatpack.tools.llvm.clang_offload_wrapper import main_dpcpp as dpcpp

        return dpcpp(program, arguments)
    given = cl_tool.parse_or_help(_TOOL, program, arguments)
    if isinstance(given, int):
        return given
    triple = given.last("target")
    if not is_architecture(triple.partition("-")[0]):
        sys.stderr.write(printable(f"{program}: error: '{triple}': unsupported target triple") + "\n")
        return 1
    output = given.last("o")

    def write(pieces: Sequence[Piece]) -> None:
        write_to_stdout(pieces) if output == "-" else write_to_file(output, pieces, names_itself=True)

    return run_wrapper(program, WrapperRequest("openmp", given.positional, triple, _LLVM), write)


def _is_dpcpp(words: Sequence[str]) -> bool:
    """Return whether a command line is one for DPC++'s tool: it has to say a kind."""
    return any(word.lstrip("-").partition("=")[0] == "kind" and word.startswith("-") for word in words)
