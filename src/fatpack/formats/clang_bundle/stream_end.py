"""Where compressed data ends, by the data itself.

Version 1 of the compressed bundle stores no size, and the one that later versions store may be wrong: LLVM ignores it
(section 4.4 of the notes on bundles). A zstd frame is walked by its block headers without inflating anything
(RFC 8878, 3.1.1); zlib has nothing to walk by and is inflated piece by piece, keeping nothing.
"""

from __future__ import annotations

from fatpack import magic_numbers
from fatpack.codecs import inflation_limit_error
from fatpack.formats.clang_bundle.layout import BUNDLE_FORMAT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.io.source import View

#: LIMIT: blocks of zstd per byte stored. Compressors make blocks of 128 KiB, which take a few hundred bytes or more
#: in device code; a stream of empty blocks of 3 bytes would keep us busy for a second per 3 MB.
_BYTES_PER_BLOCK = 32
_LEAST_BLOCKS = 4096

#: What zstd puts into a block, but for the last one: 128 KiB of zeros take 4 bytes.
_BLOCK_CONTENT = 128 << 10

_ZLIB_STEP = 1 << 20


def find_stream_end(data: View, method: str) -> int | None:
    """Return how many bytes the stream at the start of ``data`` takes, or None if it is damaged or cut short.

    Raises LimitExceeded for one of zlib that inflates to more than it may. Of zstd, all frames that follow each other
    are one stream, skippable ones too.
    """
    found = measure_stream(data, method)
    return None if found is None else found[0]


def measure_stream(data: View, method: str) -> tuple[int, int | None] | None:
    """Return where a stream ends as :func:`stream_end` does, and how many bytes it inflates to.

    The latter is what the frames of zstd say, which decompressors hold them to; None if one of them does not say.
    """
    return _measure_zstd(data) if method == "zstd" else _measure_zlib(data)


def _measure_zstd(data: View) -> tuple[int, int | None] | None:
    at, end, content = 0, None, 0
    is_known = True
    budget = [_block_budget(data)]
    while True:
        magic = data.head(at, 4)
        if magic == magic_numbers.ZSTD:
            found = _frame(data, at, budget)
            if found is None:
                return None
            at = end = found[0]
            is_known = is_known and found[1] is not None
            content += found[1] or 0
        elif magic[1:] == magic_numbers.SKIPPABLE and magic[0] & 0xF0 == 0x50:
            size = data.head(at + 4, 4)
            at += 8 + int.from_bytes(size, "little")
            if len(size) < 4 or at > len(data):
                return None
            if end is not None:
                end = at
        else:
            return None if end is None else (end, content if is_known else None)


def _block_budget(data: View) -> int:
    return _LEAST_BLOCKS + len(data) // _BYTES_PER_BLOCK


def measure_frame(data: View) -> tuple[int, int | None] | None:
    """Return how many bytes the one zstd frame at the start of ``data`` takes, and how many it says it inflates to.

    The latter is None where the frame does not say. None: there is no frame, or it is damaged or cut short.
    """
    return _frame(data, 0, [_block_budget(data)]) if data.head(0, 4) == magic_numbers.ZSTD else None


def _frame(data: View, at: int, budget: list[int]) -> tuple[int, int | None] | None:
    """Return the end of the frame whose magic is at ``at``, and its content's size."""
    head = data.head(at + 4, 14)
    flags = head[0] if head else 0x08
    if flags & 0x08:
        return None
    is_single = bool(flags & 0x20)
    width = (int(is_single), 2, 4, 8)[flags >> 6]
    start = 1 + (not is_single) + (0, 1, 2, 4)[flags & 3]
    size = int.from_bytes(head[start : start + width], "little") + (256 if width == 2 else 0)
    at += 4 + start + width
    budget[0] += size // _BLOCK_CONTENT
    while True:
        budget[0] -= 1
        block = int.from_bytes(data.head(at, 3), "little")
        kind = block >> 1 & 3
        if at + 3 > len(data) or kind == 3 or budget[0] < 0:
            return None
        at += 3 + (1 if kind == 1 else block >> 3)
        if block & 1:
            at += 4 if flags & 4 else 0
            return (at, size if width else None) if at <= len(data) else None


def inflates_beyond(data: View, size: int) -> bool:
    """Return whether a zlib stream inflates to more than ``size`` bytes before it ends, or turns out to be damaged."""
    return any(made > size for _, made in _zlib_steps(data))


def _measure_zlib(data: View) -> tuple[int, int | None] | None:
    return next(((end, made) for end, made in _zlib_steps(data) if end is not None), None)


def _zlib_steps(data: View) -> Iterator[tuple[int | None, int]]:
    """Yield where a stream ends, as soon as that is met, and how many bytes were inflated so far."""
    import zlib

    stream = zlib.decompressobj()
    taken = made = 0
    try:
        for piece in data.pieces():
            rest = bytes(piece)
            taken += len(rest)
            while True:
                out = stream.decompress(rest, _ZLIB_STEP)
                made += len(out)
                rest = stream.unconsumed_tail
                if not data.source.draw(data.start, made):
                    raise inflation_limit_error(data, None, format=BUNDLE_FORMAT)
                yield taken - len(stream.unused_data) if stream.eof else None, made
                if stream.eof:
                    return
                if not rest and len(out) < _ZLIB_STEP:
                    break
    except zlib.error:
        return
