"""HIP's bundles for a proof: ``__CLANG_OFFLOAD_BUNDLE__``, plain and compressed.

The table, then the images with zeros between them. Offsets count from the magic, and everything is little-endian
(clang/docs/ClangOffloadBundler.rst, LLVM 22.1). A bundle is read once, as a stream, so a decompressed one takes no
memory.
"""

from __future__ import annotations

from hashlib import md5, sha256
from itertools import pairwise

from construct import Bytes, Int16ul, Int32ul, Int64ul, Struct

from fatpack import codecs, magic_numbers
from fatpack.errors import FormatError, LimitExceeded
from fatpack.proof.containers.model import ProofContainer, ProofImage, construct_reader
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from fatpack.io.source import View
    from fatpack.proof.memory import ProgramMemory


_HEADER = Struct("magic" / Bytes(len(magic_numbers.BUNDLE)), "count" / Int64ul * "number of entries")
_START = _HEADER.sizeof()

#: The fields before the ID of an entry.
_ENTRY = Struct("offset" / Int64ul * "of the image", "size" / Int64ul * "of the image", "title_size" / Int64ul)
_READ_ENTRY = construct_reader(_ENTRY)

#: LIMIT: bytes of the table before the images. A table of a hundred targets takes 8 KB.
MAX_TABLE_SIZE = 1 << 20

#: LIMIT: bytes of an ID.
_LONGEST_ID = 1 << 12


class ProofBundleEntry(Record):
    """An entry of the table: the ID, and the offset and size of its image in the bundle."""

    title: bytes
    offset: int
    size: int


def read_bundle(memory: ProgramMemory, address: int, end: int) -> ProofContainer | None:
    """Return the bundle at an address, None unless it ends before ``end`` with zeros between its parts."""
    entries = read_bundle_table(lambda at, size: memory.read(address + at, size) or b"")
    if entries is None:
        return None
    stop = max([bundle_table_size(entries), *(entry.offset + entry.size for entry in entries)])
    if address + stop > end:
        return None
    stored = memory.stored(address, stop)
    for entry in entries:
        memory.charge(entry.size)
    images = None if stored is None else digest_images(entries, stored.pieces())
    if images is None:
        return None
    inner = tuple(address + entry.offset for entry in entries if entry.size)
    return ProofContainer("clang-offload-bundle", address, address + stop, images, b"", inner=inner)


def bundle_table_size(entries: Iterable[ProofBundleEntry]) -> int:
    """Return the size of magic and table in bytes."""
    return int(_START) + sum(_READ_ENTRY.size + len(entry.title) for entry in entries)


def read_bundle_table(read: Callable[[int, int], bytes]) -> list[ProofBundleEntry] | None:
    """Return the entries of a bundle, None for a damaged table; ``read`` returns bytes of it, fewer at its end."""
    head = read(0, _START)
    if len(head) < _START:
        return None
    count = _HEADER.parse(head).count
    entries: list[ProofBundleEntry] = []
    at = _START
    while len(entries) < count:
        data = read(at, _READ_ENTRY.size)
        if len(data) < _READ_ENTRY.size or at > MAX_TABLE_SIZE:
            return None
        offset, size, length = _READ_ENTRY.unpack(data)
        title = read(at + _READ_ENTRY.size, length) if length <= _LONGEST_ID else b""
        if len(title) < length or length > _LONGEST_ID:
            return None
        entries.append(ProofBundleEntry(title, offset, size))
        at += _READ_ENTRY.size + length
    return entries


