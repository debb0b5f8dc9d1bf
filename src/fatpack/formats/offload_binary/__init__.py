"""LLVM offload binary: the container in which clang, clang-linker-wrapper and llvm-offload-binary keep device images.

::

    0x00  magic 10 FF 10 AD, version u32, size u64, entry_offset u64, entry size (v1) or count (v2, v3) u64
    0x20  v3: inflated_size u64 (0 = not compressed)
    ....  entries, 40 bytes each: image kind, offload kind, flags, string entries, image
          string entries: (key offset, value offset[, value size in v2 and v3])
          string table: NUL, then keys and values, each with its NUL, tails shared
          zeros to a multiple of 8, the images back to back, zeros to a multiple of 8

Version 1 holds one image, so several binaries follow each other; 2 and 3 hold any number.

How we know: version 1 is byte-compared with llvm-offload-binary 22 and yaml2obj 22 in the reference tests, version 2
with llvm-offload-binary 23.1, which refuses version 3. Version 3 follows LLVM main's ``OffloadBinary.h`` and
``OffloadBinary.cpp`` of 2026 (llvm#169425, llvm#222774). The order of keys in an entry and the image kind of ``.spv``
files differ between LLVM 22 and 23: they depend on the version that is written.

QUIRK(LLVM docs): ``ClangOffloadPackager.rst`` still lists HIP = 3 and SYCL = 4; the code says 4 and 8 since LLVM 21.
"""

from __future__ import annotations

from fatpack.formats.offload_binary import fast_path
from fatpack.formats.offload_binary.layout import (
    IMAGE_KINDS,
    MAGIC,
    OFFLOAD_BINARY_FORMAT,
    OFFLOAD_KINDS,
    VERSIONS,
    OffloadBinaryEntry,
    OffloadBinaryHeader,
    layouts_for_order,
    stored_header,
)
from fatpack.layout import FormatInfo
from fatpack.model import Label

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.formats.described import StoredFacts
    from fatpack.io.source import Piece, View
    from fatpack.model import Container, Finding
    from fatpack.writer_options import OffloadBinaryOptions

__all__ = [
    "DOC",
    "IMAGE_KINDS",
    "LAYOUTS",
    "OFFLOAD_KINDS",
    "OffloadBinaryEntry",
    "OffloadBinaryHeader",
    "describe",
    "detect",
    "extent",
    "labels",
    "parse",
    "write",
]

DOC = FormatInfo(
    name=OFFLOAD_BINARY_FORMAT,
    title="LLVM offload binary",
    description=(
        "The container in which LLVM keeps device images, each with a small map of strings. Written by "
        "llvm-offload-binary (clang-offload-packager before LLVM 22), the clang driver and clang-linker-wrapper; it "
        "lies in sections named .llvm.offloading."
    ),
    references=(
        "llvm/include/llvm/Object/OffloadBinary.h, LLVM 22.1 and main of 2026",
        "llvm/lib/Object/OffloadBinary.cpp, LLVM 22.1 and main of 2026",
        "llvm/docs/CommandGuide/llvm-offload-binary.md, LLVM 22.1",
        "pull requests llvm#135809 (kinds as bits), llvm#169425 (v2), llvm#222774 (v3)",
    ),
    reads=f"versions {', '.join(map(str, VERSIONS))}, both byte orders, compressed with zlib or zstd",
    writes="versions 1, 2 and 3; v3 also compressed with zlib or zstd",
    limitations=(
        "Rewriting gives the canonical order of parts: a binary whose parts lie elsewhere, share strings differently "
        "or leave gaps is equal in content afterwards, not in bytes.",
        "Unknown bytes after the header and at the end survive a rewrite; others are reported and dropped.",
        "Version 1 is what LLVM 22 writes and version 2 what LLVM 23.1 does, each with its order of keys; a file named "
        ".spv has image kind 0 in version 1 and 6 (SPIR-V) in those after it. Version 3, compressed or not, follows "
        "LLVM's source of 2026; llvm-offload-binary 23.1 refuses it.",
        "A compressed binary is inflated to list it, so inspecting it costs its inflated size in memory.",
    ),
)

_TABLES = layouts_for_order()
LAYOUTS = (*_TABLES.header.values(), _TABLES.entry, _TABLES.strings[1], _TABLES.strings[2])


def detect(view: View, at: int = 0) -> bool:
    """Return whether an offload binary seems to start at ``at``: there are its magic and bytes for a version."""
    head = view.head(at, 8)
    return head[:4] == MAGIC and len(head) == 8


def extent(view: View, at: int = 0) -> int | None:
    """Return how many bytes the binary at ``at`` takes by its header, or None if that cannot be right."""
    from fatpack.formats.offload_binary.reader import extent

    return extent(view, at)


def parse(view: View, at: int = 0) -> Container:
    """Return the binary that starts at ``at``. Images are spans of the view; only compressed ones are copied.

    Raises BadMagic, Unsupported (a version above 3), Truncated, BadValue, LimitExceeded; offsets are absolute.
    """
    container = fast_path.read_fast(view, at)
    if container is None:
        from fatpack.formats.offload_binary.reader import parse

        return parse(view, at)
    return container


def write(container: Container, options: OffloadBinaryOptions | None = None) -> Iterator[Piece]:
    """Yield the pieces of one binary; see :func:`fatpack.formats.offload_binary.writer.write`."""
    from fatpack.formats.offload_binary.writer import write

    return write(container, options)


def labels(view: View, container: Container) -> Iterator[Label]:
    """Yield a label for every byte of a parsed container; for a compressed one, header and stream only."""
    header = stored_header(container)
    tables = layouts_for_order(header.order)
    if not header.inflated_size:
        from fatpack.formats.offload_binary import byte_labels

        yield from byte_labels.label_offload_binary(header, tables, container.images)
        return
    stored = view.slice(container.span.start - view.start, container.span.size)
    yield from tables.header[3].labels(stored, 0, "header")
    size = tables.header[3].size
    rest = stored.slice(size, len(stored) - size)
    yield Label(
        rest.span(), "compressed", f"{len(rest)} bytes of {header.compression}", "entries, strings and images", "data"
    )


def describe(container: Container) -> StoredFacts:
    """Return facts beyond the common model: byte order, compression, the stored numbers of every entry."""
    header = stored_header(container)
    return {
        "order": header.order,
        "compression": header.compression,
        "inflated_size": header.inflated_size or None,
        "entries": [
            {"image_kind": entry.image_kind, "offload_kind": entry.offload_kind, "flags": entry.flags}
            for entry in (image.record for image in container.images)
            if isinstance(entry, OffloadBinaryEntry)
        ],
    }


# The check that needs the whole content of a compressed binary: whether all of it inflates.


def is_hashed(container: Container) -> bool:
    """Return whether a hash of its content is stored: false for all."""
    return False


def is_unchecked(container: Container) -> bool:
    """Return whether a container is a compressed binary whose content was too large to be inflated when it was read."""
    return isinstance(container.record, OffloadBinaryHeader) and container.record.body.source.is_streamed


def verify(container: Container) -> list[Finding]:
    """Inflate all of an unchecked container, in bounded memory; there are no findings. Raises FormatError for damage.

    Only the file is shared with other readers of the container: it may run in a thread of its own.
    """
    from fatpack.io.inflated import StreamedSource

    source = container.record.body.source if isinstance(container.record, OffloadBinaryHeader) else None
    if isinstance(source, StreamedSource):
        for _ in source.separate().pieces(0, source.size):
            pass
    return []
