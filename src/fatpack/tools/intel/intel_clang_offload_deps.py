"""``fatpack tool clang-offload-deps``: the symbols of device code that a host file notes, as DPC++'s tool writes them.

Source: ``clang/tools/clang-offload-deps/ClangOffloadDeps.cpp`` of intel/llvm. The output is LLVM IR as text, where the
original writes bitcode: ``docs/tools/clang-offload-deps.md`` lists all differences.
"""

from __future__ import annotations

import sys

from fatpack.errors import FatpackError
from fatpack.formats.clang_bundle.llvm_triple import is_architecture
from fatpack.io.atomic_write import OutputBatch
from fatpack.io.open import open_source
from fatpack.tools.intel.clang_offload_deps import read_target_symbols, reference_module
from fatpack.tools.llvm import cl_tool, command_line
from fatpack.tools.llvm.failure import ToolError, strerror
from fatpack.words_printable import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_O = command_line.ClOption
_TOOL = cl_tool.ClTool(
    "clang-offload-deps",
    "DPC++",
    """\
A tool for creating dependence bitcode files for offload targets. Takes
host image as input and produces bitcode files, one per offload target, with
references to symbols that must be defined in target images.""",
    "[options] <input file>",
    (
        cl_tool.LISTING_H,
        _O("targets", "commas", "[<offload kind>-<target triple>,...]", "<string>", is_required=True),
        _O("outputs", "commas", "[<output file>,...]", "<string>", is_required=True),
        cl_tool.COLOR,
        *cl_tool.GENERIC,
    ),
    most=1,
    least=1,
)

_KINDS = ("host", "openmp", "hip", "sycl", "fpga")

#: The architectures of SPIR, whose device link takes LLVM IR.
_SPIR = ("spir", "spir64")


def main(program: str, arguments: Sequence[str]) -> int:
    """Run the tool and return its exit code: 0 or 1."""
    given = cl_tool.parse_or_help(_TOOL, program, arguments)
    if isinstance(given, int):
        return given
    try:
        _write(given.positional[0], given.values["targets"], given.values["outputs"])
    except (ToolError, FatpackError) as error:
        sys.stderr.write(printable(f"{program}: error: {error}") + "\n")
        return 1
    return 0


def _write(input_name: str, targets: Sequence[str], outputs: Sequence[str]) -> None:
    """Write one module for each target, all or none. Raises Failure, and FatpackError for the input."""
    if len(targets) != len(outputs):
        raise ToolError("number of output files and targets should match")
    for target in targets:
        _check(target)
    try:
        source = open_source(input_name)
    except OSError as error:
        raise ToolError(f"'{input_name}': {strerror(error)}") from error
    with source:
        symbols = read_target_symbols(source.view(), targets)
    with OutputBatch() as batch:
        for target, output in zip(targets, outputs, strict=True):
            kind, _, triple = target.partition("-")
            is_linked_as_ir = kind == "sycl" or triple.partition("-")[0] in _SPIR
            text = reference_module(triple, symbols[target], is_linked_as_ir=is_linked_as_ir)
            try:
                batch.add(output, [text])
            except OSError as error:
                raise ToolError(f"'{output}': {strerror(error)}") from error
        batch.publish()


def _check(target: str) -> None:
    kind, _, triple = target.partition("-")
    wrong = "" if kind in _KINDS else f", unknown offloading kind '{kind}'"
    if not is_architecture(triple.partition("-")[0]):
        wrong += f", unknown target triple '{triple}'"
    if wrong:
        raise ToolError(f"invalid target '{target}'{wrong}")
