"""Model → bytes for bundles, byte-identical to clang-offload-bundler 22 for the same input.

Two things are deliberately not copied from it: if two targets become one ID, it puts images at wrong offsets; and it
drops a processor that it does not know. Compressed bytes are equal with the same zstd library; its output changed with
zstd 1.5.7.
"""

from __future__ import annotations

from fatpack import limits
from fatpack.errors import UsageError, cli_or_api
from fatpack.formats.clang_bundle.bundle_id import id_for
from fatpack.formats.clang_bundle.layout import (
    COMMENTS,
    COMPRESSED_HEADERS,
    COMPRESSED_MAGIC,
    DESCRIPTOR,
    HEADER,
    MAGIC,
    METHODS,
    TYPES,
)
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from fatpack.formats.clang_bundle.fat_object import FatObject, LinkedImages
    from fatpack.formats.clang_bundle.layout import BinaryBundle, CompressedBundle, TextBundle
    from fatpack.io.source import Piece
    from fatpack.model import Container, Image
    from fatpack.writer_options import BundleOptions

#: LLVM's levels for bundles (clang/lib/Driver/OffloadBundler.cpp); 0 means the same to zstd.
_ZSTD_LEVEL, _ZLIB_LEVEL = 3, 6


def write(container: Container, options: BundleOptions | None = None) -> Iterator[Piece]:
    """Yield the pieces of a bundle; images are copied without reading them unless they are compressed.

    ``options`` set the form of the bundle; without them the container's ``attrs`` do:
    ``flavour`` (``binary``, ``compressed``, ``text``), ``align`` (alignment of images' offsets, default 1), ``comment``
    of a text bundle (``//``, ``#``, ``;``), ``compression`` of a compressed one (``zstd``, ``zlib``), its ``level`` and
    ``inside`` (``binary``, ``text``). ``container.version`` of a compressed one is 1, 2 or 3, of others 0.

    A container that was parsed and not changed is written as it was stored; if only the version was changed, it keeps
    its compressed data. Raises UsageError for contents that the format cannot store, Unsupported for images that
    overlap so often that a small file would become a huge one.
    """
    record = None if container.record is None else _stored(container.record)
    if record and options is None and container.images == record.images and dict(container.attrs) == dict(record.attrs):
        from fatpack.formats.clang_bundle.layout import CompressedBundle

        if isinstance(record, CompressedBundle) and container.version != record.version:
            inflated_size = record.inside.stored.source.size
            yield compressed_header(container.version, record.method, len(record.stream), inflated_size, record.hash)
            yield record.stream
        else:
            yield record.stored
        return
    if record:
        from fatpack.io.write import refuse_shared_bytes

        refuse_shared_bytes(image.data for image in container.images)
    yield from _laid_out(container, _style_of(container) if options is None else _style_for(options))


def _stored(record: object) -> BinaryBundle | TextBundle | CompressedBundle | FatObject | LinkedImages | None:
    """Return the stored record of a bundle, None if the record is of another format."""
    from fatpack.formats.clang_bundle.fat_object import FatObject, LinkedImages
    from fatpack.formats.clang_bundle.layout import BinaryBundle, CompressedBundle, TextBundle

    return record if isinstance(record, (BinaryBundle, TextBundle, CompressedBundle, FatObject, LinkedImages)) else None


class _BundleStyle(Record):
    """The form of the output: text with ``comment`` tokens, or if that is None, images at multiples of ``align`` bytes.

    ``method`` and ``level`` are those of the compressor; ``method`` is None for an uncompressed bundle, ``level`` None
    for LLVM's level.
    """

    comment: str | None
    align: int = 1
    method: str | None = None
    level: int | None = None


def _style_for(options: BundleOptions) -> _BundleStyle:
    if options.type not in TYPES:
        raise UsageError(f"bundle type {options.type!r}", hint=f"choose from {' '.join(TYPES)}")
    return _BundleStyle(TYPES[options.type] or None, options.align, options.compression, options.level)


