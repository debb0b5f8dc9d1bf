"""AKS2: the archive in which AOTriton keeps the code objects of a kernel for one target.

::

    0x00  magic "AKS2", total_size u32, entry_count u32, directory_size u32
    0x10  one XZ stream, to the end of the archive:
            entries, one behind the other: shared memory, threads, offset, image_size, name_size (u32 each), name, NUL
            images, one behind the other; their offsets count from the end of the directory

All numbers are little-endian. The name of an entry is the key by which the library finds it, not that of a kernel; the
target is in the images only. An entry of size 0 has no code: the kernel was not compiled for this target.

How we know: ROCm/aotriton ``v3src/packed_kernel_common.cc`` and ``v3src/lszip.cc``, and its writer in Python. No file
of AMD's was at hand.

QUIRK(AOTriton's reader): it stops when total_size bytes came out, and takes a stream that ends before: what is missing
of the images is zeros. It parses entry_count entries before it compares their size with directory_size.
"""

from __future__ import annotations

from fatpack.errors import UsageError
from fatpack.formats.aks2.layout import AKS2_FORMAT, ENTRY, HEADER, MAGIC, Aks2Archive, Aks2Entry
from fatpack.formats.aks2.reader import detect, extent, parse
from fatpack.formats.diagnostics import not_parsed_error
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
    name=AKS2_FORMAT,
    title="AKS2 archive",
    description=(
        "The archive in which AOTriton, the attention kernels of PyTorch for ROCm, keeps the code objects of one "
        "kernel for one target: `aotriton.images/amd-gfx942/flash/attn_fwd/….aks2`. A header and one XZ stream, which "
        "has a directory and the images. Newer libraries read the archives as stored members of a zip archive, which "
        "is listed as any other. Names of folders and files state a target or a family (`amd-gfx11xx`), which is "
        "compared with the images."
    ),
    references=(
        "ROCm/aotriton v3src/packed_kernel_common.cc and v3src/lszip.cc",
        "ROCm/aotriton's writer of AKS2 in Python (two versions, the same layout)",
        "the .xz file format 1.2.1, tukaani.org",
    ),
    reads="archives as all known versions of AOTriton write them",
    writes="the same; an archive whose images did not change keeps its stream",
    limitations=(
        "Header and stream have no digest of each image: damage that XZ does not notice shows only if a code object "
        "contradicts itself.",
        "An archive is inflated once when it is listed, and again if its images take more than 32 MiB.",
        "No file of AMD's was at hand: the layout follows the sources of AOTriton, and archives of its writer (2026) "
        "are read, verified and extracted.",
    ),
)

LAYOUTS = (HEADER, ENTRY)


#: most bytes of directory and images: sizes have 32 bits
_MOST = (1 << 32) - 1


def write(container: Container, options: None = None) -> Iterator[Piece]:
    """Yield the pieces of an archive, in the layout of AOTriton's writer. The key of an image is its ``attrs["key"]``.

    An archive whose images are those that were read keeps its bytes. Otherwise entries without code stay, entries of
    images that went are left out, and header, directory and stream are made anew. Raises UsageError for an image
    without a key, and for more than 4 GiB.
    """
    archive = container.record
    if isinstance(archive, Aks2Archive) and _is_unchanged(container, archive):
        yield archive.stored
        return
    rows, at = [], 0
    images: list[View] = []
    for name, shared_memory, threads, data in _rows(container):
        size = len(data) if data is not None else 0
        if data is not None:
            images.append(data)
        rows.append(ENTRY.pack(shared_memory, threads, at, size, len(name) + 1) + name + b"\0")
        at += size
    directory = b"".join(rows)
    if len(directory) + at > _MOST:
        raise UsageError("an AKS2 archive has at most 4 GiB", hint="write several archives")
    yield HEADER.pack(MAGIC, len(directory) + at, len(rows), len(directory))
    import lzma

    stream = lzma.LZMACompressor(lzma.FORMAT_XZ)
    yield stream.compress(directory)
    for image in images:
        for piece in image.pieces():
            yield stream.compress(piece)
    yield stream.flush()


def _is_unchanged(container: Container, archive: Aks2Archive) -> bool:
    """Return whether the images are those of the archive, in its order, and none has another place in it."""
    entries = [entry for entry in archive.entries if entry.size]
    same = all(
        image.record is entry and image.attrs.get("key") == _text(entry.name) and image.size == entry.size
        for image, entry in zip(container.images, entries, strict=False)
    )
    return same and len(entries) == len(container.images) and not container.findings


def _rows(container: Container) -> Iterator[tuple[bytes, int, int, View | None]]:
    """Yield name, shared memory, threads and image of each entry: entries without code where they were."""
    waiting = list(container.record.entries) if isinstance(container.record, Aks2Archive) else []
    for image in container.images:
        entry = image.record
        while isinstance(entry, Aks2Entry) and waiting:
            first = waiting.pop(0)
            if first is entry:
                break
            if not first.size:
                yield first.name, first.shared_memory, first.threads, None
        key = image.attrs.get("key")
        if key is None:
            raise UsageError("an image of an AKS2 archive has a key", hint='give attrs["key"]')
        if not image.size:
            raise UsageError(f"the image {key!r} is empty: an entry without code is no image")
        numbers = (image.attrs.get(name, "0") for name in ("shared_memory", "threads"))
        shared_memory, threads = (int(number) for number in numbers)
        yield key.encode("utf-8", "surrogateescape"), shared_memory, threads, image.data
    for first in waiting:
        if not first.size:
            yield first.name, first.shared_memory, first.threads, None


def _text(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")


def labels(view: View, container: Container) -> Iterator[Label]:
    """Yield a label for every byte of a parsed archive: its header, and the stream as a whole."""
    _parsed(container)
    body = view.slice(container.span.start - view.start, container.span.size)
    stream = Label(
        body.span(HEADER.size, len(body) - HEADER.size), "stream", f"{len(body) - HEADER.size} bytes", _STREAM, "data"
    )
    return fill_gaps(body, (*HEADER.labels(body, 0, "header"), stream))


_STREAM = "one XZ stream with the directory and the images"


def describe(container: Container) -> StoredFacts:
    """Return facts beyond the common model: how many entries there are, and how many of them have no code."""
    record = _parsed(container)
    return {
        "entry_count": len(record.entries),
        "without_code": sum(not entry.size for entry in record.entries),
        "total_size": record.total_size,
        "directory_size": record.directory_size,
    }


def _parsed(container: Container) -> Aks2Archive:
    if isinstance(container.record, Aks2Archive):
        return container.record
    raise not_parsed_error("container")
