"""Byte layouts of the LLVM offload binary, their named numbers, and the records of stored ones.

Offsets inside a binary are relative to the first byte of its magic. Producers write the byte order of their machine,
without a marker; :func:`layouts_for_order` returns the tables for either.
"""

from __future__ import annotations

from fatpack import magic_numbers
from fatpack.layout import Field, Layout
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fatpack.io.source import View
    from fatpack.layout import ByteOrder
    from fatpack.model import Container, Image


OFFLOAD_BINARY_FORMAT = "llvm-offload-binary"
MAGIC = magic_numbers.OFFLOAD_BINARY
VERSIONS = (1, 2, 3)

#: Bit 0 of an entry's flags (LLVM main, 2026): the entry carries strings only, no image.
FLAG_METADATA_ONLY = 1


#: LLVM's ImageKind: the form of an image (llvm/include/llvm/Object/OffloadBinary.h). 7 is DPC++'s; its builds from
#: before LLVM used 6 for SPIR-V write 6 for SYCLBIN.
IMAGE_KINDS = {0: "none", 1: "object", 2: "bitcode", 3: "cubin", 4: "fatbin", 5: "ptx", 6: "spirv", 7: "syclbin"}

#: LLVM's OffloadKind since LLVM 21, where it became a bit mask without a new container version.
OFFLOAD_KINDS = {0: "none", 1: "openmp", 2: "cuda", 4: "hip", 8: "sycl"}

#: image kind → our word for the form of the image; 0 has none
FORMS = {number: name for number, name in IMAGE_KINDS.items() if number}

#: text after the last dot of a file name → image kind, for llvm-offload-binary 22 (case-sensitive)
KIND_BY_EXTENSION = {"o": 1, "bc": 2, "cubin": 3, "fatbin": 4, "s": 5}
BITCODE, SPIRV = 2, 6


def kinds_by_extension(version: int) -> dict[str, int]:
    """Return image kinds by extension, for the LLVM that writes that container version: 23 knows SPIR-V."""
    return KIND_BY_EXTENSION if version == 1 else {**KIND_BY_EXTENSION, "spv": SPIRV}


#: image kind → extension that llvm-offload-binary gives to extracted files; "" for all others
EXTENSIONS = {kind: extension for extension, kind in KIND_BY_EXTENSION.items()} | {SPIRV: "spv"}

#: QUIRK(LLVM 15-20): HIP was 3 before the kinds became bits (llvm#135809).
LEGACY_HIP = 3
#: QUIRK(DPC++ before it merged llvm#135809): SYCL was 4, which is HIP now.
LEGACY_SYCL = 4
#: QUIRK(DPC++'s runtime, sycl/source/detail/syclbin.cpp of 2026): SYCL is 5 around the SYCLBIN files that it writes.
RUNTIME_SYCL, SYCLBIN = 5, 7


def decode_offload(number: int, triple: str, image_kind: int = 0) -> tuple[str, str]:
    """Return (offload model, remark) for a stored offload kind; the remark is "" for today's numbering."""
    if number == RUNTIME_SYCL and image_kind == SYCLBIN:
        return "sycl", "5 is SYCL in what the runtime of DPC++ writes"
    if number == LEGACY_HIP:
        return "hip", "3 is HIP in the numbering of LLVM 15 to 20"
    if number == LEGACY_SYCL and (
        image_kind == SYCLBIN or (triple.startswith(("spir", "native_cpu")) and "-amd-" not in triple)
    ):
        return "sycl", "4 is SYCL in the old numbering of DPC++"
    return OFFLOAD_KINDS.get(number, f"kind {number} (unknown)"), ""


def _named(names: Mapping[int, str]) -> Callable[[int], str]:
    return lambda value: f"{value} ({names.get(value, 'unknown')})"


class OffloadBinaryLayouts(Record):
    """The records of one byte order. ``header[v]`` and ``strings[v]`` are those of version v."""

    header: dict[int, Layout]
    entry: Layout
    strings: dict[int, Layout]


_PREFIX = [
    Field("magic", "bytes[4]", "10 FF 10 AD. A byte string, the same in either byte order"),
    Field("version", "u32", "Version: container version, 1 to 3"),
    Field("size", "u64", "Size: bytes of the whole binary with header and padding; compressed v3: without padding"),
]

_HEADERS = {
    1: [
        *_PREFIX,
        Field("entry_offset", "u64", "EntryOffset: offset of the entry, from the magic"),
        Field("entry_size", "u64", "EntrySize: bytes of the entry (40). LLVM accepts any value that fits; not used"),
    ],
    2: [
        *_PREFIX,
        Field("entry_offset", "u64", "EntriesOffset: offset of the array of entries, from the magic"),
        Field("entry_count", "u64", "EntriesCount: number of entries (v1 keeps a size here)"),
    ],
    3: [
        *_PREFIX,
        Field("entry_offset", "u64", "EntriesOffset: offset of the array of entries, from the magic"),
        Field("entry_count", "u64", "EntriesCount: number of entries, readable without inflating"),
        Field(
            "inflated_size",
            "u64",
            "UncompressedSize: 0 if not compressed, else bytes of the whole binary when inflated, header included",
        ),
    ],
}

