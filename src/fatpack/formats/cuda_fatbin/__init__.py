"""CUDA fat binary: the container in which NVIDIA's compilers keep cubins, PTX and LTO-IR for several GPUs.

::

    0x00  magic 50 ED 55 BA, version u16, header size u16 (16), bytes of all entries u64
    0x10  entries, each a multiple of 8 bytes:
          0x00  kind u16 … flags u64 … inflated size u64: 64 bytes
          0x40  identifier and options, if there are any
          ....  the image, uncompressed or compressed on its own: zlib, LZ4 or zstd; zeros to a multiple of 8

An entry of kind 0x100 is a group: entries without images, then all their images compressed as one. Several fat binaries
follow each other in a section, with zeros between them in Windows programs.

How we know: fatbinary 11.2 to 13.5 and the library nvFatbin 12.4 to 13.5 with one option varied at a time, and every
decoded image compared with cuobjdump's. NVIDIA does not document the format. The writer is byte-compared with fatbinary
13.0 in this format's reference tests. Kinds 4, 0x10 and 0x20 are only known from other people's tables.

QUIRK(NVIDIA): the variants ``a`` and ``f`` are those given to the producer; the cubin may have others.
QUIRK(LTO-IR since CUDA 12.4): compressed, then obfuscated with a key. It is listed, copied as stored, and never
decoded.
"""

from __future__ import annotations

from fatpack.formats.cuda_fatbin.layout import (
    DESCRIPTOR,
    ENTRY,
    FATBIN_FORMAT,
    GROUP_TABLE,
    HEADER,
    MEMBER,
    CudaEntry,
    CudaGroup,
    Fatbin,
    kind_words,
)
from fatpack.formats.cuda_fatbin.reader import detect, extent, parse
from fatpack.layout import FormatInfo

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.formats.described import EntryFacts, StoredFacts
    from fatpack.io.source import Piece, View
    from fatpack.model import Container, Label
    from fatpack.writer_options import FatbinOptions


__all__ = [
    "DOC",
    "LAYOUTS",
    "CudaEntry",
    "CudaGroup",
    "Fatbin",
    "describe",
    "detect",
    "extent",
    "kind_words",
    "labels",
    "parse",
    "write",
]

DOC = FormatInfo(
    name=FATBIN_FORMAT,
    title="CUDA fat binary",
    description=(
        "The container, fatbin for short, in which NVIDIA's compilers keep device code for several GPUs: cubins, PTX, "
        "LTO-IR and Tile IR. nvcc and clang call fatbinary to write it; the library nvFatbin writes it too. In "
        "programs it lies in sections named .nv_fatbin and __nv_relfatbin, and wherever else the records in "
        ".nvFatBinSegment point."
    ),
    references=(
        "fatbinary --help and cuobjdump --help, CUDA 13.0",
        "include/fatbinary_section.h and include/nvFatbin.h, CUDA 13.0",
        "RFC 8878 (zstd), RFC 1950 (zlib), lz4_Block_format.md and lz4_Frame_format.md of LZ4 1.10",
    ),
    reads="files of CUDA 8 to 13.5: every kind of entry and of compression, and groups of entries",
    writes="the same files as fatbinary 12.8, 13.0 and 13.5, groups (-concat) included",
    limitations=(
        "Obfuscated LTO-IR is listed and copied, but not decoded: extracting it is refused. fatpack packs LTO-IR "
        "uncompressed, or as a plain zstd stream; NVIDIA's linker reads both.",
        "Compressed bytes equal those of fatbinary only if both use the same version of the compressor: zstd 1.5.7 for "
        "CUDA 13; LZ4 1.9 for CUDA 12.8 and older and for the mode speed of 13.5; LZ4 1.10 for speed of 13.0.",
        "An uncompressed image that is LTO-IR, Tile IR or of an unknown kind has no exact size, and a cubin "
        "in a group has none either: up to 7 zero bytes of padding count as part of it.",
        "fatbinary adds a NUL to a text, also to one that has its own. If such a text is compressed, fatpack removes "
        "the last NUL and cuobjdump all of them.",
        "A fat binary in which images were added, removed or replaced loses the bytes that belonged to no entry. "
        "Members of a group that is no longer whole become entries of their own, each compressed.",
        "The format has no checksum: a changed byte of code goes unnoticed.",
        "Files written here were loaded by one CUDA driver: 68 tests passed on an H100 with driver 580.159.04 (CUDA "
        "13.0). Groups of entries were not loaded, because they need a newer driver. Everything is compared with "
        "fatbinary, read by cuobjdump and linked by nvlink.",
    ),
)

LAYOUTS = (HEADER, ENTRY, DESCRIPTOR, GROUP_TABLE, MEMBER)


def write(container: Container, options: FatbinOptions | None = None) -> Iterator[Piece]:
    """Return the pieces of a fat binary; see :mod:`fatpack.formats.cuda_fatbin.writer`."""
    from fatpack.formats.cuda_fatbin import writer

    return writer.write(container, options)


def labels(view: View, container: Container) -> Iterator[Label]:
    """Yield a label for every byte of a parsed container; compressed images are one label each.

    Raises UsageError for a container that was not read from bytes.
    """
    from fatpack.formats.cuda_fatbin import byte_labels

    return byte_labels.label_fatbin(_read(container))


def describe(container: Container) -> StoredFacts:
    """Return facts beyond the common model: the stored numbers of every entry, and the groups.

    Raises UsageError for a container that was not read from bytes.
    """
    _read(container)
    groups: dict[int, int] = {}
    entries: list[EntryFacts] = []
    for image in container.images:
        entry = image.record
        if not isinstance(entry, CudaEntry):
            continue
        head = entry.head
        facts: EntryFacts = {"kind": head.kind, "flags": head.flags}
        facts["code_version"] = f"{head.code_major}.{head.code_minor}"
        if entry.area.compat:
            facts["compat"] = entry.area.compat.hex()
        if entry.group is not None:
            # Two groups with equal headers are two groups.
            facts["group"] = groups.setdefault(id(entry.group), len(groups))
        entries.append(facts)
    return {"entries": entries}


def _read(container: Container) -> Fatbin:
    """Return the stored record of a container. Raises UsageError for one that was not read from bytes."""
    if isinstance(container.record, Fatbin):
        return container.record
    from fatpack.formats.diagnostics import not_parsed_error

    raise not_parsed_error("container")
