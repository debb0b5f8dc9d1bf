"""Compressed bundles (CCOB) as a proof reads them: inflated, image by image, without keeping what was inflated.

(llvm/lib/Object/OffloadBundle.cpp, LLVM 22.1.) Version 1 does not say how long it is, and is not read here.
"""

from __future__ import annotations

from hashlib import md5

from construct import Bytes, Int16ul, Int32ul, Int64ul, Struct

from fatpack import codecs
from fatpack.errors import FormatError, LimitExceeded
from fatpack.proof.containers.bundle import MAX_TABLE_SIZE, ProofBundleEntry, digest_images, read_bundle_table
from fatpack.proof.containers.model import ProofContainer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.io.source import View
    from fatpack.proof.containers.model import ProofImage
    from fatpack.proof.memory import ProgramMemory

_METHODS = {0: "zlib", 1: "zstd"}
#: version → header
_HEADERS = {
    version: Struct(
        "magic" / Bytes(4) * "CCOB",
        "version" / Int16ul,
        "method" / Int16ul,
        "size" / number * "bytes of header and compressed data",
        "inflated" / number,
        "hash" / Bytes(8) * "the first half of the MD5 of what is inflated",
    )
    for version, number in ((2, Int32ul), (3, Int64ul))
}


def read_compressed(memory: ProgramMemory, address: int, end: int) -> ProofContainer | None:
    """Return the compressed bundle at an address, None unless it inflates to what its header says.

    Raises LimitExceeded where it inflates to more than may be.
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
    """Return the images in compressed data, None for damaged data, and where the hash in the header is another one."""
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
    start = b""
    for piece in pieces:
        start += piece
        entries = read_bundle_table(lambda at, size: start[at : at + size])  # noqa: B023  (called at once)
        if entries is not None or len(start) > 2 * MAX_TABLE_SIZE:
            return entries, start
    return None, start