_ENTRY = [
    Field("image_kind", "u16", "TheImageKind: what the image is", _named(IMAGE_KINDS)),
    Field("offload_kind", "u16", "TheOffloadKind: programming model", _named(OFFLOAD_KINDS)),
    Field("flags", "u32", "Flags: 0 in all LLVM 22 writes; bit 0 = metadata only (main). All bits are kept"),
    Field("string_offset", "u64", "StringOffset: where this entry's string entries are, from the magic"),
    Field("string_count", "u64", "NumStrings: number of string entries"),
    Field("image_offset", "u64", "ImageOffset: offset of the image, from the magic"),
    Field("image_size", "u64", "ImageSize: bytes of the image, exact, without padding"),
]

_STRING_V1 = [
    Field("key_offset", "u64", "KeyOffset: offset of the key, from the magic; it ends at NUL"),
    Field("value_offset", "u64", "ValueOffset: offset of the value, from the magic; it ends at NUL"),
]
_STRING_V2 = [
    *_STRING_V1[:1],
    Field("value_offset", "u64", "ValueOffset: offset of the value, from the magic"),
    Field("value_size", "u64", "ValueSize: bytes of the value, which may contain NUL"),
]

_CACHE: dict[str, OffloadBinaryLayouts] = {}


def layouts_for_order(order: ByteOrder = "little") -> OffloadBinaryLayouts:
    """Return the layouts for a byte order, ``little`` or ``big``."""
    if order not in _CACHE:
        string_v1 = Layout(OFFLOAD_BINARY_FORMAT, "string entry (v1)", _STRING_V1, order)
        string_v2 = Layout(OFFLOAD_BINARY_FORMAT, "string entry (v2, v3)", _STRING_V2, order)
        _CACHE[order] = OffloadBinaryLayouts(
            header={
                v: Layout(OFFLOAD_BINARY_FORMAT, f"header (v{v})", fields, order) for v, fields in _HEADERS.items()
            },
            entry=Layout(OFFLOAD_BINARY_FORMAT, "entry", _ENTRY, order),
            strings={1: string_v1, 2: string_v2, 3: string_v2},
        )
    return _CACHE[order]


# Stored data of an offload binary beyond the common model, kept so that a rewrite loses nothing.


class OffloadBinaryHeader(Record):
    """The header, and the stored form of the binary; kept in ``Container.record`` for lossless rewriting.

    ``size`` is the stored size in bytes, ``body`` the binary itself, or its inflated form if ``inflated_size`` is not
    0. ``extension`` are bytes between header and entries (a longer header from the future), ``tail`` non-zero bytes
    after the last part: a rewrite keeps both.
    """

    version: int
    order: ByteOrder
    size: int
    entry_offset: int
    entry_count: int
    body: View
    inflated_size: int = 0
    compression: str | None = None
    extension: View | None = None
    tail: View | None = None


class OffloadBinaryEntry(Record):
    """One entry as stored: numbers, and strings in stored order, including duplicates and invalid text.

    ``image_offset`` is negative for an image that was not read from an offload binary.
    """

    image_kind: int
    offload_kind: int
    flags: int
    strings: tuple[tuple[bytes, bytes], ...]
    string_offset: int = 0
    image_offset: int = 0


class NewOffloadBinaryEntry(Record):
    """A new entry before layout: image kind and order of strings depend on the version written.

    ``name`` is the file's name; ``is_bitcode`` is true if it has the magic of bitcode. ``pairs`` are all keys of the
    option with their values in order of first appearance; ``file`` and ``kind`` affect the order and are not stored.
    """

    name: str
    is_bitcode: bool
    offload_kind: int
    pairs: tuple[tuple[bytes, bytes], ...]


def stored_header(container: Container) -> OffloadBinaryHeader:
    """Return the stored record of a container. Raises UsageError for one that was not read from a file."""
    if isinstance(container.record, OffloadBinaryHeader):
        return container.record
    from fatpack.formats.diagnostics import not_parsed_error

    raise not_parsed_error("container")


def stored_offload_entry(image: Image) -> OffloadBinaryEntry:
    """Return the stored record of an image. Raises UsageError for one that was not read from an offload binary."""
    if isinstance(image.record, OffloadBinaryEntry):
        return image.record
    from fatpack.formats.diagnostics import not_parsed_error

    raise not_parsed_error("image")
