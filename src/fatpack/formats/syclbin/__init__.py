"""SYCLBIN: DPC++'s file of device code that a SYCL program loads at run time.

::

    version 1
    0x00  magic 0x53594249, version u32 = 1, number of abstract modules, IR modules and native images u32, padding u32,
          size of the metadata table u64, of the images u64, global metadata: offset u64, size u64
    0x38  abstract modules, 32 bytes each: metadata, IR modules, native images
    ....  IR modules, then native images, 32 bytes each: metadata, bytes
    ....  metadata table: property sets, which are text; zeros to a multiple of 8
    ....  the images, zeros to a multiple of 8

    version 2: an offload binary (version 2), each entry of image kind 7 and with a role:
          global_metadata, am_metadata   property sets
          ir, native                     size of the metadata u64, property sets, the image

An abstract module binds images with the same properties: the same kernels as SPIR-V and for some devices. Tools and
runtime of DPC++ put version 1 into an offload binary of one image, which is an outer container.

How we know: ``llvm/lib/Object/SYCLBIN.cpp``, ``SYCLBIN.h`` and ``sycl/source/detail/syclbin.cpp`` of DPC++ in 2025 and
2026, and the files that their unit tests describe. llvm-offload-binary 23.1 reads version 2 as an offload binary.

QUIRK(DPC++'s runtime): ``ext_oneapi_get_content`` writes version 1, in an offload binary with offload kind 5.

QUIRK(DPC++'s design page): it calls the metadata of a native image ``native device code image module metadata``. All
code omits ``module``.
"""

from __future__ import annotations

from fatpack.formats.diagnostics import not_parsed_error
from fatpack.formats.syclbin.layout import (
    ABSTRACT,
    HEADER,
    IR_MODULE,
    NATIVE_IMAGE,
    PAYLOAD,
    SYCLBIN_FORMAT,
    SyclbinEntry,
    SyclbinHeader,
)
from fatpack.formats.syclbin.reader import detect, extent, parse
from fatpack.layout import FormatInfo

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.formats.described import PlainPropertySets, StoredFacts
    from fatpack.io.source import Piece, View
    from fatpack.model import Container, Label
    from fatpack.writer_options import SyclbinOptions

__all__ = ["DOC", "LAYOUTS", "describe", "detect", "extent", "labels", "parse", "write"]

DOC = FormatInfo(
    name=SYCLBIN_FORMAT,
    title="SYCLBIN",
    description=(
        "The file in which DPC++ (intel/llvm) keeps SPIR-V modules and native device code of SYCL kernels with their "
        "properties, for programs that load it while they run. Written by clang -fsyclbin, clang-linker-wrapper "
        "--syclbin and the SYCL runtime (ext_oneapi_get_content)."
    ),
    references=(
        "intel/llvm llvm/include/llvm/Object/SYCLBIN.h and llvm/lib/Object/SYCLBIN.cpp, revision 003d792a (versions 1 "
        "and 2)",
        "intel/llvm sycl/source/detail/syclbin.cpp, of 2026 (version 1 as the runtime writes it)",
        "intel/llvm sycl/doc/design/SYCLBINDesign.md and PlainPropertySets.md",
        "intel/llvm llvm/lib/Support/PropertySetIO.cpp and Base64.cpp",
    ),
    reads="version 1, alone or in an offload binary, and version 2",
    writes="versions 1 and 2",
    limitations=(
        "No compiler that writes these files was at hand: the readers follow DPC++'s source, and the tests a second "
        "reading of it. Files of version 2 are compared with llvm-offload-binary 23.1, which knows nothing of roles.",
        "Version 2 in an offload binary that is compressed is listed as that offload binary.",
        "An unmerged draft of version 2, with property sets among the strings of an offload binary "
        "(syclbin_abstract_module_id), is listed as that offload binary.",
        "Properties are shown as they are stored: numbers, text, or bytes. The bytes of a property are not decoded.",
        "Rewriting version 1 leaves no gaps in its tables: bytes that belong to nothing are reported, and dropped.",
        "Of native code for Intel's GPUs no kernels are named; the property set SYCL/kernel names has them, if there "
        "is one.",
    ),
)

LAYOUTS = (HEADER, ABSTRACT, IR_MODULE, NATIVE_IMAGE, PAYLOAD)


def write(container: Container, options: SyclbinOptions | None = None) -> Iterator[Piece]:
    """Yield the pieces of one file; see :func:`fatpack.formats.syclbin.writer.write`."""
    from fatpack.formats.syclbin.writer import write

    return write(container, options)


def labels(view: View, container: Container) -> Iterator[Label]:
    """Yield a label for every byte of a parsed file."""
    from fatpack.formats.syclbin import reader

    return reader.label_syclbin(view, _header(container), container)


def describe(container: Container) -> StoredFacts:
    """Return facts beyond the common model: the property sets of the file, its modules and its images.

    Values are numbers, texts, or ``{"hex": …}`` for bytes that are not text.
    """
    header = _header(container)
    text = header.global_metadata
    return {
        "state": header.state,
        "properties": _sets(text) if text is not None else {},
        "modules": [{"am_index": module.number, "properties": _sets(module.metadata)} for module in header.modules],
        "images": [
            {"role": entry.role, "am_index": entry.module, "properties": _sets(entry.metadata)}
            for entry in (image.record for image in container.images)
            if isinstance(entry, SyclbinEntry)
        ],
    }


def _sets(text: View) -> PlainPropertySets:
    from fatpack.formats.syclbin.properties import read_properties, to_plain_value

    sets: PlainPropertySets = {}
    for item in read_properties(text.tobytes()):
        sets.setdefault(item.set, {})[item.name] = to_plain_value(item.value)
    return sets


def _header(container: Container) -> SyclbinHeader:
    if isinstance(container.record, SyclbinHeader):
        return container.record
    raise not_parsed_error("container")
