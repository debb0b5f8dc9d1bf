"""New content of a file in a zip archive: stored, or deflated in blocks on all cores, with CRC-32, size and digest.

Each block is deflated on its own, with the 32 KiB before it as dictionary, and the results are joined: one stream for
every reader (RFC 1951, 3.2.3; pigz does the same). The size of blocks is fixed, so the bytes depend neither on the
number of cores nor on the size of the pieces, only on the library of zlib that Python was built with.

Several contents that are made of one file have long ranges of it in common: the code for the processor of a library
that is slimmed for seven devices. With :class:`StoredBlocks` such a range is cut where its blocks have the same bytes
in all contents, and each is deflated once.
"""

from __future__ import annotations

import hashlib
import zlib

from fatpack.concurrency import system
from fatpack.concurrency.threads import ThreadTasks, thread_count
from fatpack.errors import HostError
from fatpack.io.source import View
from fatpack.limits import UNCOUNTED
from fatpack.packages import streams
from fatpack.packages.members import LazyInflatedMember
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import TypeAlias

    from fatpack.io.source import Piece, Source

    #: start and size of a block in its source, and the size of its dictionary, which lies before it
    SourceRange: TypeAlias = tuple[int, int, int]

#: zlib's own default, also used for wheels
LEVEL = 6

#: Bytes that are deflated at once: the end of each block costs five bytes, and none refers to more than 32 KiB back.
_BLOCK, _WINDOW = 1 << 20, 32 << 10

#: the least bytes of a range whose blocks may be shared: its first one is deflated without dictionary
_SHARED = 128 << 10


class PackedFile(Record):
    """The content of a file as stored in an archive: ``stored`` are its bytes, ``method`` is 0 or 8.

    ``crc``, ``size`` and ``digest``, by the hash of ``hash_name``, are of the content. The source of ``stored`` is in
    memory or in an unnamed temporary file; the caller closes it.
    """

    stored: View
    method: int
    crc: int
    size: int
    digest: bytes
    hash_name: str = "sha256"


class StoredBlocks(Record):
    """Deflated blocks of ``source`` in the file ``fd``, where contents are stored one after the other.

    ``at`` is where the present content is going to be; ``places`` are offset and size of the blocks of those before it.
    All are deflated with the same level.
    """

    source: Source
    fd: int
    places: dict[SourceRange, tuple[int, int]]
    at: int = 0

    def deflated(self, block: SourceRange | None) -> Callable[[], bytes] | None:
        """Return what reads a block that is stored already, None for one that is not."""
        place = self.places.get(block) if block is not None else None
        if place is None:
            return None
        offset, size = place
        return lambda: system.read_at(self.fd, size, offset)


class StoredContent(Record):
    """A content that is stored in some file: where, and what :class:`PackedFile` has of it; processes can send it."""

    start: int
    end: int
    method: int
    crc: int
    size: int
    digest: bytes
    hash_name: str

    def packed(self, file: View) -> PackedFile:
        """Return the content; ``file`` is all of the file in which it is stored."""
        stored = file.slice(self.start, self.end - self.start)
        return PackedFile(stored, self.method, self.crc, self.size, self.digest, self.hash_name)


class _Block(Record):
    """Bytes to deflate, the dictionary before them, and where they are in the source if they may be shared."""

    data: bytes
    before: bytes = b""
    range: SourceRange | None = None


def pack_content(
    pieces: Iterable[Piece], *, deflates: bool, level: int = LEVEL, hash_name: str = "sha256"
) -> PackedFile:
    """Return pieces, each read once, in the form for an archive. Raises the errors of reading them."""
    packing = Packing(pieces, deflates=deflates, level=level, hash_name=hash_name)
    source = LazyInflatedMember(packing.parts, None, "", present=0, budget=UNCOUNTED)
    source.complete()
    return packing.packed(source.view())


