"""kpack archive: the file in which ROCm's packages keep the device code of their libraries.

::

    0x00  magic "KPAK", version u32 = 1, toc_offset u64, zeros up to 0x40
    0x40  none:             the code objects, one after the other; the table has their places
          zstd-per-kernel:  count u32, then for each its size u32 and a zstd frame
    ....  one MessagePack map: format_version, group_name, gfx_arch_family, gfx_arches, toc, compression_scheme and
          blobs [{offset, size}] or zstd_offset and zstd_size; to the end of the archive
          toc: {"lib/libx.so#0": {"gfx1100": {type, ordinal, original_size}}}

Everything except MessagePack is little-endian. A library without its code has a marker (``HIPK``) in place of its
bundle (:mod:`fatpack.registration.kpack_marker`); the number after ``#`` in a key is that of the code object in the
marker. :mod:`fatpack.formats.kpack.manifest` reads the manifests of archives.

How we know: rocm_kpack of 2026 (``python/rocm_kpack/kpack.py``, ``compression.py``, ``runtime/src/toc_parser.cpp``,
``compression.cpp``); its two test archives are read and written to the same bytes.

QUIRK(rocm_kpack's design page): keys without ``#`` and a number. All its code writes them.
"""

from __future__ import annotations

from fatpack.formats.diagnostics import not_parsed_error
from fatpack.formats.kpack.layout import COUNT, FRAME, HEADER, KPACK_FORMAT, KpackEntry, KpackHeader
from fatpack.formats.kpack.reader import detect, extent, parse
from fatpack.layout import FormatInfo

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.formats.described import StoredFacts
    from fatpack.io.source import Piece, View
    from fatpack.model import Container, Label
    from fatpack.writer_options import KpackOptions

__all__ = ["DOC", "LAYOUTS", "describe", "detect", "extent", "labels", "parse", "write"]

DOC = FormatInfo(
    name=KPACK_FORMAT,
    title="kpack archive",
    description=(
        "The file in which ROCm's packages of one processor or family keep the code objects of many libraries, by the "
        "path of the library and the architecture. Written by rocm-kpack when it splits packages; read by the HIP "
        "runtime if a library has a marker in place of its bundle. The marker names the library and the places of "
        "archives, relative to the library: `inspect` of a library shows the archives that exist, and `check-kpack` "
        "proves that all programs of a folder find their code objects (docs/how-to/check-kpack.md). Manifests (`.kpm`) "
        "list archives with their sizes; they are shown, and compared with the archives."
    ),
    references=(
        "ROCm/rocm-kpack python/rocm_kpack/kpack.py and compression.py, revision e348328",
        "ROCm/rocm-kpack runtime/src/toc_parser.cpp, archive.cpp and compression.cpp, revision e348328",
        "ROCm/rocm-kpack python/rocm_kpack/elf/kpack_transform.py and runtime/src/loader.cpp, revision e348328, for "
        "the markers of programs; ROCm/rocm-systems#9874 for the change of the search; python/rocm_kpack/"
        "artifact_splitter.py before revision 46b857b for manifests",
        "the MessagePack specification, msgpack/msgpack spec.md",
    ),
    reads="version 1, with the schemes none and zstd-per-kernel",
    writes="version 1, with the schemes none and zstd-per-kernel",
    limitations=(
        "Rewriting gives the order of rocm_kpack: the table last, keys in its order, code objects without gaps. An "
        "archive of a writer with another order keeps its content, not its bytes.",
        "Bytes outside of the code objects and the table are reported, and dropped by a rewrite.",
        "Markers are followed in ELF files and PE images that have sections. The folders in which the runtime of "
        "Windows searches for archives are unknown: at that revision it cannot find a program's folder. Manifests are "
        "not written.",
        "The format has no digests, so damage inside an uncompressed code object shows only if the code "
        "object contradicts itself.",
    ),
)

LAYOUTS = (HEADER, COUNT, FRAME)


def write(container: Container, options: KpackOptions | None = None) -> Iterator[Piece]:
    """Yield the pieces of one archive; see :func:`fatpack.formats.kpack.writer.write`."""
    from fatpack.formats.kpack.writer import write

    return write(container, options)


def labels(view: View, container: Container) -> Iterator[Label]:
    """Yield a label for every byte of a parsed archive."""
    from fatpack.formats.kpack import reader

    body = view.slice(container.span.start - view.start, container.span.size)
    return reader.label_kpack(body, _header(container), container)


def describe(container: Container) -> StoredFacts:
    """Return facts beyond the common model: group, family, the listed architectures, the blob of each image."""
    header = _header(container)
    return {
        "group": container.attrs.get("group", ""),
        "family": container.attrs.get("family", ""),
        "archs": list(header.archs),
        "compression": container.attrs.get("compression"),
        "ordinals": [image.record.ordinal for image in container.images if isinstance(image.record, KpackEntry)],
    }


def _header(container: Container) -> KpackHeader:
    if isinstance(container.record, KpackHeader):
        return container.record
    raise not_parsed_error("container")
