"""``fatpack tool llvm-offload-wrapper``: LLVM IR that registers device images, as LLVM 22 or 23 makes it.

``clang_offload_wrapper`` of older LLVM uses the same functions to read inputs and to write LLVM IR. Source: behaviour
of both versions, and ``llvm/tools/llvm-offload-wrapper/llvm-offload-wrapper.cpp``. The output is text, where the
original writes bitcode: ``docs/tools/llvm-offload-wrapper.md`` lists all differences.
"""

from __future__ import annotations

import sys

from fatpack.commands.wrap.run import wrap_passthrough
from fatpack.errors import FatpackError
from fatpack.io.atomic_write import write_file
from fatpack.io.open import open_source
from fatpack.printable import printable
from fatpack.record import Record
from fatpack.tools.llvm import cl_tool, command_line
from fatpack.tools.llvm.cl_tool import ToolError, strerror

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fatpack.io.source import Piece, Source


class WrapperRequest(Record):
    """The options: a kind, files, the host's triple, and the version of LLVM to follow."""

    kind: str
    files: Sequence[str]
    host_triple: str
    llvm: int
    is_relocatable: bool = False


def run_wrapper(program: str, request: WrapperRequest, write: Callable[[Sequence[Piece]], None]) -> int:
    """Hand the LLVM IR of a request to ``write``; print what fails, and return the exit code."""
    opened: list[Source] = []
    try:
        _wrap(program, request, opened, write)
    except ToolError as error:
        sys.stderr.write(printable(f"{program}: error: {error}") + "\n")
        return 1
    finally:
        for source in opened:
            source.close()
    return 0


def _wrap(
    program: str, request: WrapperRequest, opened: list[Source], write: Callable[[Sequence[Piece]], None]
) -> None:
    given = []
    for name in request.files:
        try:
            opened.append(open_source(name))
        except OSError as error:
            raise ToolError(f"'{name}': {strerror(error)}") from error
        given.append((name, opened[-1].view()))
    if len(given) > 1 and request.kind in ("cuda", "hip"):
        raise ToolError("CUDA / HIP offloading uses a single fatbinary or offload bundle")
    try:
        pieces, doubts = wrap_passthrough(
            request.kind,
            given,
            host_triple=request.host_triple,
            llvm=request.llvm,
            is_relocatable=request.is_relocatable,
        )
    except FatpackError as error:
        raise ToolError(str(error)) from error
    for doubt in doubts:
        sys.stderr.write(printable(f"{program}: warning: {doubt}") + "\n")
    write(pieces)


def write_to_file(name: str, pieces: Sequence[Piece], *, names_itself: bool) -> None:
    """Write a file. Raises ToolError, which ``names_itself`` has say which file it was."""
    try:
        if not name:
            raise FileNotFoundError(2, "No such file or directory")
        write_file(name, pieces, force=True)
    except OSError as error:
        raise ToolError(f"'{name}': {strerror(error)}" if names_itself else strerror(error)) from error


def write_to_stdout(pieces: Sequence[Piece]) -> None:
    """Write to standard output."""
    from fatpack.io.write import write_pieces

    sys.stdout.flush()
    write_pieces(1, pieces)


def host_triple() -> str:
    """Return the triple of this machine, as an LLVM that was built on it has it by default."""
    import os

    if not hasattr(os, "uname"):
        return "x86_64-pc-windows-msvc"
    system = os.uname()
    if system.sysname == "Darwin":
        return f"{system.machine}-apple-darwin{system.release}"
    return f"{system.machine}-{'pc' if system.machine == 'x86_64' else 'unknown'}-linux-gnu"


# The command line.

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
