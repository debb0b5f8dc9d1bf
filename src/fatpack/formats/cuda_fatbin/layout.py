"""Byte layouts of CUDA fat binaries, their named numbers, and the records of stored ones.

NVIDIA documents none of this. Names are ours; the facts were measured by varying one option of the producers at a time.
Everything is little-endian. Offsets in an entry count from its first byte, and its image follows its header.
"""

from __future__ import annotations

from fatpack import magic_numbers
from fatpack.formats.diagnostics import ErrorFactory, FindingCollector
from fatpack.layout import Field, Layout
from fatpack.record import LazyRecord, Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from fatpack.io.source import View
    from fatpack.model import Image


FATBIN_FORMAT = "cuda-fatbin"
MAGIC = magic_numbers.FATBIN
VERSION = 1
ENTRY_VERSION = 0x0101

#: Entries, and the strings in their headers, are padded with zeros to a multiple of this.
ALIGN = 8

#: Kinds of entries with a known meaning.
PTX, ELF, LTOIR, RELOCATABLE_PTX, TILE_IR, GROUP = 0x01, 0x02, 0x08, 0x40, 0x80, 0x100

#: kind → word for ``attrs["kind"]``, used if the form of the image does not imply the kind
KINDS = {
    PTX: "ptx",
    ELF: "elf",
    0x04: "pre-elf-cubin",
    LTOIR: "nvvm",
    0x10: "elf-like",
    0x20: "index",
    RELOCATABLE_PTX: "relocatable-ptx",
    TILE_IR: "tile-ir",
    GROUP: "concat",
}

#: kind → our word for the form of the image; other kinds do not imply one
FORMS = {PTX: "ptx", ELF: "cubin", LTOIR: "ltoir", RELOCATABLE_PTX: "ptx", TILE_IR: "tileir"}

#: Kinds known only from other people's tables: no producer is known to write them, and no driver accepts them.
UNKNOWN_KINDS = frozenset((0x04, 0x10, 0x20))

#: form → kind of the entry that is written for it
KIND_OF = {"ptx": PTX, "cubin": ELF, "object": ELF, "ltoir": LTOIR, "tileir": TILE_IR}

#: Kinds whose image is text that ends in a NUL, and kinds that carry options.
TEXTS = frozenset((PTX, RELOCATABLE_PTX))
WITH_OPTIONS = frozenset((PTX, LTOIR, RELOCATABLE_PTX, TILE_IR))

FLAG_64_BIT = 0x1
FLAG_DEBUG = 0x2
FLAG_LINUX = 0x10
FLAG_OBFUSCATED = 0x10000
FLAG_ACCELERATED = 0x100000
FLAG_FAMILY = 0x200000
FLAG_FINALIZABLE = 0x1000000

#: bit → operating system of the host, in the order in which cuobjdump checks them
HOSTS = {FLAG_LINUX: "linux", 0x20: "mac", 0x40: "windows"}
HOST_MASK = 0xF0

#: bit → compression method, in the order in which decoders check them: the first one counts
METHODS = {0x1000: "zlib", 0x2000: "lz4", 0x4000: "lz4-frame", 0x8000: "zstd"}
COMPRESSED = 0xF000

#: bit → word
FLAGS = {
    FLAG_64_BIT: "64-bit",
    FLAG_DEBUG: "debug",
    0x4: "cuda",
    0x8: "opencl",
    **HOSTS,
    **METHODS,
    FLAG_OBFUSCATED: "obfuscated",
    FLAG_ACCELERATED: "a",
    FLAG_FAMILY: "f",
    FLAG_FINALIZABLE: "finalizable",
}


#: the compression bits → method; of several the first counts
_METHOD_OF = {
    bits: next((method for bit, method in METHODS.items() if bits & bit), None) for bits in range(0, 0x10000, 0x1000)
}


def compression_method(flags: int) -> str | None:
    """Return the compression method of an entry with these flags, None if it is not compressed."""
    return _METHOD_OF[flags & COMPRESSED]


def kind_words(kind: int) -> str:
    """Return a kind for messages: ``2 (elf)``."""
    return f"{kind:#x} ({KINDS.get(kind, 'unknown')})"


def flag_words(flags: int) -> str:
    """Return the flags as a number, with the names of known bits: ``0x8011 (64-bit, linux, zstd)``."""
    words = [word for bit, word in FLAGS.items() if flags & bit]
    unknown = flags & ~sum(FLAGS)
    words += [f"{unknown:#x} unknown"] if unknown else []
    return f"{flags:#x} ({', '.join(words)})" if words else f"{flags:#x}"


HEADER = Layout(
    FATBIN_FORMAT,
    "header",
    [
        Field("magic", "bytes[4]", "50 ED 55 BA, the number 0xBA55ED50"),
        Field("version", "u16", "version of the container, 1"),
        Field("header_size", "u16", "bytes of this header, 16"),
        Field("entries_size", "u64", "bytes that follow: all entries with their padding"),
    ],
)

_ENTRY_START = [
    Field("kind", "u16", "kind of the image", kind_words),
    Field("version", "u16", "version of the entry, always 0x0101; no reader looks at it"),
]
_ENTRY_END = [
    Field("options_offset", "u32", "offset of the descriptor of options, from the start of the entry; 0: none"),
    Field("code_minor", "u16", "PTX version after the dot; EI_ABIVERSION of a cubin; byte 5 of LTO-IR"),
    Field("code_major", "u16", "PTX version before the dot; EI_VERSION of a cubin; byte 4 of LTO-IR"),
    Field("sm", "u32", "number of the architecture: 90 for sm_90a; 0 for a group"),
    Field("identifier_offset", "u32", "offset of the identifier, from the start of the entry; 0: none"),
    Field("identifier_size", "u32", "bytes of the identifier, without its NUL"),
    Field("flags", "u64", "64-bit, debug, host system, compression, variant of the architecture", flag_words),
    Field("key", "u64", "of obfuscated LTO-IR, the number at 0x28 of the file it was made of; else 0"),
]

