"""Model → bytes for bundles, byte-identical to clang-offload-bundler 22 for the same input.

Two things are deliberately not copied from it: where two targets come out as one ID it puts images at wrong offsets
(trap T4 of the notes on bundles), and a processor that it does not know it drops (T3). Compressed bytes are equal where
the zstd library is the same; its output changed with zstd 1.5.7.
"""

from __future__ import annotations

from fatpack.errors import UsageError
from fatpack.formats.clang_bundle.ids.bundle_id import id_for
from fatpack.formats.clang_bundle.layout import (
    COMMENTS,
    COMPRESSED_MAGIC,
    DESCRIPTOR,
    HEADER,
    MAGIC,
    METHODS,
    WRAPPERS,
)
from fatpack.io import limits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fatpack.io.source import Piece
    from fatpack.model import Container, Image

#: LLVM's levels for bundles (clang/lib/Driver/OffloadBundler.cpp); 0 means the same to zstd.
_ZSTD_LEVEL, _ZLIB_LEVEL = 3, 6


def write(container: Container) -> Iterator[Piece]:
    """Yield the pieces of a bundle; images are passed on as they are, without reading them unless they are compressed.

    ``attrs`` decide what is written: ``flavour`` (``binary``, ``compressed``, ``text``), ``align`` (what every image's
    offset is a multiple of, default 1), ``comment`` of a text bundle (``//``, ``#``, ``;``). A compressed one takes
    ``compression`` (``zstd``, ``zlib``), ``compression_level`` and ``inside`` (``binary``, ``text``), and
    ``container.version`` 1, 2 or 3, which is 0 for the others.

    A container that was parsed and not changed comes out as it was stored; one of which only the version was changed
    keeps its compressed data. Raises UsageError for what the format cannot hold, Unsupported for images that lie on top
    of each other so often that a small file would become a huge one.
    """
    from fatpack.formats.clang_bundle.stored import Bundle, FatObject, Linked, Text, Wrapper

    kinds = (Bundle, Text, Wrapper, FatObject, Linked)
    record = container.record if isinstance(container.record, kinds) else None
    if record and container.images == record.images and dict(container.attrs) == dict(record.attrs):
        if isinstance(record, Wrapper) and container.version != record.version:
            inflated_size = record.inside.stored.source.size
            yield wrapper_header(container.version, record.method, len(record.stream), inflated_size, record.hash)
            yield record.stream
        else:
            yield record.stored
        return
    if record:
        from fatpack.io.sharing import refuse_shared

        refuse_shared(image.data for image in container.images)
    yield from _new(container)


def _new(container: Container) -> Iterator[Piece]:
    attrs = container.attrs
    flavour = attrs.get("flavour", "compressed" if "compression" in attrs else "binary")
    if flavour == "compressed":
        yield from _compressed(container)
        return
    if container.version:
        raise UsageError(f"bundle version {container.version}", hint="only compressed bundles have versions")
    if flavour == "object":
        raise UsageError(
            "a fat object is a host object with sections added, which no format writes",
            hint="fatpack pack --format=bundle --type=o makes one of a host object and device images",
        )
    if flavour == "linked":
        raise UsageError(
            "linked images are part of a program, which no format writes",
            hint="extract them, and pack them as a bundle",
        )
    if flavour not in _WRITERS:
        raise UsageError(f"bundle flavour {flavour!r}", hint="known are binary, compressed and text")
    yield from _WRITERS[flavour](container)


def entry_id(image: Image) -> bytes:
    """Return the ID to store for an image: the given or stored one, else the one LLVM 22 would make of its target.

    Raises UsageError for a target that a bundle cannot name.
    """
    from fatpack.formats.clang_bundle.stored import Entry, LinkedEntry, SectionEntry

    spelling = image.attrs.get("id")
    if spelling is None and isinstance(image.record, (Entry, SectionEntry, LinkedEntry)):
        return image.record.id
    spelling = spelling if spelling is not None else image.target.spelling or id_for(image.target)
    try:
        return spelling.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise UsageError(f"bundle ID {spelling!r} cannot be stored as UTF-8") from error


