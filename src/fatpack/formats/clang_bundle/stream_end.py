"""Where compressed data ends, told by the data itself.

Version 1 of the compressed bundle stores no size, and the one that later versions store may be wrong: LLVM ignores it
(section 4.4 of the notes on bundles). A zstd frame is walked by its block headers without inflating anything
(RFC 8878, 3.1.1); zlib has nothing to walk by and is inflated piece by piece, keeping nothing.
"""

from __future__ import annotations

from fatpack.codec import ZSTD_MAGIC
from fatpack.io import limits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.io.source import View

#: LIMIT: blocks of zstd per byte stored. Compressors make blocks of 128 KiB, which take a few hundred bytes or more
#: in device code; a stream of empty blocks of 3 bytes would keep us busy for a second per 3 MB.
_BYTES_PER_BLOCK = 32
_LEAST_BLOCKS = 4096

_ZLIB_STEP = 1 << 20


def stream_end(data: View, method: str) -> int | None:
    """Return how many bytes the stream at the start of ``data`` takes, or None if it is damaged or cut short.

    Of zstd, all frames that follow each other are one stream, skippable ones too.
    """
    return _zstd_end(data) if method == "zstd" else _zlib_end(data)


def _zstd_end(data: View) -> int | None:
    at, end = 0, None
    budget = [_LEAST_BLOCKS + len(data) // _BYTES_PER_BLOCK]
    while True:
        magic = data.head(at, 4)
        if magic == ZSTD_MAGIC:
            after = _frame_end(data, at + 4, budget)
            has_content = True
        elif magic[1:] == b"\x2a\x4d\x18" and magic[0] & 0xF0 == 0x50:
            size = data.head(at + 4, 4)
            after = at + 8 + int.from_bytes(size, "little") if len(size) == 4 else None
            has_content = end is not None
        else:
            return end
        if after is None or after > len(data):
            return None
        at = after
        if has_content:
            end = at


def _frame_end(data: View, at: int, budget: list[int]) -> int | None:
    descriptor = data.head(at, 1)
    if not descriptor or descriptor[0] & 0x08:
        return None
    flags = descriptor[0]
    is_single = bool(flags & 0x20)
    content_size = (int(is_single), 2, 4, 8)[flags >> 6]
    at += 1 + (not is_single) + (0, 1, 2, 4)[flags & 3] + content_size
    while True:
        budget[0] -= 1
        block = int.from_bytes(data.head(at, 3), "little")
        kind = block >> 1 & 3
        if at + 3 > len(data) or kind == 3 or budget[0] < 0:
            return None
        at += 3 + (1 if kind == 1 else block >> 3)
        if block & 1:
            return at + (4 if flags & 4 else 0)


def _zlib_end(data: View) -> int | None:
    import zlib

    stream = zlib.decompressobj()
    taken = made = 0
    most = min(limits.INFLATED_SIZE, max(limits.INFLATED_FLOOR, len(data) * limits.INFLATED_RATIO))
    try:
        for piece in data.pieces():
            rest = bytes(piece)
            taken += len(rest)
            while True:
                out = stream.decompress(rest, _ZLIB_STEP)
                made += len(out)
                rest = stream.unconsumed_tail
                if stream.eof or (not rest and len(out) < _ZLIB_STEP):
                    break
                if made > most:
                    return None
            if stream.eof:
                return taken - len(stream.unused_data)
    except zlib.error:
        return None
    return None
