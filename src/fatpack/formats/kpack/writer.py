"""Writer of kpack archives, in the layout of rocm_kpack's ``kpack.py`` and ``compression.py``.

Header, zeros up to 64, the code objects one after the other (``none``), or their count and each frame after its size
(``zstd-per-kernel``), then the table of contents.
"""

from __future__ import annotations

from fatpack.codecs import messagepack
from fatpack.errors import Unsupported, UsageError
from fatpack.formats.kpack.layout import (
    COUNT,
    DATA_OFFSET,
    FRAME,
    HEADER,
    MAGIC,
    SCHEMES,
    TYPE,
    VERSION,
    KpackEntry,
    KpackHeader,
)
from fatpack.formats.kpack.toc import encode_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fatpack.io.source import Piece
    from fatpack.model import Container, Image
    from fatpack.writer_options import KpackOptions

#: The compression level of rocm_kpack.
LEVEL = 3


def write(container: Container, options: KpackOptions | None = None) -> Iterator[Piece]:
    """Yield the pieces of an archive. Images of another archive with the right compression are copied as stored.

    ``options`` set the compression, by default ``attrs["compression"]``. The binary of an image is its
    ``attrs["binary"]``. Raises UsageError for two images of one binary and architecture, or one without a binary;
    Unsupported for images of an archive that share their bytes.
    """
    stored = container.record if isinstance(container.record, KpackHeader) else None
    method = options.compression if options else container.attrs.get("compression")
    schemes = {name: scheme for scheme, name in SCHEMES.items()}
    if method not in schemes:
        raise UsageError(f"compression {method!r} in a kpack archive", hint="choose zstd, or none")
    _check(container, stored)
    blobs, ordinals = _blobs(container.images, method, options.level if options else None)
    start = DATA_OFFSET + (COUNT.size if method else 0)
    places, at = [], start
    for blob in blobs:
        at += FRAME.size if method else 0
        places.append((at, len(blob)))
        at += len(blob)
    yield HEADER.pack(MAGIC, VERSION, at)
    yield bytes(DATA_OFFSET - HEADER.size)
    if method:
        yield COUNT.pack(len(blobs))
    for blob in blobs:
        if method:
            yield FRAME.pack(len(blob))
        yield blob
    tail: list[tuple[bytes, bytes]] = [(b"compression_scheme", messagepack.pack_string(schemes[method]))]
    if method:
        tail += _numbers({b"zstd_offset": DATA_OFFSET, b"zstd_size": at - DATA_OFFSET})
    else:
        rows = [messagepack.pack_map(_numbers({b"offset": place, b"size": size})) for place, size in places]
        tail.append((b"blobs", messagepack.pack_array(rows)))
    yield _table(container, stored, ordinals, tail)


def _check(container: Container, stored: KpackHeader | None) -> None:
    if stored is not None and container.images:
        read = [image.record for image in container.images if isinstance(image.record, KpackEntry)]
        entries = {entry.ordinal: entry for entry in read if entry.ordinal >= 0}
        if sum(len(entry.stored) for entry in entries.values()) > stored.size:
            raise Unsupported(
                "code objects of this archive share their bytes; one by one they would take more than all of it",
                hint="extract the one you need and pack it again",
                chain=container.span.source,
            )
    seen = set()
    for image in container.images:
        binary, arch = image.attrs.get("binary"), image.target.arch
        if binary is None:
            raise UsageError(
                "an image of a kpack archive belongs to a binary", hint='give attrs["binary"]: lib/libx.so#0'
            )
        if (binary, arch) in seen:
            raise UsageError(f"two images for {arch} of {binary}, of which an archive can hold one")
        seen.add((binary, arch))


def _blobs(images: Sequence[Image], method: str | None, level: int | None) -> tuple[list[Piece], list[int]]:
    """Return the stored code objects, and the number of each image's: images that shared one in their archive still
    do."""
    blobs: list[Piece] = []
    ordinals: list[int] = []
    shared: dict[tuple[int, int, int], int] = {}
    for image in images:
        key = None
        entry = image.record
        if isinstance(entry, KpackEntry) and entry.ordinal >= 0 and level is None and image.compression == method:
            # A blob is shared in the file that it was read from; sources have no name of their own.
            key = id(entry.stored.source), entry.stored.start, entry.ordinal
            if key in shared:
                ordinals.append(shared[key])
                continue
            shared[key] = len(blobs)
        ordinals.append(len(blobs))
        blobs.append(_blob(image, method, level, is_stored=key is not None))
    return blobs, ordinals


def _blob(image: Image, method: str | None, level: int | None, *, is_stored: bool) -> Piece:
    if is_stored and isinstance(image.record, KpackEntry):
        return image.record.stored
    if method is None:
        return image.data
    from fatpack.codecs.compress import compress

    return compress(iter(image.data.pieces()), method, len(image.data), LEVEL if level is None else level)


def _table(
    container: Container, stored: KpackHeader | None, ordinals: Sequence[int], tail: Sequence[tuple[bytes, bytes]]
) -> bytes:
    binaries: dict[str, list[tuple[bytes, bytes]]] = {}
    for image, ordinal in zip(container.images, ordinals, strict=True):
        pairs = [(b"type", messagepack.pack_string(encode_text(image.attrs.get("type", TYPE))))]
        pairs += _numbers({b"ordinal": ordinal, b"original_size": image.size})
        if isinstance(image.record, KpackEntry):
            pairs += image.record.further
        entry = encode_text(image.target.arch), messagepack.pack_map(pairs)
        binaries.setdefault(image.attrs["binary"], []).append(entry)
    archs = _archs(container, stored)
    return messagepack.pack_map(
        [
            *_numbers({b"format_version": VERSION}),
            (b"group_name", messagepack.pack_string(encode_text(container.attrs.get("group", "")))),
            (b"gfx_arch_family", messagepack.pack_string(encode_text(container.attrs.get("family", "")))),
            (b"gfx_arches", messagepack.pack_array([messagepack.pack_string(encode_text(arch)) for arch in archs])),
            (
                b"toc",
                messagepack.pack_map(
                    [(encode_text(name), messagepack.pack_map(rows)) for name, rows in binaries.items()]
                ),
            ),
            *tail,
            *(stored.further if stored else ()),
        ]
    )


def _archs(container: Container, stored: KpackHeader | None) -> list[str]:
    """Return the architectures to list. Architectures listed without an image stay; those whose images were removed
    go."""
    now = dict.fromkeys(image.target.arch for image in container.images)
    if stored is None:
        return list(now)
    kept = [arch for arch in stored.archs if arch in now or arch not in stored.served]
    return kept + [arch for arch in now if arch not in stored.served and arch not in kept]


def _numbers(values: dict[bytes, int]) -> list[tuple[bytes, bytes]]:
    return [(key, messagepack.pack_integer(value)) for key, value in values.items()]