def _entry_ids(images: Sequence[Image]) -> list[bytes]:
    """Return the IDs of all entries. Two with one ID are refused unless they were read from a file that has them."""
    from fatpack.formats.clang_bundle.plain.table import LONGEST_ID, MOST_ENTRIES
    from fatpack.formats.clang_bundle.stored import Entry

    if len(images) > MOST_ENTRIES:
        raise UsageError(f"{len(images)} images in one bundle", hint=f"{MOST_ENTRIES} are the most that we read back")
    ids = [entry_id(image) for image in images]
    known: dict[bytes, Image] = {}
    for image, stored in zip(images, ids, strict=True):
        spelling = stored.decode("utf-8", "backslashreplace")
        if len(stored) > LONGEST_ID:
            raise UsageError(f"bundle ID {spelling[:80]}… has {len(stored)} bytes", hint=f"{LONGEST_ID} are the most")
        other = known.setdefault(stored, image)
        if other is not image and not (isinstance(other.record, Entry) and isinstance(image.record, Entry)):
            raise UsageError(f"two images have the bundle ID {spelling!r}", hint="readers would find only one of them")
    return ids


def _binary(container: Container) -> Iterator[Piece]:
    images, ids = container.images, _entry_ids(container.images)
    align = _number(container, "align", 1)
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
    # One block however many are needed: the pieces are kept in a list, and an alignment can be 4 GiB.
    block = bytes(min(max(count, 0), limits.CHUNK))
    while count > 0:
        yield block[:count]
        count -= limits.CHUNK


def _text(container: Container) -> Iterator[Piece]:
    from fatpack.formats.clang_bundle.plain.text import END, START

    comment = container.attrs.get("comment", "")
    if comment not in COMMENTS:
        raise UsageError(f"comment token {comment!r} of a text bundle", hint=f"known are {' '.join(COMMENTS)}")
    for image, stored in zip(container.images, _entry_ids(container.images), strict=True):
        if b"\n" in stored or stored.endswith(b"\r"):
            raise UsageError(f"bundle ID {image.attrs.get('id')!r} has a line end, which a text bundle cannot store")
        prefix = b"\n%s %s" % (comment.encode(), MAGIC)
        yield prefix + START + stored + b"\n"
        yield image.data
        yield prefix + END + stored + b"\n"


_WRITERS = {"binary": _binary, "text": _text}


def _compressed(container: Container) -> Iterator[Piece]:
    method, version = container.attrs.get("compression", "zstd"), container.version
    if method not in METHODS.values():
        raise UsageError(f"compression {method!r}", hint=f"known are {', '.join(METHODS.values())}")
    if version not in WRAPPERS:
        raise UsageError(f"compressed bundle version {version}", hint="known are 1, 2 and 3")
    inside = container.attrs.get("inside", "binary")
    if inside not in _WRITERS:
        raise UsageError(f"bundle flavour {inside!r} inside a compressed one", hint="known are binary and text")
    pieces = list(_WRITERS[inside](container))
    from fatpack.codec.compress import compress
    from fatpack.formats.clang_bundle.compressed.digest import HASH_SIZE, new_digest

    size = sum(map(len, pieces))
    digest = new_digest(size)

    def parts() -> Iterator[bytes | bytearray | memoryview]:
        for piece in pieces:
            for part in [piece] if isinstance(piece, (bytes, bytearray, memoryview)) else piece.pieces():
                digest.update(part)
                yield part

    level = _number(container, "compression_level", _ZSTD_LEVEL if method == "zstd" else _ZLIB_LEVEL)
    if method == "zstd":
        level = min(level, 22) or _ZSTD_LEVEL
    stream = compress(parts(), method, size, level, long_distance=True)
    yield wrapper_header(version, method, len(stream), size, digest.digest()[:HASH_SIZE])
    yield stream


def wrapper_header(version: int, method: str, stream_size: int, inflated_size: int, content_hash: bytes) -> bytes:
    """Return the header in front of a compressed stream. Raises UsageError for sizes that the version cannot say."""
    if version not in WRAPPERS:
        raise UsageError(f"compressed bundle version {version}", hint="known are 1, 2 and 3")
    layout = WRAPPERS[version]
    number = next(number for number, name in METHODS.items() if name == method)
    size = layout.size + stream_size
    if version < 3 and max(size, inflated_size) >= 1 << 32:
        what = "uncompressed size" if inflated_size >= 1 << 32 else "total size"
        raise UsageError(f"the {what} exceeds what version {version} can say", hint="use container version 3")
    sizes = [inflated_size] if version == 1 else [size, inflated_size]
    return layout.pack(COMPRESSED_MAGIC, version, number, *sizes, content_hash)


def _number(container: Container, name: str, default: int) -> int:
    value = container.attrs.get(name, "")
    try:
        return int(value) if value else default
    except ValueError:
        raise UsageError(f"{name} {value!r} is no whole number") from None
