"""CIR offload container: host and device modules of ClangIR side by side in one MLIR file.

::

    !alias = …                                      definitions that all modules share
    module attributes {cir.offload.container} {
      module @host attributes {cir.offload.bundle_id = "host-…", cir.offload.kind = #cir.offload<host>, …} { … }
      module @device_… attributes {cir.offload.bundle_id = "cuda-…", cir.offload.kind = #cir.offload<device>, …} { … }
    }
    {-# … #-}                                       resources, in any place of the file

or the same as MLIR bytecode. Seven forms of it have been written since 2023, see
:mod:`~fatpack.formats.cir.vocabulary`.

How we know: lexer, grammar, scoping and bytecode are compared with mlir-opt 22 in this format's reference tests. The
structure and its rules, the order of modules, their names and the renaming of records follow the sources of upstream's
dialect and of cir-offload-merge; no build of ClangIR was available.
"""

from __future__ import annotations

from fatpack.formats.cir.bundle_id import fits, parse_bundle_id
from fatpack.formats.cir.combine.combination import assign_targets
from fatpack.formats.cir.modules.model import (
    BytecodeContainer,
    BytecodeModuleRecord,
    OffloadModule,
    TextContainer,
    TextModuleRecord,
)
from fatpack.formats.cir.reader import detect, extent, parse
from fatpack.formats.cir.vocabulary import CIR_FORMAT, FORMS
from fatpack.layout import FormatInfo

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.formats.cir.combine.combination import Combination
    from fatpack.formats.described import StoredFacts
    from fatpack.io.source import Piece, View
    from fatpack.model import Container, Image, Label
    from fatpack.writer_options import CirOptions


__all__ = [
    "DOC",
    "FORMS",
    "LAYOUTS",
    "BytecodeContainer",
    "BytecodeModuleRecord",
    "OffloadModule",
    "TextContainer",
    "TextModuleRecord",
    "assign_targets",
    "combine_container",
    "describe",
    "describe_plain_modules",
    "detect",
    "extent",
    "fits",
    "kernel_names",
    "labels",
    "only_bundle_id",
    "only_triple",
    "parse",
    "parse_bundle_id",
    "split_image",
    "write",
]

DOC = FormatInfo(
    name=CIR_FORMAT,
    title="CIR offload container",
    description=(
        "The MLIR file in which ClangIR keeps the host module and one module per GPU architecture together, so that "
        "passes can look across the boundary. cir-offload-merge writes it, and people do by hand. The format is young: "
        "files of its first tools are still around, with the container as an operation, kinds as strings, no "
        "IDs."
    ),
    references=(
        "llvm/llvm-project#206576: the container as a module attribute, and its verifier",
        "clang/tools/cir-offload-merge/cir-offload-merge.cpp, RiverDave/llvm-project, 2026",
        "mlir/lib/AsmParser/Lexer.cpp and mlir/docs/LangRef.md, LLVM 22.1",
        "mlir/docs/BytecodeFormat.md and mlir/lib/Bytecode, LLVM 22.1",
        "clang/include/clang/CIR/Dialect/IR/CIRAttrs.td, llvm-project, 2026",
    ),
    reads=(
        "text in the forms attribute, nested, op, op-string and prototype, MLIR bytecode of versions "
        "0 to 6, and AMD's device modules inside a host module (offload-module: cir.offload.module or gpu.module), "
        "which are only listed"
    ),
    writes="text in the forms attribute, nested, op, op-string and prototype",
    limitations=(
        "fatpack optimises nothing. cir-offload-merge runs passes over its output, so that equals ours "
        "only for modules in which those passes change nothing.",
        "fatpack counts operations without knowing their dialects. If a line has several, it sees only the "
        "first, unless they are in generic form.",
        "Bytecode is split, never combined: its tables would have to be renumbered, also where only a dialect can.",
        "A module that is split off bytecode keeps the tables of the whole file, the host's strings among them.",
        "Symbols of registered operations in bytecode of versions 5 and 6 cannot be read.",
        "A GPU binary in a lowered module in bytecode of ClangIR has an encoding of its own, and is not found.",
        "Writing a container anew loses blanks and comments between modules, and unused aliases.",
        "Resources of dialects other than builtin are not renamed: modules that use one key differently are refused.",
    ),
)

LAYOUTS = ()


def write(container: Container, options: CirOptions | None = None) -> Iterator[Piece]:
    """Yield the pieces of a container; see :func:`fatpack.formats.cir.combine.writer.write_container`."""
    from fatpack.formats.cir.combine import writer

    return writer.write_container(container, options)


def combine_container(
    container: Container, options: CirOptions | None = None, *, rename_records: bool = True
) -> Combination:
    """Return a container ready to be written, with a report; see
    :func:`fatpack.formats.cir.combine.writer.combine_container`."""
    from fatpack.formats.cir.combine import writer

    return writer.combine_container(container, options, rename_records=rename_records)


def split_image(image: Image) -> Iterator[Piece]:
    """Return the pieces of the file that an image becomes; see :func:`fatpack.formats.cir.files.split.split_image`."""
    from fatpack.formats.cir.files import split

    return split.split_image(image)


def labels(view: View, container: Container) -> Iterator[Label]:
    """Yield a label for every byte of a parsed container. Raises UsageError for one that was not read from a file."""
    from fatpack.formats.cir import byte_labels

    return byte_labels.label_container(container)


def describe(container: Container) -> StoredFacts:
    """Return the contents of the modules: names, roles, operations, kernels, and the functions that launch them.

    Raises UsageError for a container that was not read from a file.
    """
    from fatpack.formats.cir.byte_labels import describe_container

    return describe_container(container)


def describe_plain_modules(view: View) -> StoredFacts:
    """Return the same for the modules of a file that is not a container. Raises FormatError for damaged bytecode."""
    from fatpack.formats.cir.byte_labels import describe_modules

    return describe_modules(view)


def only_bundle_id(view: View) -> str | None:
    """Return the bundle ID of a file's only module, as split files have it; None if there is none."""
    from fatpack.formats.cir.modules.attributes import plain_modules

    modules = plain_modules(view)
    return modules[0][1].id if len(modules) == 1 else None


def only_triple(view: View) -> str:
    """Return the triple that a file's only module states (``cir.triple``), "" if there is none."""
    from fatpack.formats.cir.modules.attributes import plain_modules

    modules = plain_modules(view)
    return modules[0][1].triple if len(modules) == 1 else ""


def kernel_names(view: View, record: object = None) -> tuple[str, ...]:
    """Return the names of the kernels of an image, or of a file, in order; () if they cannot be decoded.

    ``record`` is the image's, if a container was read. Raises FormatError for damaged bytecode.
    """
    from fatpack.formats.cir.byte_labels import read_kernel_names

    return read_kernel_names(view, record)
