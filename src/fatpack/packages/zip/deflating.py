"""New content of one file of a zip archive: stored, or deflated in blocks on all cores, with what is noted beside it.

Blocks are deflated each on its own, with the 32 KiB before it as dictionary, and put side by side: one stream for every
reader (RFC 1951, 3.2.3; pigz does the same). The size of blocks is fixed, so the bytes depend neither on the number of
cores nor on the size of the pieces, only on the library of zlib that Python was built with.
"""

from __future__ import annotations

import hashlib

from fatpack.budget import UNCOUNTED
from fatpack.concurrency.threads import ThreadTasks, thread_count
from fatpack.io.source import View
from fatpack.packages import fast
from fatpack.packages.members import LazyInflatedMember
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from fatpack.io.source import Piece

#: zlib's own default, and what packers of wheels use
LEVEL = 6

#: Bytes that are deflated at once: the end of each block costs five bytes, and none refers to more than 32 KiB back.
_BLOCK, _WINDOW = 1 << 20, 32 << 10


class PackedFile(Record):
    """The content of a file as it lies in an archive: ``stored`` are its bytes there, ``method`` is 0 or 8.

    ``crc``, ``size`` and ``digest``, by the hash of ``hash_name``, are of the content. The source of ``stored`` is in
    memory or in an unnamed temporary file; whoever asked for it closes it.
    """

    stored: View
    method: int
    crc: int
    size: int
    digest: bytes
    hash_name: str = "sha256"


def pack_content(
    pieces: Iterable[Piece], *, deflates: bool, level: int = LEVEL, hash_name: str = "sha256"
) -> PackedFile:
    """Return pieces, each read once, as an archive has them. Raises what reading them does."""
    taken = _ContentMeasure(hash_name)
    blocks = taken.blocks(pieces)
    stream = _deflated(blocks, level) if deflates else blocks
    source = LazyInflatedMember(lambda: iter(stream), None, "", present=0, budget=UNCOUNTED)
    source.complete()
    return PackedFile(source.view(), 8 if deflates else 0, taken.crc, taken.size, taken.digest(), hash_name)


class _ContentMeasure:
    """What is known of the content when all of it was read."""

    def __init__(self, hash_name: str) -> None:
        self._hash = hashlib.new(hash_name, usedforsecurity=False)
        self.crc = self.size = 0
        self.digest = self._hash.digest

    def blocks(self, pieces: Iterable[Piece]) -> Iterator[bytes]:
        """Yield the content in blocks of one size, the last one shorter."""
        pending = bytearray()
        for piece in pieces:
            for part in piece.once() if isinstance(piece, View) else [memoryview(piece).cast("B")]:
                rest = part
                while rest:
                    room = _BLOCK - len(pending)
                    pending += rest[:room]
                    rest = rest[room:]
                    if len(pending) == _BLOCK:
                        yield self._noted(bytes(pending))
                        pending.clear()
        if pending:
            yield self._noted(bytes(pending))

    def _noted(self, block: bytes) -> bytes:
        self._hash.update(block)
        self.crc = fast.crc32(block, self.crc)
        self.size += len(block)
        return block


def _deflated(blocks: Iterator[bytes], level: int) -> Iterator[bytes]:
    """Yield the stream of blocks, as many of which are deflated at a time as there are cores."""
    before = b""
    block = next(blocks, b"")
    is_over = False
    while not is_over:
        tasks: list[Callable[[], bytes]] = []
        for _ in range(2 * thread_count()):
            following = next(blocks, None)
            tasks.append(_task(block, before, level, is_last=following is None))
            if following is None:
                is_over = True
                break
            before, block = block[-_WINDOW:], following
        with ThreadTasks(tasks) as done:
            yield from done


def _task(block: bytes, before: bytes, level: int, *, is_last: bool) -> Callable[[], bytes]:
    def run() -> bytes:
        import zlib

        stream = zlib.compressobj(level, zlib.DEFLATED, -zlib.MAX_WBITS, 8, zlib.Z_DEFAULT_STRATEGY, before)
        return stream.compress(block) + stream.flush(zlib.Z_FINISH if is_last else zlib.Z_SYNC_FLUSH)

    return run
