"""HIP's bundles as a proof reads them: ``__CLANG_OFFLOAD_BUNDLE__``, not compressed.

The table, then the images with zeros between them. Offsets count from the magic, and everything is little-endian
(clang/docs/ClangOffloadBundler.rst, LLVM 22.1). A bundle is read as one stream, once, so one that is inflated takes no
memory.
"""

from __future__ import annotations

from hashlib import sha256
from itertools import pairwise

from construct import Bytes, Int64ul, Struct

from fatpack import magic_numbers
from fatpack.proof.containers.model import ProofContainer, ProofImage, construct_reader
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from fatpack.proof.memory import ProgramMemory

_HEADER = Struct("magic" / Bytes(len(magic_numbers.BUNDLE)), "count" / Int64ul * "number of entries")
_START = _HEADER.sizeof()

#: What precedes the ID of an entry.
_ENTRY = Struct("offset" / Int64ul * "of the image", "size" / Int64ul * "of the image", "title_size" / Int64ul)
_READ_ENTRY = construct_reader(_ENTRY)

#: LIMIT: bytes of the table in front of the images. A table of a hundred targets takes 8 KB.
MAX_TABLE_SIZE = 1 << 20

#: LIMIT: bytes of an ID.
_LONGEST_ID = 1 << 12


class ProofBundleEntry(Record):
    """An entry of the table: ID, and where in the bundle its image is."""

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
    """Return how many bytes magic and table take."""
    return int(_START) + sum(_READ_ENTRY.size + len(entry.title) for entry in entries)


def read_bundle_table(read: Callable[[int, int], bytes]) -> list[ProofBundleEntry] | None:
    """Return the entries of a bundle, None where the table is damaged; ``read`` gives bytes of it, fewer at its end."""
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

    None where images overlap each other or the table, or where other bytes than zeros lie between them.
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
