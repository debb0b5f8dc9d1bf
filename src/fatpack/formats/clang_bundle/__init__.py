"""Clang offload bundle: the container in which HIP, OpenMP and SYCL keep host and device code together.

::

    binary      0x00  magic __CLANG_OFFLOAD_BUNDLE__, number of entries u64
                0x20  per entry: image offset u64, image size u64, size of its ID u64, the ID
                ....  the images, each at a multiple of -bundle-align
    compressed  0x00  CCOB, version u16, method u16, sizes, hash; then one zlib or zstd stream: a whole bundle
    text        "\n// __CLANG_OFFLOAD_BUNDLE____START__ <ID>\n", the text, "\n// …END__ <ID>\n", per entry

An ID names the target of an entry: ``hipv4-amdgcn-amd-amdhsa--gfx90a:xnack-``. A section or a file may hold several
bundles, with zeros between them. Fat objects, whose sections are named after IDs, become containers in ``fat_object``,
the sections of linked SYCL programs in ``sycl_linked``.

How we know: the writers are byte-compared with clang-offload-bundler 22, the rules for IDs on thousands of random ones
(this format's reference tests). Versions 1 and 2 of the compressed form and the spellings of older producers follow
LLVM's sources and real libraries of ROCm 5 to 7.
"""

from __future__ import annotations

from fatpack.formats.clang_bundle.fast_path import detect, extent, parse
from fatpack.formats.clang_bundle.layout import BUNDLE_FORMAT, COMPRESSED_HEADERS, DESCRIPTOR, HEADER
from fatpack.layout import FormatInfo

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.formats.clang_bundle.fat_object import FatObject, LinkedImages
    from fatpack.formats.described import EntryFacts, StoredFacts
    from fatpack.io.source import Piece, View
    from fatpack.model import Container, Label
    from fatpack.writer_options import BundleOptions


__all__ = ["DOC", "LAYOUTS", "describe", "detect", "extent", "labels", "parse", "write"]

DOC = FormatInfo(
    name=BUNDLE_FORMAT,
    title="Clang offload bundle",
    description=(
        "The container in which clang keeps code for a host and several devices side by side, each under an ID such as "
        "hipv4-amdgcn-amd-amdhsa--gfx90a. Written by clang-offload-bundler and by the HIP, OpenMP and DPC++ drivers; "
        "in HIP programs it lies in sections named .hip_fatbin, often compressed. Linked SYCL programs carry their "
        "images in sections named after bundle IDs, without any container."
    ),
    references=(
        "clang/lib/Driver/OffloadBundler.cpp, LLVM 22.1",
        "clang/tools/clang-offload-bundler/ClangOffloadBundler.cpp, LLVM 22.1",
        "clang/docs/ClangOffloadBundler.rst, LLVM 22.1",
        "llvm/lib/TargetParser/Triple.cpp and clang/lib/Basic/TargetID.cpp, LLVM 22.1",
        "clang/tools/clang-offload-wrapper/ClangOffloadWrapper.cpp and clang/tools/clang-offload-extract, intel/llvm",
        "RFC 8878 (zstd), RFC 1950 (zlib)",
    ),
    reads=(
        "binary and text bundles, compressed ones of versions 1, 2 and 3 with zlib or zstd, fat objects, and images of "
        "linked SYCL programs"
    ),
    writes="binary and text bundles, and compressed ones of versions 1, 2 and 3",
    limitations=(
        "A bundle in which images were added, removed or exchanged is laid out anew. Bytes between the images are "
        "lost, and images that shared bytes no longer do.",
        "Compressed bytes equal those of clang-offload-bundler only if both use the same version of zstd.",
        "Listing a compressed bundle over 64 kB inflates its table only; reading its images inflates the rest. "
        "`fatpack extract`, `convert`, `remove`, `inspect --verify` and `File.verify()` check its hash. A stream that "
        "does not state its size is inflated at once.",
        "Listing a linked SYCL program inflates only the beginning of its compressed images. Archives of device "
        "binaries among them are not opened.",
        "Property sets of images in linked SYCL programs are read of 64-bit programs alone.",
        "If a linked program has neither its table (.tgtimg) nor its records, where its images end is a guess.",
        "Writing two images under one ID is refused. LLVM accepts them, and then mixes them up.",
        "A text bundle reaches to the end of its file. Text that holds the END line of its own entry is cut there.",
        "In normalised IDs, rare architecture names of ARM are not distinguished as LLVM does it.",
    ),
)