def digest_images(
    entries: list[ProofBundleEntry], pieces: Iterable[memoryview | bytes], *, inflated: bool = False
) -> tuple[ProofImage, ...] | None:
    """Return the images of a bundle whose bytes come in pieces, in the table's order.

    None if images overlap each other or the table, or if there are other bytes than zeros between them.
    """
    filled = sorted({(entry.offset, entry.offset + entry.size) for entry in entries if entry.size})
    found: dict[tuple[int, int], str] = {}
    edges = [(0, bundle_table_size(entries)), *filled]
    if any(later[0] < earlier[1] for earlier, later in pairwise(edges)):
        return None
    number, at, current = 0, 0, sha256()
    for piece in pieces:
        data = memoryview(piece)
        while data:
            if number == len(edges):
                if any(data):
                    return None
                break
            start, stop = edges[number]
            if at < start:
                gap = data[: start - at]
                if any(gap):
                    return None
                at += len(gap)
                data = data[len(gap) :]
                continue
            part = data[: stop - at]
            current.update(part)
            at += len(part)
            data = data[len(part) :]
            if at == stop:
                found[edges[number]] = current.hexdigest()
                number, current = number + 1, sha256()
    if number < len(edges):
        return None
    empty = sha256().hexdigest()
    return tuple(
        ProofImage(
            entry.title.decode("utf-8", "replace"),
            entry.size,
            found.get((entry.offset, entry.offset + entry.size), empty),
            entry.title,
            inflated,
        )
        for entry in entries
    )


# Compressed bundles (CCOB): decompressed image by image, without keeping the result.
#
# (llvm/lib/Object/OffloadBundle.cpp, LLVM 22.1.) Version 1 does not have its size, and is not read here.

_METHODS = {0: "zlib", 1: "zstd"}
#: version → header
_HEADERS = {
    version: Struct(
        "magic" / Bytes(4) * "CCOB",
        "version" / Int16ul,
        "method" / Int16ul,
        "size" / number * "bytes of header and compressed data",
        "inflated" / number,
        "hash" / Bytes(8) * "the first half of the MD5 of the decompressed bytes",
    )
    for version, number in ((2, Int32ul), (3, Int64ul))
}


def read_compressed(memory: ProgramMemory, address: int, end: int) -> ProofContainer | None:
    """Return the compressed bundle at an address, None unless its content agrees with its header.

    Raises LimitExceeded if it exceeds the limits on decompression.
    """
    version = memory.number(address + 4, 2)
    layout = _HEADERS.get(version or 0)
    head = None if layout is None else memory.read(address, layout.sizeof())
    if layout is None or head is None:
        return None
    header, least = layout.parse(head), layout.sizeof()
    if header.size < least or address + header.size > end or header.method not in _METHODS:
        return None
    stored = memory.stored(address + least, header.size - least)
    memory.charge(header.size)
    if stored is None:
        return None
    method = _METHODS[header.method]
    images = _images(stored, method, header.inflated, header.hash)
    if images is None:
        return None
    return ProofContainer("clang-offload-bundle", address, address + header.size, images, b"", f"{method} v{version}")


def _images(stored: View, method: str, size: int, digest: bytes) -> tuple[ProofImage, ...] | None:
    """Return the images in compressed data, None for damaged data and for a hash that differs from the header's."""
    found = md5(usedforsecurity=False)

    def hashed() -> Iterator[bytes]:
        for piece in codecs.inflate_pieces(stored, method, size, format="clang-offload-bundle"):
            found.update(piece)
            yield bytes(piece)

    pieces = hashed()
    try:
        entries, start = _table(pieces)
        images = None if entries is None else digest_images(entries, _chained(start, pieces), inflated=True)
    except LimitExceeded:
        raise
    except FormatError:
        return None
    return images if found.digest()[: len(digest)] == digest else None


def _chained(start: bytes, pieces: Iterator[bytes]) -> Iterator[bytes]:
    yield start
    yield from pieces


def _table(pieces: Iterator[bytes]) -> tuple[list[ProofBundleEntry] | None, bytes]:
    """Return the table of a bundle that comes in pieces, and the bytes that were read for it."""
    start, tried = b"", 0

    def read(at: int, size: int) -> bytes:
        return start[at : at + size]

    for piece in pieces:
        start += piece
        if len(start) >= 2 * tried:  # a table that is long or damaged is not read again for every piece
            tried = len(start)
            entries = read_bundle_table(read)
            if entries is not None or tried > 2 * MAX_TABLE_SIZE:
                return entries, start
    return read_bundle_table(read), start
