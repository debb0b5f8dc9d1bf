"""Metal library (``.metallib``): Apple's container of GPU functions, each as bitcode of AIR.

::

    0x00  magic "MTLB", u16 platform and major, u16 minor, u16 patch, u8 kind, u8 platform, u16 u8 u8 minimum system,
          u64 size, and u64 offset and size of four parts: functions, public metadata, private metadata, bitcode
    0x58  u32 count, then groups: u32 size, tags (4 letters, u16 size, content), ENDT
          NAME  TYPE  HASH  OFFT  VERS  MDSZ  RFLT  ENDT
    ....  extension of the header: tags up to ENDT, as UUID, RLST, HDYN; absent if the metadata follows at once
    ....  public metadata, private metadata: a group for each function, of 8 bytes if it is empty
    ....  bitcode: a module for each function, in a wrapper
    ....  what the extension points to: reflection list, dynamic section, embedded source

Everything is little-endian. The size of the list does not count its count: the list ends 4 bytes after its size.

How we know: Apple does not document the format. YuAo/MetalLibraryArchive and JuliaGPU/Metal.jl
(``src/compiler/library.jl``) describe it; measured on ``mlx.metallib`` of the wheel mlx-metal 0.32.4.
"""

from __future__ import annotations

from fatpack.errors import pluralize
from fatpack.formats.diagnostics import not_parsed_error
from fatpack.formats.metallib.layout import COUNT, GROUP, HEADER, METALLIB_FORMAT, TAG, MetalFunction, MetalHeader
from fatpack.formats.metallib.reader import detect, extent, parse
from fatpack.layout import FormatInfo
from fatpack.model import Label, fill_gaps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.formats.described import StoredFacts
    from fatpack.io.source import Piece, View
    from fatpack.model import Container

__all__ = ["DOC", "LAYOUTS", "describe", "detect", "extent", "labels", "parse", "write"]

DOC = FormatInfo(
    name=METALLIB_FORMAT,
    title="Metal library",
    description=(
        "Apple's container of GPU functions. Each function is a module of LLVM bitcode (AIR), which the driver "
        "compiles for the device when it loads the function. Written by Apple's `metallib` and `metal`, read by Metal. "
        "The header names the system that the library needs, and each function the version of the language in which it "
        "was written: these are separate facts, and both must suit. In wheels (mlx-metal), bundles of programs, and "
        "data of programs."
    ),
    references=(
        "YuAo/MetalLibraryArchive README and Sources/MetalLibraryArchive/Archive.swift",
        "JuliaGPU/Metal.jl src/compiler/library.jl",
        "a2flo/floor_llvm tools/metallib-dis",
        "ml-explore/mlx mlx/backend/metal/device.cpp, for the language of each system",
    ),
    reads="format 1.2, of macOS 12 to macOS 26",
    writes="a library that was read as it is stored, and new ones of format 1.2.7 without metadata",
    limitations=(
        "Functions cannot be replaced or removed: the reflection list and the metadata have a part for each. `slim`, "
        "`replace` and `remove` refuse.",
        "Of universal Metal files (CB FE BA BE), the slices that are Metal libraries are read; `check` fails for "
        "native code (`metal-universal`).",
        "Public and private metadata, the reflection list, embedded source and scripts of pipelines are not decoded.",
        "Dynamic libraries and older formats were read from files made by hand, not by Apple's linker.",
        "The triple of a function is put together from the list and the header; only the bitcode itself has one.",
    ),
)

LAYOUTS = (HEADER, COUNT, GROUP, TAG)


def write(container: Container, options: None = None) -> Iterator[Piece]:
    """Yield the pieces of one library; see :func:`fatpack.formats.metallib.writer.write`."""
    from fatpack.formats.metallib.writer import write

    return write(container, options)


def labels(view: View, container: Container) -> Iterator[Label]:
    """Yield a label for every byte of a parsed library."""
    body = view.slice(container.span.start - view.start, container.span.size)
    return _label_library(body, _header(container), container)


def _label_library(body: View, header: MetalHeader, container: Container) -> Iterator[Label]:
    """Yield a label for every byte of a library, once, in order."""
    return fill_gaps(body, _raw_labels(body, header, container))


def _raw_labels(body: View, header: MetalHeader, container: Container) -> Iterator[Label]:
    yield from HEADER.labels(body, 0, "header")
    named = dict(zip((field.name for field in HEADER.fields), header.values, strict=True))
    yield from COUNT.labels(body, named["list_offset"], "list")
    for number, image in enumerate(container.images):
        record = image.record
        if not isinstance(record, MetalFunction):
            continue
        words = f"{record.name}: {record.type or 'no type'}, {pluralize(image.size, 'byte')} of bitcode"
        doc = "the group of a function: its size, tags with their sizes, ENDT"
        yield Label(body.span(record.at, record.size), f"function[{number}]", words, doc)
        if image.size:
            doc = "bitcode of AIR, in a wrapper"
            yield Label(image.span, f"bitcode[{number}]", record.name, doc, "data")
    for name, at, size in header.tags:
        yield from TAG.labels(body, at - TAG.size, f"extension.{name}")
        if size:
            words = body.read(at, size).hex(" ")
            yield Label(body.span(at, size), f"extension.{name}", words, "the content of the tag")
    if header.extension_end > header.list_end:
        yield Label(body.span(header.extension_end - 4, 4), "extension.ENDT", "", "the end of the extension")
    for name in ("public", "private"):
        size = named[f"{name}_size"]
        if size:
            words, doc = pluralize(size, "byte"), "groups of tags, one for each function"
            yield Label(body.span(named[f"{name}_offset"], size), f"{name} metadata", words, doc, "data")


def describe(container: Container) -> StoredFacts:
    """Return facts beyond the common model: counts of functions by type and version, and the linked libraries."""
    header = _header(container)
    types: dict[str, int] = {}
    versions: dict[str, dict[str, int]] = {"air": {}, "metal": {}}
    for image in container.images:
        kind = image.attrs["type"] or "unknown"
        types[kind] = types.get(kind, 0) + 1
        for key, counts in versions.items():
            version = image.attrs.get(key, "unknown")
            counts[version] = counts.get(version, 0) + 1
    return {
        "types": types,
        "air": versions["air"],
        "metal": versions["metal"],
        "install_name": header.install_name,
        "linked": list(header.linked),
        "tags": [name for name, _, _ in header.tags],
    }


def _header(container: Container) -> MetalHeader:
    if isinstance(container.record, MetalHeader):
        return container.record
    raise not_parsed_error("container")