def _style_of(container: Container) -> _BundleStyle:
    """Return the form of a container by its attributes. Raises UsageError for a form that cannot be written."""
    attrs = container.attrs
    flavour = attrs.get("flavour", "compressed" if "compression" in attrs else "binary")
    if flavour == "object":
        fat_objects = cli_or_api("fatpack pack --format=bundle --type=o", 'BundleOptions(type="o")')
        raise UsageError(
            "a fat object is a host object with sections added, which no format writes",
            hint=f"{fat_objects} makes one of a host object and device images",
        )
    if flavour == "linked":
        raise UsageError(
            "linked images are part of a program, which no format writes",
            hint="extract them, and pack them as a bundle",
        )
    method = attrs.get("compression", "zstd") if flavour == "compressed" else None
    inside = attrs.get("inside", "binary") if method else flavour
    if inside not in ("binary", "text"):
        if method:
            raise UsageError(f"bundle flavour {inside!r} inside a compressed one", hint="choose from binary and text")
        raise UsageError(f"bundle flavour {inside!r}", hint="choose from binary, compressed and text")
    if inside == "text":
        return _BundleStyle(attrs.get("comment", ""), method=method, level=_level(attrs))
    align = attrs.get("align", "1")
    if not align.isdecimal():
        raise UsageError(f"align {align!r} is no whole number")
    return _BundleStyle(None, int(align), method, _level(attrs))


def _level(attrs: Mapping[str, str]) -> int | None:
    """Return the level in the attributes; no stored bundle has one."""
    level = attrs.get("level")
    if level is not None and not level.isdecimal():
        raise UsageError(f"level {level!r} is no whole number")
    return None if level is None else int(level)


def _laid_out(container: Container, style: _BundleStyle) -> Iterator[Piece]:
    if style.method is None:
        if container.version:
            raise UsageError(f"bundle version {container.version}", hint="only compressed bundles have versions")
        yield from _plain(container.images, style)
    else:
        yield from _compressed(container, style, style.method)


def _plain(images: Sequence[Image], style: _BundleStyle) -> Iterator[Piece]:
    return _binary(images, style.align) if style.comment is None else _text(images, style.comment)


def entry_id(image: Image) -> bytes:
    """Return the ID to store for an image: the given or stored one, else the one LLVM 22 would use for its target.

    Raises UsageError for a target that a bundle cannot name.
    """
    spelling = image.attrs.get("id")
    if spelling is None and image.record is not None:
        from fatpack.formats.clang_bundle.fat_object import FatObjectEntry, LinkedEntry
        from fatpack.formats.clang_bundle.layout import BundleEntry

        if isinstance(image.record, (BundleEntry, FatObjectEntry, LinkedEntry)):
            return image.record.id
    spelling = spelling if spelling is not None else image.target.spelling or id_for(image.target)
    try:
        return spelling.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise UsageError(f"bundle ID {spelling!r} cannot be stored as UTF-8") from error


def _entry_ids(images: Sequence[Image]) -> list[bytes]:
    """Return the IDs of all entries. Two with one ID are refused unless they were read from a file that has them."""
    from fatpack.formats.clang_bundle.layout import BundleEntry

    if len(images) > limits.BUNDLE_ENTRIES:
        raise UsageError(
            f"{len(images)} images in one bundle", hint=f"{limits.BUNDLE_ENTRIES} are the most that we read back"
        )
    ids = [entry_id(image) for image in images]
    known: dict[bytes, Image] = {}
    for image, stored in zip(images, ids, strict=True):
        spelling = stored.decode("utf-8", "backslashreplace")
        if len(stored) > limits.BUNDLE_ID:
            raise UsageError(
                f"bundle ID {spelling[:80]}… has {len(stored)} bytes", hint=f"{limits.BUNDLE_ID} are the most"
            )
        other = known.setdefault(stored, image)
        if other is not image and not (isinstance(other.record, BundleEntry) and isinstance(image.record, BundleEntry)):
            raise UsageError(f"two images have the bundle ID {spelling!r}", hint="readers would find only one of them")
    return ids