#: The variable area with identifier, options and ``.nv.compat`` follows, then the image.
ENTRY = Layout(
    FATBIN_FORMAT,
    "entry",
    [
        *_ENTRY_START,
        Field("header_size", "u32", "bytes of this header with its variable area, a multiple of 8; the image follows"),
        Field("padded_size", "u64", "bytes of the image as stored, padding to a multiple of 8 included"),
        Field("compressed_size", "u32", "bytes of the compressed image without padding; 0 if not compressed"),
        *_ENTRY_END,
        Field("inflated_size", "u64", "bytes of the image when inflated, a text with its NUL; 0 if not compressed"),
    ],
)

#: QUIRK(fatbinary 13.4): in a group this number is an offset instead of a header's size.
MEMBER = Layout(
    FATBIN_FORMAT,
    "member of a group",
    [
        *_ENTRY_START,
        Field("image_offset", "u32", "offset of the image in the inflated bytes of the group"),
        Field("padded_size", "u64", "bytes of the image, padding to a multiple of 8 included"),
        Field("compressed_size", "u32", "0"),
        *_ENTRY_END,
        Field("inflated_size", "u64", "0"),
    ],
)

#: At the options offset of a group; the members follow, each with its variable area.
GROUP_TABLE = Layout(
    FATBIN_FORMAT,
    "table of a group",
    [
        Field("member_count", "u32", "number of members"),
        Field("table_size", "u32", "bytes of this table: these 8 and all members"),
    ],
)

#: At the options offset of all other entries.
DESCRIPTOR = Layout(
    FATBIN_FORMAT,
    "descriptor of options",
    [
        Field("string_offset", "u32", "offset of the options, from the start of the entry; directly after this"),
        Field("string_size", "u32", "bytes of the options without their NUL, or of the copy of .nv.compat"),
    ],
)


def padded_size(size: int) -> int:
    """Return a size rounded up to the alignment."""
    return size + -size % ALIGN


def padded_string_size(size: int) -> int:
    """Return the bytes that a string of this size takes in a variable area: with its NUL, and padded."""
    return padded_size(size + 1)


# Damage inside a fat binary: the errors for its fields, and the class that collects them.

__all__ = ["FindingCollector", "fatbin_error", "fatbin_errors"]

fatbin_errors = ErrorFactory(FATBIN_FORMAT)

#: the error for an invalid value of a field
fatbin_error = fatbin_errors.value


# Stored data of a fat binary beyond the common model, kept so that a rewrite loses nothing.
#
# An unchanged container is written as the same bytes, and an entry with an unchanged image as the bytes of that entry,
# also into another fat binary: compressed, obfuscated or of an unknown kind.


class CudaEntryHeader(Record):
    """The numbers of an entry as stored, named as in the layout.

    ``place`` is the size of the header, or for a member of a group the offset of its image in the inflated bytes.
    """

    kind: int
    version: int
    place: int
    padded_size: int
    compressed_size: int
    options_offset: int
    code_minor: int
    code_major: int
    sm: int
    identifier_offset: int
    identifier_size: int
    flags: int
    key: int
    inflated_size: int


class CudaEntryStrings(Record):
    """The variable area of an entry: its strings, and its end, from the start of the entry.

    ``compat`` is the copy of the section ``.nv.compat``, which entries of cubins have in place of ``options``.
    """

    identifier: bytes = b""
    options: bytes = b""
    compat: bytes = b""
    end: int = 64


class CudaGroup(Record):
    """Several entries compressed as one: ``stored`` are all its bytes, ``inflated`` the images of all members.

    ``member_count`` is the number of members that could be read.
    """

    head: CudaEntryHeader
    stored: View
    inflated: View
    member_count: int


class CudaEntry(Record):
    """An entry as stored.

    ``stored`` are all its bytes: header, image and padding; for a member of a group its header. ``packed`` are the
    stored bytes of the image without padding, ``data`` the inflated ones. A member has its ``group``, and its
    ``number`` in it.
    """

    head: CudaEntryHeader
    stored: View
    area: CudaEntryStrings
    packed: View
    data: View
    group: CudaGroup | None = None
    number: int = 0


class Fatbin(LazyRecord):
    """A fat binary as stored, with the ``images`` and ``attrs`` that were read.

    ``parts`` are its entries in stored order; a group comes before its members.
    """

    stored: View
    images: tuple[Image, ...]
    attrs: Mapping[str, str]
    parts: tuple[CudaEntry | CudaGroup, ...]

    def __init__(
        self,
        stored: View,
        images: tuple[Image, ...],
        attrs: Mapping[str, str],
        parts: tuple[CudaEntry | CudaGroup, ...] | None = None,
    ) -> None:
        """Set the fields; without ``parts`` these are the records of the images, made on demand."""
        _put_stored(self, stored)
        _put_images(self, images)
        _put_attrs(self, attrs)
        if parts is None:
            _put_late(self, (_records, images))
        else:
            _put_parts(self, parts)
            _put_late(self, None)


_put_stored, _put_images, _put_attrs, _put_parts = Fatbin.setters()
_put_late = LazyRecord._late.__set__  # reads the slot, not its value


def _records(images: tuple[Image, ...]) -> Mapping[str, object]:
    return {"parts": tuple(image.record for image in images if isinstance(image.record, CudaEntry))}
