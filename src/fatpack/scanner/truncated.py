"""Containers at the end of a truncated file: their size according to the header, and plausibility of that header.

A magic number alone is no container: compilers and drivers have it in their data. A container without its end cannot be
validated by reading it completely, so its header, and the present part of the first entry, must have values that
producers write. Every test reads a bounded number of bytes, except for the table of a bundle.
"""

from __future__ import annotations

from fatpack import limits, magic_numbers
from fatpack.formats.aks2 import layout as aks2
from fatpack.formats.clang_bundle import layout as bundle
from fatpack.formats.cuda_fatbin import layout as fatbin
from fatpack.formats.cuda_fatbin.fast_path import is_plausible
from fatpack.formats.cuda_fatbin.layout import CudaEntryHeader
from fatpack.formats.metallib import layout as metal
from fatpack.formats.offload_binary import layout as offload
from fatpack.formats.syclbin import layout as syclbin

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Literal

    from fatpack.io.source import View

#: LIMIT: plausible number of entries of a bundle, and bytes of an ID. HIP bundles have up to 100 of up to 100 bytes.
_MOST_ENTRIES = 4096
_LONGEST_ID = 256

#: Prefixes of IDs: the programming model of the entry.
_MODELS = (b"host-", b"hip-", b"hipv4-", b"openmp-", b"cuda-", b"sycl-")

#: LIMIT: plausible number of strings of an entry of an offload binary. LLVM writes two, DPC++ some dozens.
_MOST_STRINGS = 4096

#: plausible minor version of a Metal library; all that are known have 2
_MOST_MINOR = 16

#: plausible values of the image kind and of the offload kind: LLVM has numbers up to 8
_MOST_KIND = 64


def claimed_size(name: str, view: View, at: int) -> int:
    """Return the size that the header at ``at`` has for a container of that format; 0 if it is no such header."""
    rest = view.slice(at, len(view) - at)
    if name == fatbin.FATBIN_FORMAT:
        return fatbin.HEADER.size + int(fatbin.HEADER.read(rest, 0)[3]) if len(rest) >= fatbin.HEADER.size else 0
    if name == offload.OFFLOAD_BINARY_FORMAT:
        order = _order(rest)
        # The size is at the same place in all versions.
        return int.from_bytes(rest.head(8, 8), order) if order else 0
    if name in _CLAIMS:
        return _CLAIMS[name](rest)
    if rest.head(0, len(bundle.MAGIC)) == bundle.MAGIC:
        return bundle.HEADER.size + bundle.DESCRIPTOR.size * int.from_bytes(rest.head(len(bundle.MAGIC), 8), "little")
    # The stream of a compressed bundle is read to its end, regardless of the header.
    return len(rest) if _starts_stream(rest) else 0


def _claimed_by_syclbin(rest: View) -> int:
    if rest.head(0, len(magic_numbers.OFFLOAD_BINARY)) == magic_numbers.OFFLOAD_BINARY:
        return claimed_size(offload.OFFLOAD_BINARY_FORMAT, rest, 0)
    if len(rest) < syclbin.HEADER.size:
        return 0
    fields = syclbin.HEADER.named(rest, 0)
    layouts = {"abstract_count": syclbin.ABSTRACT, "ir_count": syclbin.IR_MODULE, "native_count": syclbin.NATIVE_IMAGE}
    headers = syclbin.HEADER.size + sum(fields[name] * layout.size for name, layout in layouts.items())
    return int(headers + syclbin.padded_size(fields["metadata_size"]) + fields["binary_size"])


def _claimed_by_metal(rest: View) -> int:
    """Return the size of a Metal library; 0 unless its parts follow the header and lie within that size."""
    if len(rest) < metal.HEADER.size:
        return 0
    fields = metal.HEADER.named(rest, 0)
    size = int(fields["size"])
    starts = [fields[f"{part}_offset"] for part in ("list", "public", "private", "bitcode")]
    is_plausible = min(starts) >= metal.HEADER.size and max(starts) <= size and fields["minor"] <= _MOST_MINOR
    return size if is_plausible else 0


def is_truncated(name: str, view: View, at: int) -> bool:
    """Return whether a container of that format starts at ``at`` and extends beyond the end of the view."""
    return _TESTS[name](view.slice(at, len(view) - at)) if name in _TESTS else False


def _is_cut_fatbin(rest: View) -> bool:
    head = rest.head(0, fatbin.HEADER.size + fatbin.ENTRY.size)
    if len(head) < fatbin.HEADER.size + fatbin.ENTRY.size:
        return False
    _, version, header_size, size = fatbin.HEADER.struct.unpack_from(head)
    return (
        (version, header_size) == (fatbin.VERSION, fatbin.HEADER.size)
        and size % fatbin.ALIGN == 0
        and size > len(rest) - fatbin.HEADER.size
        and is_plausible(CudaEntryHeader(*fatbin.ENTRY.struct.unpack_from(head, fatbin.HEADER.size)), size)
    )


