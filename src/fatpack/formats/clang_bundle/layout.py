"""Byte layouts of bundles, the fixed words in them, and the records of stored bundles.

Offsets in a bundle count from the first byte of its magic. Everything is little-endian: producers write the byte order
of their machine, and all known ones were little-endian.
"""

from __future__ import annotations

from fatpack import magic_numbers
from fatpack.formats.diagnostics import ErrorFactory, FindingCollector
from fatpack.layout import Field, Layout
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from fatpack.io.source import View
    from fatpack.model import Container, Image


# Stored data of a bundle beyond the common model, kept so that a rewrite loses nothing.
#
# Every record of a container keeps ``stored``, all its bytes, and ``images`` and ``attrs`` as they were read: an
# unchanged container is written as the same bytes, including those between the images.


class BundleEntry(Record):
    """An entry as stored: the bytes of its ID, and its image's position, from the magic.

    ``at`` is the start of its descriptor. In a text bundle ``at`` is the start of the START marker, including the
    newline before it, and ``end`` the end of the END line.
    """

    id: bytes
    offset: int
    at: int
    end: int = 0


def stored_bundle_entry(image: Image) -> BundleEntry:
    """Return the stored record of an image. Raises UsageError for one that was not read from a bundle."""
    if isinstance(image.record, BundleEntry):
        return image.record
    from fatpack.formats.diagnostics import not_parsed_error

    raise not_parsed_error("image")


class BinaryBundle(Record):
    """A binary bundle as stored; ``entry_count`` is from the header, ``table_end`` the end of the descriptors."""

    stored: View
    images: tuple[Image, ...]
    attrs: Mapping[str, str]
    entry_count: int
    table_end: int


class TextBundle(Record):
    """A text bundle as stored: ``comment`` is the token at the start of its marker lines."""

    stored: View
    images: tuple[Image, ...]
    attrs: Mapping[str, str]
    comment: str


class CompressedBundle(Record):
    """A compressed bundle as stored.

    ``size`` (None in version 1) and ``inflated_size`` are from the header, ``hash`` are the 8 bytes stored in it;
    ``stream`` is the compressed data, ``inside`` the record of the bundle inside.
    """

    stored: View
    images: tuple[Image, ...]
    attrs: Mapping[str, str]
    version: int
    method: str
    size: int | None
    inflated_size: int
    hash: bytes
    stream: View
    inside: BinaryBundle | TextBundle


def stored_bundle(container: Container) -> BinaryBundle | TextBundle:
    """Return the stored record of a plain bundle. Raises UsageError for any other container, or one that was not
    read."""
    if isinstance(container.record, BinaryBundle | TextBundle):
        return container.record
    from fatpack.formats.diagnostics import not_parsed_error

    raise not_parsed_error("container")


BUNDLE_FORMAT = "clang-offload-bundle"
MAGIC, COMPRESSED_MAGIC = magic_numbers.BUNDLE, magic_numbers.COMPRESSED_BUNDLE

#: The versions of compressed bundles. An uncompressed bundle has no version number; 0 is used for it.
COMPRESSED_VERSIONS = (1, 2, 3)

#: stored number → compression method
METHODS = {0: "zlib", 1: "zstd"}

#: comment token → file types of clang-offload-bundler whose text bundles use it
COMMENTS = {"//": ("i", "ii", "cui", "hipi"), "#": ("d", "s"), ";": ("ll",)}

#: file type of clang-offload-bundler → comment token of its text bundles, "" for types that are not text
TYPES = {
    **dict.fromkeys(("bc", "o", "a", "gch", "ast"), ""),
    **{type: comment for comment, types in COMMENTS.items() for type in types},
}


def _method(value: int) -> str:
    return f"{value} ({METHODS.get(value, 'unknown')})"


HEADER = Layout(
    BUNDLE_FORMAT,
    "header of a bundle",
    [
        Field("magic", "bytes[24]", "__CLANG_OFFLOAD_BUNDLE__", lambda value: value.decode("latin-1")),
        Field("entry_count", "u64", "number of entries; their table follows"),
    ],
)

#: The ID follows its descriptor, and the next descriptor follows the ID.
DESCRIPTOR = Layout(
    BUNDLE_FORMAT,
    "descriptor of an entry",
    [
        Field("image_offset", "u64", "offset of the image, from the magic; never 0 in LLVM's files"),
        Field("image_size", "u64", "bytes of the image, without padding"),
        Field("id_size", "u64", "bytes of the ID that follows, without a terminator"),
    ],
)

_COMPRESSED_FIELDS = [
    Field("magic", "bytes[4]", "CCOB", lambda value: value.decode("latin-1")),
    Field("version", "u16", "version of the compressed bundle, 1 to 3"),
    Field("method", "u16", "0 = zlib (RFC 1950), 1 = zstd (RFC 8878)", _method),
]
_SIZE = "TotalFileSize: bytes from the magic to the end of the compressed data"
_INFLATED = "UncompressedFileSize: bytes of the bundle inside"
_HASH = Field("hash", "bytes[8]", "Hash: the first 8 bytes of the MD5 of the bundle inside")


def _compressed_header(version: int, *sizes: Field) -> Layout:
    return Layout(BUNDLE_FORMAT, f"header of a compressed bundle (v{version})", [*_COMPRESSED_FIELDS, *sizes, _HASH])


#: version → header in front of the compressed data
COMPRESSED_HEADERS = {
    1: _compressed_header(1, Field("inflated_size", "u32", _INFLATED)),
    2: _compressed_header(2, Field("size", "u32", _SIZE), Field("inflated_size", "u32", _INFLATED)),
    3: _compressed_header(3, Field("size", "u64", _SIZE), Field("inflated_size", "u64", _INFLATED)),
}


# Damage inside a bundle: the errors for its fields, and the class that collects them.

__all__ = ["FindingCollector", "bundle_error", "bundle_errors"]

bundle_errors = ErrorFactory(BUNDLE_FORMAT)

#: the error for an invalid value of a field
bundle_error = bundle_errors.value