class Packing:
    """Pieces, each read once, in the form for an archive: ``method`` is 0 or 8.

    ``crc``, ``size`` and ``digest``, by the hash of ``hash_name``, are of the content: they are right when all parts
    were taken. ``known`` are deflated blocks of other contents: the caller stores each part before it takes the next.
    """

    def __init__(
        self,
        pieces: Iterable[Piece],
        *,
        deflates: bool,
        level: int = LEVEL,
        hash_name: str = "sha256",
        known: StoredBlocks | None = None,
    ) -> None:
        self._pieces = pieces
        self._level = level
        self._known = known if deflates else None
        self._hash = hashlib.new(hash_name, usedforsecurity=False)
        self.hash_name, self.method = hash_name, 8 if deflates else 0
        self.crc = self.size = 0

    def parts(self) -> Iterator[bytes]:
        """Yield the bytes as stored. Raises the errors of reading the pieces."""
        blocks = self._blocks()
        return self._deflated(blocks) if self.method else (block.data for block in blocks)

    def packed(self, stored: View) -> PackedFile:
        """Return the content, all parts of which are ``stored``."""
        return PackedFile(stored, self.method, self.crc, self.size, self.digest, self.hash_name)

    @property
    def digest(self) -> bytes:
        """The digest of the content, by the hash of ``hash_name``."""
        return self._hash.digest()

    def store(self, fd: int, at: int, end: int) -> StoredContent:
        """Write all parts to a file from an offset on. Raises HostError before a byte would be written at ``end``."""
        start = at
        for part in self.parts():
            if at + len(part) > end:
                raise HostError("a new content has no room in the file for it", hint="report this, with the package")
            rest = memoryview(part)
            while rest:
                count = system.write_at(fd, rest, at)
                at, rest = at + count, rest[count:]
        return StoredContent(start, at, self.method, self.crc, self.size, self.digest, self.hash_name)

    def _blocks(self) -> Iterator[_Block]:
        """Yield the content in blocks: long ranges of the known source in their own, all else in blocks of one size."""
        pending = bytearray()
        before = b""
        for piece in self._pieces:
            if self._known is not None and isinstance(piece, View) and self._may_share(piece):
                if pending:
                    yield self._noted(_Block(bytes(pending), before))
                    pending.clear()
                for block in _source_blocks(piece):
                    yield self._noted(block)
                    before = block.data[-_WINDOW:]
                continue
            for part in piece.read_once() if isinstance(piece, View) else [memoryview(piece).cast("B")]:
                rest = part
                while rest:
                    room = _BLOCK - len(pending)
                    pending += rest[:room]
                    rest = rest[room:]
                    if len(pending) == _BLOCK:
                        yield self._noted(_Block(bytes(pending), before))
                        before = bytes(pending[-_WINDOW:])
                        pending.clear()
        if pending:
            yield self._noted(_Block(bytes(pending), before))

    def _may_share(self, piece: View) -> bool:
        return self._known is not None and piece.source is self._known.source and len(piece) >= _SHARED

    def _noted(self, block: _Block) -> _Block:
        self._hash.update(block.data)
        self.crc = streams.crc32(block.data, self.crc)
        self.size += len(block.data)
        return block

    def _deflated(self, blocks: Iterator[_Block]) -> Iterator[bytes]:
        """Yield the stream of blocks; as many are deflated at a time as there are cores."""
        block = next(blocks, _Block(b""))
        at = 0
        is_over = False
        while not is_over:
            ranges: list[SourceRange | None] = []
            tasks: list[Callable[[], bytes]] = []
            for _ in range(2 * thread_count()):
                following = next(blocks, None)
                # The end of the stream is marked in its last block: that one is like no other.
                ranges.append(block.range if following is not None else None)
                stored = self._known.deflated(ranges[-1]) if self._known is not None else None
                tasks.append(stored or _task(block, self._level, is_last=following is None))
                if following is None:
                    is_over = True
                    break
                block = following
            with ThreadTasks(tasks) as done:
                for range_, part in zip(ranges, done, strict=True):
                    yield part
                    if self._known is not None and range_ is not None:
                        self._known.places.setdefault(range_, (self._known.at + at, len(part)))
                    at += len(part)


def _source_blocks(piece: View) -> Iterator[_Block]:
    """Yield a range in blocks that end at multiples of their size in the source, the first one without dictionary.

    So contents that have different parts of a range in common have the same blocks in its middle.
    """
    at, before = piece.start, b""
    while at < piece.end:
        size = min(_BLOCK - at % _BLOCK, piece.end - at)
        data = piece.source.read(at, size)
        yield _Block(data, before, (at, size, len(before)))
        at, before = at + size, data[-_WINDOW:]


def _task(block: _Block, level: int, *, is_last: bool) -> Callable[[], bytes]:
    def run() -> bytes:
        stream = zlib.compressobj(level, zlib.DEFLATED, -zlib.MAX_WBITS, 8, zlib.Z_DEFAULT_STRATEGY, block.before)
        return stream.compress(block.data) + stream.flush(zlib.Z_FINISH if is_last else zlib.Z_SYNC_FLUSH)

    return run