def _is_cut_bundle(rest: View) -> bool:
    if rest.head(0, len(bundle.MAGIC)) != bundle.MAGIC:
        return _is_cut_stream(rest)
    count = int.from_bytes(rest.head(len(bundle.MAGIC), 8), "little")
    if not 0 < count <= _MOST_ENTRIES:
        return False
    at, ends = bundle.HEADER.size, 0
    for number in range(count):
        if at + bundle.DESCRIPTOR.size > len(rest):
            return number > 0
        offset, size, id_size = bundle.DESCRIPTOR.read(rest, at)
        at += bundle.DESCRIPTOR.size
        spelling = rest.head(at, min(id_size, _LONGEST_ID))
        if id_size > _LONGEST_ID or not spelling.startswith(_MODELS) or not spelling.isascii():
            break
        at += id_size
        ends = max(ends, offset + size if size else 0)
    return ends > len(rest)


def _is_cut_stream(rest: View) -> bool:
    """Return whether a compressed bundle is longer than ``rest``; version 1 has no size in its header."""
    if not _starts_stream(rest):
        return False
    sizes = bundle.COMPRESSED_HEADERS[int.from_bytes(rest.head(4, 2), "little")].read(rest, 0)[3:-1]
    return sizes[-1] > 0 and (len(sizes) < 2 or sizes[0] > len(rest))


def _starts_stream(rest: View) -> bool:
    """Return whether a compressed bundle starts here: a header of a known version, and a stream after it."""
    head = rest.head(0, 8)
    layout = bundle.COMPRESSED_HEADERS.get(int.from_bytes(head[4:6], "little"))
    method = bundle.METHODS.get(int.from_bytes(head[6:], "little"))
    return layout is not None and _is_stream(rest.head(layout.size, 4), method)


def _is_stream(start: bytes, method: str | None) -> bool:
    if method == "zlib":
        return len(start) >= 2 and start[0] == 0x78 and int.from_bytes(start[:2], "big") % 31 == 0
    return method == "zstd" and start == magic_numbers.ZSTD


def _is_cut_binary(rest: View) -> bool:
    order = _order(rest)
    if order is None:
        return False
    tables, version = offload.layouts_for_order(order), int.from_bytes(rest.head(4, 4), order)
    header, entry = tables.header[version], tables.entry
    if len(rest) < header.size:
        return False
    _, _, size, entry_at, count, *inflated = (0, *map(int, header.read(rest, 0)[1:]))
    if size <= len(rest) or entry_at != header.size:
        return False
    if inflated and inflated[0]:
        start = rest.head(header.size, 4)
        return size <= inflated[0] and any(_is_stream(start, method) for method in ("zstd", "zlib"))
    has_entries = count == entry.size if version == 1 else 0 < count <= limits.IMAGES
    if not has_entries or len(rest) < header.size + entry.size:
        return False
    image_kind, kind, _, string_at, string_count, image_at, image_size = map(int, entry.read(rest, header.size))
    return (
        max(image_kind, kind) <= _MOST_KIND
        and string_count <= _MOST_STRINGS
        and string_at + string_count * tables.strings[version].size <= size
        and image_at + image_size <= size
    )


def _order(rest: View) -> Literal["little", "big"] | None:
    """Return the byte order of an offload binary: the one in which its version is known."""
    stored = rest.head(4, 4)
    if int.from_bytes(stored, "little") in offload.VERSIONS:
        return "little"
    return "big" if int.from_bytes(stored, "big") in offload.VERSIONS else None


#: format → the function that returns the size which its header claims; of AKS2 only the stream tells where it ends
_CLAIMS: Mapping[str, Callable[[View], int]] = {
    syclbin.SYCLBIN_FORMAT: _claimed_by_syclbin,
    metal.METALLIB_FORMAT: _claimed_by_metal,
    aks2.AKS2_FORMAT: lambda rest: aks2.HEADER.size,
}

_TESTS: Mapping[str, Callable[[View], bool]] = {
    fatbin.FATBIN_FORMAT: _is_cut_fatbin,
    bundle.BUNDLE_FORMAT: _is_cut_bundle,
    offload.OFFLOAD_BINARY_FORMAT: _is_cut_binary,
    metal.METALLIB_FORMAT: lambda rest: _claimed_by_metal(rest) > len(rest),
    syclbin.SYCLBIN_FORMAT: lambda rest: rest.head(0, 4) == magic_numbers.OFFLOAD_BINARY and _is_cut_binary(rest),
}