def _binary(images: Sequence[Image], align: int) -> Iterator[Piece]:
    ids = _entry_ids(images)
    if not 0 < align < 1 << 32:
        raise UsageError(f"bundle alignment {align}", hint="it must be at least 1 and fit into 32 bits")
    at = HEADER.size + sum(DESCRIPTOR.size + len(stored) for stored in ids)
    header = bytearray(HEADER.pack(MAGIC, len(images)))
    offsets = []
    for image, stored in zip(images, ids, strict=True):
        at = -(-at // align) * align
        offsets.append(at)
        header += DESCRIPTOR.pack(at, len(image.data), len(stored)) + stored
        at += len(image.data)
    yield bytes(header)
    at = len(header)
    for image, offset in zip(images, offsets, strict=True):
        yield from _zeros(offset - at)
        yield image.data
        at = offset + len(image.data)


def _zeros(count: int) -> Iterator[bytes]:
    # One block that is repeated: the pieces are kept in a list, and an alignment can be 4 GiB.
    block = bytes(min(max(count, 0), limits.CHUNK))
    while count > 0:
        yield block[:count]
        count -= limits.CHUNK


def _text(images: Sequence[Image], comment: str) -> Iterator[Piece]:
    from fatpack.formats.clang_bundle.text_reader import END, START

    if comment not in COMMENTS:
        raise UsageError(f"comment token {comment!r} of a text bundle", hint=f"choose from {' '.join(COMMENTS)}")
    for image, stored in zip(images, _entry_ids(images), strict=True):
        if b"\n" in stored or stored.endswith(b"\r"):
            raise UsageError(f"bundle ID {image.attrs.get('id')!r} has a line end, which a text bundle cannot store")
        prefix = b"\n%s %s" % (comment.encode(), MAGIC)
        yield prefix + START + stored + b"\n"
        yield image.data
        yield prefix + END + stored + b"\n"


def _compressed(container: Container, style: _BundleStyle, method: str) -> Iterator[Piece]:
    version = container.version
    if method not in METHODS.values():
        raise UsageError(f"compression {method!r}", hint=f"choose from {', '.join(METHODS.values())}")
    if version not in COMPRESSED_HEADERS:
        raise UsageError(f"compressed bundle version {version}", hint="choose from 1, 2 and 3")
    pieces = list(_plain(container.images, style))
    from fatpack.codecs.compress import compress
    from fatpack.formats.clang_bundle.compressed import HASH_SIZE, new_digest

    size = sum(map(len, pieces))
    digest = new_digest(size)

    def parts() -> Iterator[bytes | bytearray | memoryview]:
        for piece in pieces:
            for part in [piece] if isinstance(piece, (bytes, bytearray, memoryview)) else piece.pieces():
                digest.update(part)
                yield part

    level = (_ZSTD_LEVEL if method == "zstd" else _ZLIB_LEVEL) if style.level is None else style.level
    if method == "zstd":
        level = min(level, 22) or _ZSTD_LEVEL
    stream = compress(parts(), method, size, level, long_distance=True)
    yield compressed_header(version, method, len(stream), size, digest.digest()[:HASH_SIZE])
    yield stream


def compressed_header(version: int, method: str, stream_size: int, inflated_size: int, content_hash: bytes) -> bytes:
    """Return the header in front of a compressed stream. Raises UsageError for sizes that the version cannot store."""
    if version not in COMPRESSED_HEADERS:
        raise UsageError(f"compressed bundle version {version}", hint="choose from 1, 2 and 3")
    layout = COMPRESSED_HEADERS[version]
    number = next(number for number, name in METHODS.items() if name == method)
    size = layout.size + stream_size
    if version < 3 and max(size, inflated_size) >= 1 << 32:
        what = "uncompressed size" if inflated_size >= 1 << 32 else "total size"
        raise UsageError(f"the {what} exceeds what version {version} can say", hint="use container version 3")
    sizes = [inflated_size] if version == 1 else [size, inflated_size]
    return layout.pack(COMPRESSED_MAGIC, version, number, *sizes, content_hash)