LAYOUTS = (HEADER, DESCRIPTOR, *COMPRESSED_HEADERS.values())


def write(container: Container, options: BundleOptions | None = None) -> Iterator[Piece]:
    """Yield the pieces of a bundle; see :func:`fatpack.formats.clang_bundle.writer.write`."""
    from fatpack.formats.clang_bundle.writer import write

    return write(container, options)


def labels(view: View, container: Container) -> Iterator[Label]:
    """Yield a label for every byte of a parsed container; for a compressed one, header and stream only."""
    from fatpack.formats.clang_bundle.fat_object import FatObject, LinkedImages
    from fatpack.formats.clang_bundle.layout import BinaryBundle, CompressedBundle, TextBundle

    record = container.record
    if isinstance(record, FatObject):
        from fatpack.model import Label

        return iter([Label(record.stored.span(), "object", f"{len(view)} bytes", "a fat object", "data")])
    if isinstance(record, LinkedImages):
        from fatpack.formats.clang_bundle import sycl_linked

        return sycl_linked.label_linked_images(record)
    from fatpack.formats.clang_bundle import byte_labels

    if not isinstance(record, (BinaryBundle, TextBundle, CompressedBundle)):
        from fatpack.formats.diagnostics import not_parsed_error

        raise not_parsed_error("container")
    return byte_labels.label_bundle(record)


def describe(container: Container) -> StoredFacts:
    """Return facts beyond the common model: how the bundle was stored, and the positions of its entries."""
    from fatpack.formats.clang_bundle import layout
    from fatpack.formats.clang_bundle.fat_object import FatObject, FatObjectEntry, LinkedEntry, LinkedImages

    record = container.record
    entries = [image.record for image in container.images]
    if isinstance(record, FatObject):
        sections = [entry for entry in entries if isinstance(entry, FatObjectEntry)]
        numbers: list[EntryFacts] = [{"id": _text(entry.id), "section_index": entry.section} for entry in sections]
        return {"entries": numbers, **_symbols(record)}
    if isinstance(record, LinkedImages):
        found = [entry for entry in entries if isinstance(entry, LinkedEntry)]
        said = record.properties() if record.properties else {}
        rows: list[EntryFacts] = [
            {"offset": entry.offset, "table_size": entry.size, **said.get(entry.offset, {})} for entry in found
        ]
        return {"entries": rows, **_symbols(record)}
    if not isinstance(record, (layout.BinaryBundle, layout.TextBundle, layout.CompressedBundle)):
        from fatpack.formats.diagnostics import not_parsed_error

        raise not_parsed_error("container")
    plain: list[EntryFacts] = [
        {"id": _text(entry.id), "offset": entry.offset} for entry in entries if isinstance(entry, layout.BundleEntry)
    ]
    facts: StoredFacts = {"entries": plain}
    if isinstance(record, layout.CompressedBundle):
        facts |= {"size": record.size, "inflated_size": record.inflated_size, "hash": record.hash.hex()}
    inside = record.inside if isinstance(record, layout.CompressedBundle) else record
    if isinstance(inside, layout.BinaryBundle):
        facts |= {"entry_count": inside.entry_count, "table_size": inside.table_end}
    return facts


def _symbols(record: FatObject | LinkedImages) -> StoredFacts:
    """Return the symbols that device code defines, as the bundler recorded them; empty if it did not."""
    symbols = record.symbols.by_target()
    return {"symbols": symbols} if symbols else {}


def _text(stored: bytes) -> str:
    return stored.decode("utf-8", "backslashreplace")
