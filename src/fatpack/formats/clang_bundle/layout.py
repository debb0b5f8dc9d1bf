"""Byte layouts of bundles, and the fixed words in them.

Offsets in a bundle count from the first byte of its magic. Everything is little-endian: producers write the byte order
of the machine they run on, and none has ever run on another.
"""

from __future__ import annotations

from fatpack import magic_numbers
from fatpack.layout import Field, Layout

BUNDLE_FORMAT = "clang-offload-bundle"
MAGIC, COMPRESSED_MAGIC = magic_numbers.BUNDLE, magic_numbers.COMPRESSED_BUNDLE

#: The versions of compressed bundles. A bundle that is not compressed has no version number; ours is 0.
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
        Field("image_offset", "u64", "where the image is, from the magic; never 0 in what LLVM writes"),
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
