"""``fatpack tool clang-offload-deps``: symbols of device code that a host file lists, as DPC++'s tool writes them.

A device link takes objects out of archives only if something needs their symbols. The output is a module for each
target with undefined references to the symbols that the host's objects list, so that the link takes those objects.

Source: ``clang/tools/clang-offload-deps/ClangOffloadDeps.cpp`` of intel/llvm. The output is LLVM IR as text, where the
original writes bitcode: ``docs/tools/clang-offload-deps.md`` lists all differences.
"""

from __future__ import annotations

import sys

from fatpack import binary
from fatpack.commands.wrap.ir.text import global_name, quote_bytes
from fatpack.errors import FatpackError, FormatError, Unsupported
from fatpack.formats.clang_bundle.fat_object import symbols_for_id
from fatpack.io.atomic_write import OutputBatch
from fatpack.io.open import open_source
from fatpack.model import Finding
from fatpack.printable import printable
from fatpack.targets.llvm_triple import is_architecture
from fatpack.tools.llvm import cl_tool, command_line
from fatpack.tools.llvm.cl_tool import ToolError, strerror

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from fatpack.io.source import View


_SECTION = ".tgtsym"
_HOLDER = "offload.symbols"

#: Variables that LLVM gives a meaning and a type of its own: nothing can refer to them.
_LLVM_OWN = (b"llvm.used", b"llvm.compiler.used", b"llvm.global_ctors", b"llvm.global_dtors")


def read_target_symbols(view: View, ids: Sequence[str]) -> dict[str, list[bytes]]:
    """Return bundle ID → the symbols that an object or program notes for it, each once, in stored order.

    Raises Unsupported for what is no such file, FormatError for a damaged one, HostError for a section too large.
    """
    host = binary.detect_host(view)
    if host not in ("elf", "coff", "pe", "macho"):
        raise Unsupported("The file was not recognized as a valid object file", chain=view.chain)
    found: dict[str, dict[bytes, None]] = {id: {} for id in ids}
    for site in binary.get_host(host).locate(view):
        if isinstance(site, Finding):
            if site.severity == "error":
                raise FormatError(site.text, offset=site.span.start, hint=site.hint, chain=view.chain)
        elif (site.section or "").partition("$")[0] == _SECTION:
            for id, symbols in found.items():
                symbols.update(dict.fromkeys(symbols_for_id(site.data, id)))
    return {id: list(symbols) for id, symbols in found.items()}


def reference_module(triple: str, symbols: Sequence[bytes], *, is_linked_as_ir: bool) -> bytes:
    """Return LLVM IR for a target with an undefined reference to each symbol.

    ``is_linked_as_ir`` says that the device link takes IR: ``llvm.used`` is enough then; code for other targets needs a
    variable that holds the addresses. Raises Unsupported for a symbol to which nothing can refer.
    """
    bad = next((symbol for symbol in symbols if symbol in _LLVM_OWN), None)
    if bad is not None:
        raise Unsupported(f"the symbol {bad.decode()} is LLVM's own: nothing can refer to it")
    names = [global_name(symbol.decode("utf-8", "surrogateescape")) for symbol in symbols]
    lines = [
        "; ModuleID = 'offload-deps'",
        'source_filename = "offload-deps"',
        f'target triple = "{quote_bytes(triple.encode("utf-8", "surrogateescape"))}"',
        "",
        *(f"{symbol} = external global ptr" for symbol in names),
    ]
    if names:
        array = f"[{len(names)} x ptr] [{', '.join(f'ptr {symbol}' for symbol in names)}]"
        if is_linked_as_ir:
            lines.append(f'@llvm.used = appending global {array}, section "llvm.metadata"')
        else:
            lines.append(f"{_free(names)} = hidden local_unnamed_addr global {array}")
    return "".join(f"{line}\n" for line in lines).encode("ascii")


def _free(names: Sequence[str]) -> str:
    """Return what the variable is called that holds the addresses: a name that no symbol has."""
    taken, number, holder = set(names), 0, f"@{_HOLDER}"
    while holder in taken:
        number += 1
        holder = f"@{_HOLDER}.{number}"
    return holder


# The command line.

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
    """Write one module for each target, all or none. Raises ToolError, and FatpackError for the input."""
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
