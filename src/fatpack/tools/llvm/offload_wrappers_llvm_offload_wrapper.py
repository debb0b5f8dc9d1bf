"""``fatpack tool llvm-offload-wrapper``: LLVM IR that registers device images, as LLVM 22 or 23 makes it.

Source: behaviour of both; ``llvm/tools/llvm-offload-wrapper/llvm-offload-wrapper.cpp``. The output is text, where the
original writes bitcode: ``docs/tools/llvm-offload-wrapper.md`` lists all differences.
"""

from __future__ import annotations

from fatpack.tools.llvm import cl_tool, command_line
from fatpack.tools.llvm.llvm_offload_wrapper import (
    WrapperRequest,
    host_triple,
    run_wrapper,
    write_to_file,
    write_to_stdout,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from fatpack.io.source import Piece

_KINDS = (("openmp", "Wrap OpenMP binaries"), ("cuda", "Wrap CUDA binaries"), ("hip", "Wrap HIP binaries"))
#: LLVM 23 knows one more.
_KINDS_23 = (*_KINDS, ("sycl", "Wrap SYCL binaries"))

_OVERVIEW = "Generate runtime registration code for a device binary image"


def _tool(version: str) -> cl_tool.ClTool:
    """Return the tool as that version of LLVM has it."""
    option = command_line.ClOption
    kinds = _KINDS if version == "22" else _KINDS_23
    relocatable = option("relocatable", "flag", "Wrap for a relocatable offloading application (OpenMP only)")
    options = (
        cl_tool.LISTING_H,
        *cl_tool.GENERIC,
        option("kind", "choice", "Wrap for offload kind:", "<value>", is_required=True, choices=kinds),
        option("o", "string", "Write output to <file>.", "<file>"),
        *((relocatable,) if version != "22" else ()),
        option("triple", "string", "Target triple for the wrapper module", "<string>"),
    )
    usage = "[options] Wrap input from <file>"
    return cl_tool.ClTool("llvm-offload-wrapper", f"LLVM {version}", _OVERVIEW, usage, options, least=1)


def main(program: str, arguments: Sequence[str], version: str) -> int:
    """Run the tool as that version of LLVM does and return its exit code: 0 or 1."""
    given = cl_tool.parse_or_help(_tool(version), program, arguments)
    if isinstance(given, int):
        return given
    output = given.last("o")

    def write(pieces: Sequence[Piece]) -> None:
        if output == "-" and version != "22":
            write_to_stdout(pieces)
        else:
            # QUIRK(LLVM 22): - is a file of that name.
            write_to_file("./-" if output == "-" else output, pieces, names_itself=False)

    triple = given.last("triple") if "triple" in given.values else host_triple()
    kind = given.last("kind")
    is_relocatable = bool(given.last("relocatable")) and kind == "openmp"
    return run_wrapper(program, WrapperRequest(kind, given.positional, triple, int(version), is_relocatable), write)
