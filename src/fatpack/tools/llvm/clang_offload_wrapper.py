"""``fatpack tool clang-offload-wrapper``: LLVM IR that registers images of SYCL, OpenMP, HIP and the host.

With the options of DPC++'s tool, the command line, the order of checks, the messages and the output are those of
``clang/tools/clang-offload-wrapper/ClangOffloadWrapper.cpp`` of intel/llvm at 02bb9ec032e1; no binary was available.
With those of clang-offload-wrapper 15, the output registers OpenMP images as LLVM 15 does. It is text, where the
originals write bitcode: ``docs/tools/clang-offload-wrapper.md`` lists all differences.
"""

from __future__ import annotations

import os
import sys

from fatpack.commands.wrap.dpcpp_images import DPCPP_KINDS, FORMATS, DpcppImage, read_entry_names, read_property_sets
from fatpack.commands.wrap.file_table import read_table
from fatpack.commands.wrap.run import wrap_for_dpcpp
from fatpack.errors import FatpackError
from fatpack.io.open import open_source
from fatpack.printable import printable
from fatpack.record import Record
from fatpack.targets.llvm_triple import is_architecture
from fatpack.tools.llvm import cl_tool, command_line
from fatpack.tools.llvm.cl_tool import ToolError, strerror
from fatpack.tools.llvm.llvm_offload_wrapper import (
    WrapperRequest,
    host_triple,
    run_wrapper,
    write_to_file,
    write_to_stdout,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fatpack.commands.wrap.dpcpp_images import DpcppOutput
    from fatpack.io.source import Piece, Source, View


_DPCPP_OVERVIEW = """\
A tool to create a wrapper bitcode for offload target binaries.
Takes offload target binaries and optional manifest files as input
and produces bitcode file containing target binaries packaged as data
and initialization code which registers target binaries in the offload
runtime. Here it is LLVM IR as text. An image file may be followed by its
manifest. Options that say something of images count for all files after
them, until they are given again.

For example:
  clang-offload-wrapper -host=x86_64-pc-linux-gnu -o wrapper.bc \\
      -kind=sycl -target=spir64 -format=spirv -compile-opts=-g \\
      -entries=a.sym -properties=a.prop a.spv a.manifest \\
      -kind=openmp -target=spir64_gen -format=native b.bin"""

_BATCH = """\
All input files are provided as cells in a file table file,
other command-line input files are not allowed.
Example input file table in batch mode:
[Code|Symbols|Properties|Manifest]
a_0.bc|a_0.sym|a_0.props|a_0.mnf
a_1.bin|||"""

_DESCRIPTOR = """\
Specifies offload descriptor symbol name: '.<offload kind>.<name>',
and makes it globally visible"""

_KIND_CHOICES = (("unknown", "unknown"), ("host", "host"), ("openmp", "OpenMP"), ("hip", "HIP"), ("sycl", "SYCL"))
_FORMAT_TEXTS = ("not set", "unknown or native", "SPIRV binary", "LLVMIR bitcode")

_DpcppOption = command_line.ClOption
_DPCPP_TOOL = cl_tool.ClTool(
    "clang-offload-wrapper",
    "DPC++",
    _DPCPP_OVERVIEW,
    "[options] <input files>",
    (
        cl_tool.LISTING_H,
        *cl_tool.GENERIC,
        _DpcppOption("batch", "flag", _BATCH),
        _DpcppOption("compile-opts", "string", "compile options passed to the offload runtime", "<string>"),
        _DpcppOption("desc-name", "string", _DESCRIPTOR, "<name>"),
        _DpcppOption("emit-reg-funcs", "flag", "Emit [un-]registration functions"),
        _DpcppOption("entries", "string", "File listing all offload function entries, SYCL offload only", "<filename>"),
        _DpcppOption(
            "format",
            "choice",
            "device binary image formats:",
            "<value>",
            choices=tuple(zip(FORMATS, _FORMAT_TEXTS, strict=True)),
        ),
        _DpcppOption(
            "host", "string", "Target triple for the output module. If omitted, the host\ntriple is used.", "<triple>"
        ),
        _DpcppOption("kind", "choice", "offload kind:", "<value>", is_required=True, choices=_KIND_CHOICES),
        _DpcppOption("link-opts", "string", "link options passed to the offload runtime", "<string>"),
        _DpcppOption("o", "string", "Output filename", "<filename>", is_required=True),
        _DpcppOption(
            "properties", "string", "File listing device binary image properties, SYCL offload only", "<filename>"
        ),
        _DpcppOption("target", "string", "offload target triple", "<string>"),
        _DpcppOption("v", "flag", "verbose output"),
        _DpcppOption("add-omp-offload-notes", "flag", "", is_hidden=True),
        _DpcppOption("native-cpu", "flag", "", is_hidden=True),
        _DpcppOption("save-temps", "flag", "", is_hidden=True),
        _DpcppOption("sym-prop-bc-files", "string", "", is_hidden=True),
    ),
    least=1,
)

#: Options that say something of the images after them.
_STATED = ("kind", "format", "target", "compile-opts", "link-opts", "entries", "properties")

#: Refused options, and the reasons.
_REFUSED = {
    "native-cpu": "kernels of SYCL's native CPU are linked into the host program, and have no image to wrap",
    "sym-prop-bc-files": "symbols and properties would have to be read from bitcode; give them with -entries and "
    "-properties, or in the table of -batch",
}


class _ImageArgument(Record):
    """An image that the command line asks for: what was stated of it, and its files."""

    stated: dict[str, str]
    file: str
    manifest: str
    entries: str
    properties: str


def main_dpcpp(program: str, arguments: Sequence[str]) -> int:
    """Run the tool and return its exit code: 0 or 1."""
    given = cl_tool.parse_or_help(_DPCPP_TOOL, program, arguments)
    if isinstance(given, int):
        return given
    try:
        _wrap(given)
    except (ToolError, FatpackError) as error:
        sys.stderr.write(printable(f"{program}: error: {error}") + "\n")
        return 1
    return 0


def _wrap(given: command_line.ClArguments) -> None:
    for name, why in _REFUSED.items():
        if given.last(name):
            raise ToolError(f"-{name} is not offered by fatpack: {why}")
    if given.last("batch") and len(given.positional) != 1:
        raise ToolError("batch job table file must be the only input file")
    host, is_verbose = given.last("host"), bool(given.last("v"))
    if not host:
        host = host_triple()
        if is_verbose:
            sys.stderr.write(f"warning: -host option is omitted, using host triple '{host}'\n")
    if not is_architecture(host.partition("-")[0]):
        raise ToolError(f"'{host}': unsupported target triple")
    asked = list(_asked(given))
    output = given.last("o")
    if output != "-":
        _refuse_output(output)
    opened: list[Source] = []
    try:
        images = [_read(item, opened) for kind in DPCPP_KINDS for item in asked if item.stated["kind"] == kind]
        wrapped = wrap_for_dpcpp(
            images,
            host_triple=host,
            descriptor=given.last("desc-name") if "desc-name" in given.values else None,
            has_functions="emit-reg-funcs" not in given.values or bool(given.last("emit-reg-funcs")),
        )
        if is_verbose:
            _tell(wrapped)
        if output == "-":
            write_to_stdout(wrapped.pieces)
        else:
            write_to_file(output, wrapped.pieces, names_itself=True)
    finally:
        for source in opened:
            source.close()


def _tell(wrapped: DpcppOutput) -> None:
    """Print what was added to a module, as the original does where it is verbose."""
    for item in wrapped.added:
        text = f"  global added: {item}" if isinstance(item, str) else _shown(item)
        sys.stderr.write("\n".join(map(printable, text.split("\n"))) + "\n")


def _asked(given: command_line.ClArguments) -> Iterator[_ImageArgument]:
    """Yield the images that a command line asks for: files between options are an image and its manifest."""
    stated = dict.fromkeys(_STATED, "")
    files: list[str] = []
    for name, value in (*given.order, ("kind", "")):
        if name == "":
            files.append(value)
        elif name in _STATED:
            yield from _group(stated, files, is_batch=bool(given.last("batch")))
            files.clear()
            stated[name] = value


def _group(stated: dict[str, str], files: Sequence[str], *, is_batch: bool) -> Iterator[_ImageArgument]:
    """Yield the images of the files between two options."""
    if len(files) > 2:
        raise ToolError("too many inputs for a single binary image, <binary file> <manifest file>{opt}expected")
    if not files:
        return
    if stated["kind"] not in DPCPP_KINDS:
        raise ToolError("offload model not set")
    if not is_batch:
        manifest = files[1] if len(files) > 1 else ""
        yield _ImageArgument(dict(stated), files[0], manifest, stated["entries"], stated["properties"])
        return
    try:
        source = open_source(files[0])
    except OSError as error:
        raise ToolError(f"'can't read {files[0]}': {strerror(error)}") from error
    with source:
        table = read_table(source.view())
    code = table.column("Code")
    others = [
        table.column(name) if name in table.titles else [""] * len(code)
        for name in ("Manifest", "Symbols", "Properties")
    ]
    for row in zip(code, *others, strict=True):
        yield _ImageArgument(dict(stated), *row)


def _refuse_output(name: str) -> None:
    """Raise ToolError for an output that cannot be made: the original makes it before it reads anything."""
    folder = os.path.dirname(name) or "."
    problem = ""
    if not name or not os.path.isdir(folder):
        problem = "No such file or directory" if not os.path.exists(folder) or not name else "Not a directory"
    elif os.path.isdir(name):
        problem = "Is a directory"
    if problem:
        raise ToolError(f"'{name}': {problem}")


def _read(asked: _ImageArgument, opened: list[Source]) -> DpcppImage:
    """Return an image with all that its files say, in the order in which the original reads them."""
    manifest = _view(asked.manifest, opened) if asked.manifest else None
    sets = read_property_sets(_view(asked.properties, opened)) if asked.properties else None
    if not asked.file:
        raise ToolError("image file name missing")
    content = _view(asked.file, opened)
    is_sycl = asked.stated["kind"] == "sycl"
    return DpcppImage(
        kind=asked.stated["kind"],
        file=asked.file,
        content=content,
        target=asked.stated["target"],
        format=asked.stated["format"] or "none",
        compile_options=asked.stated["compile-opts"],
        link_options=asked.stated["link-opts"],
        manifest_file=asked.manifest,
        manifest=manifest,
        entries=read_entry_names(_view(asked.entries, opened)) if asked.entries and is_sycl else None,
        property_sets=sets,
    )


def _view(name: str, opened: list[Source]) -> View:
    try:
        opened.append(open_source(name))
    except OSError as error:
        raise ToolError(f"'{name}': {strerror(error)}") from error
    return opened[-1].view()


def _shown(image: DpcppImage) -> str:
    """Return what the original tells of an image before it adds it."""
    return (
        f"adding image: offload kind={image.kind}\n{{\n"
        f"  file     = {image.file}\n"
        f"  manifest = {image.manifest_file or '-'}\n"
        f"  format   = {image.format}\n"
        f"  target   = {image.target or '-'}\n"
        f"  compile options  = {image.compile_options or '-'}\n"
        f"  link options     = {image.link_options or '-'}\n"
        "}\n"
    )


# The wrapper of LLVM 15 for OpenMP images; LLVM 16 removed it. The layout is that of clang-linker-wrapper 19, whose
# offload entries are the same.

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
        return main_dpcpp(program, arguments)
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
