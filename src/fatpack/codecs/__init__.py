"""Decompression with zlib, zstd and LZ4 by one interface; ``fatpack.codecs.compress`` compresses.

Libraries are imported when they are used. Every decompressor gets the expected size and stops there. Output is charged
to the budget of the command (:mod:`fatpack.limits`) before it is returned, and comes in pieces, so a size in a header
never determines how much memory is allocated.
"""

from __future__ import annotations

import sys

from fatpack import limits
from fatpack.errors import BadValue, LimitExceeded, Unsupported

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Protocol

    from fatpack.io.source import View

    class _Stream(Protocol):
        def read(self, size: int = ..., /) -> bytes: ...


#: LIMIT of LZ4: the largest block (``LZ4_MAX_INPUT_SIZE`` of lz4.h); one byte of it inflates to 255 at most.
LZ4_BLOCK = 0x7E000000
_LZ4_RATIO = 255

#: method → largest compression ratio: deflate has matches of 258 bytes in two bits (RFC 1951), zstd blocks of 128 KiB
#: in four bytes (RFC 8878)
_MOST_HELD = {"zlib": 1032, "zstd": 32768, "lz4": _LZ4_RATIO, "lz4-frame": _LZ4_RATIO}

#: Bytes fed to a decompressor at a time, and size of the pieces that zlib and LZ4 yield.
_STEP = 64 << 10
_MADE = 256 << 10

#: First and largest size of the pieces of zstd: one block, so that a damaged block does not cost those before it.
_LEAST, _PIECE = 4 << 10, 128 << 10

#: Up to this size zstd and LZ4 streams are inflated in one call; LZ4's library has no other.
_AT_ONCE = 4 << 20
LZ4_AT_ONCE = 32 << 20


def decompress(data: View, method: str, expected: int | None, *, format: str) -> bytes | bytearray:
    """Return the decompressed bytes of a whole stream, exactly ``expected`` of them.

    ``method``: ``zlib`` (RFC 1950), ``zstd`` (several frames and skippable frames are allowed), ``lz4`` (one block,
    which does not contain its size: ``expected`` is needed) or ``lz4-frame``. ``expected`` None accepts any size; for
    zstd the caller then knows that the stream is complete. Raises BadValue for a damaged stream or another size,
    LimitExceeded if the budget of the data's source is too small, Unsupported for an unknown method.
    """
    if method == "zstd" and expected is not None and expected <= _AT_ONCE:
        _refuse_too_much(data, expected, format)
        whole = _zstd_at_once(data, expected)
        if whole is not None:
            _draw(data, expected, format)
            return whole
    out: bytes | bytearray = b""
    for piece in inflate_pieces(data, method, expected, format=format):
        if not out:
            out = piece
            continue
        if isinstance(out, bytes):
            out = bytearray(out)
        out += piece
    return out


def _zstd_at_once(data: View, expected: int) -> bytes | None:
    """Return the content of a single frame; None unless it is the only one and its header states ``expected`` bytes.

    This takes half as long as the streaming interface, and holds the interpreter lock for less time.
    """
    import zstandard

    try:
        packed = data.tobytes()
        if zstandard.frame_content_size(packed) != expected:
            return None  # the library would allocate the stated size
        whole = zstandard.ZstdDecompressor(max_window_size=1 << 31).decompress(packed, allow_extra_data=False)
    except zstandard.ZstdError:
        return None  # the streaming interface reports the error with its position
    return whole if len(whole) == expected else None


def inflate_pieces(data: View, method: str, expected: int | None, *, format: str) -> Iterator[bytes]:
    """Yield the result of :func:`decompress` in pieces of about 256 KiB (LZ4: at most 32 MiB); raises the same errors.

    The first pieces of zstd are small, so that reading only the beginning inflates little more.
    """
    if expected is not None:
        _refuse_too_much(data, expected, format)
    if method not in _STREAMS:
        raise Unsupported(f"compression {method!r}", hint=f"fatpack reads {', '.join(_STREAMS)}", chain=data.chain)
    size = 0
    try:
        for piece in _STREAMS[method](data, sys.maxsize if expected is None else expected):
            size += len(piece)
            if expected is not None and size > expected:
                break
            _draw(data, size, format)
            yield piece
    except _StreamError as error:
        raise _damaged(data, method, error, format) from error.__cause__
    if expected is not None and size != expected:
        found = f"more than {expected}" if size > expected else str(size)
        raise BadValue(
            "the data inflates to another size",
            format=format,
            offset=data.offset(0),
            field="inflated size",
            expected=str(expected),
            found=found,
            chain=data.chain,
        )


def _refuse_too_much(data: View, size: int, format: str) -> None:
    """Raise LimitExceeded if the stated size of compressed data exceeds the budget."""
    if not data.source.can_charge(data.start, size):
        raise inflation_limit_error(data, size, format=format)


def _draw(data: View, size: int, format: str) -> None:
    """Charge the first ``size`` decompressed bytes to the budget. Raises LimitExceeded."""
    if not data.source.charge(data.start, size):
        raise inflation_limit_error(data, None, format=format)


def inflation_budget(data: View) -> int:
    """Return the largest size to which compressed data may inflate: the whole budget of its source."""
    return data.source.budget.inflatable


def max_inflated_size(method: str, size: int) -> int:
    """Return the largest possible decompressed size of ``size`` compressed bytes."""
    return _MOST_HELD[method] * size


def inflation_limit_error(data: View, size: int | None, *, format: str) -> LimitExceeded:
    """Return the error for data that exceeds the budget; ``size`` is its decompressed size, None if unknown."""
    most = inflation_budget(data)
    claim = f"claim to inflate to {size}" if size is not None else "inflate to more than is left"
    return LimitExceeded(
        f"{len(data)} bytes {claim}",
        format=format,
        offset=data.offset(0),
        field="inflated size",
        expected=f"at most {most} for all that a command inflates",
        hint=limits.inflated_hint(size),
        chain=data.chain,
    )


class _StreamError(Exception):
    """An error message of a codec; its exception is the cause."""


def _complaint(error: Exception) -> _StreamError:
    """Return the codec's error as a _StreamError. Raises MemoryError if it had no memory: the stream may be intact."""
    if is_no_memory(error):
        raise MemoryError(str(error)) from error
    return _StreamError(str(error).rpartition(": ")[2])


def is_no_memory(error: Exception) -> bool:
    """Return whether a codec's error means that it got no memory (``ZSTD_error_memory_allocation`` and LZ4's)."""
    return "Allocation error" in str(error) or "allocation_failed" in str(error)


def _steps(data: View) -> Iterator[memoryview]:
    for piece in data.pieces():
        for at in range(0, len(piece), _STEP):
            yield piece[at : at + _STEP]


def _inflate_zlib(data: View, _: int) -> Iterator[bytes]:
    import zlib

    stream = zlib.decompressobj()
    try:
        for piece in _steps(data):
            rest: bytes | memoryview = piece
            while True:
                made = stream.decompress(rest, _MADE)
                yield made
                rest = stream.unconsumed_tail
                if stream.eof or (not rest and len(made) < _MADE):
                    break
            if stream.eof:
                break
        yield stream.flush()
    except zlib.error as error:
        raise _StreamError(str(error).rpartition(": ")[2]) from error
    if not stream.eof:
        raise _StreamError("it ends early")
    # Bytes after the stream are ignored, as in LLVM's zlib reader.


def inflate_beginning(data: View, size: int, *, method: str = "zstd", format: str) -> bytes:
    """Return the first ``size`` decompressed bytes of a stream, fewer if it has fewer.

    For zstd the last block is inflated as a whole, 128 KiB at most; for LZ4 nothing more is. Raises BadValue for a
    damaged stream.
    """
    try:
        if method in _FRONTS:
            return _FRONTS[method](data, size)
        found = b""
        for piece in _STREAMS[method](data, size):
            found += piece
            if len(found) >= size:
                break
    except _StreamError as error:
        raise _damaged(data, method, error, format) from error.__cause__
    return found[:size]


def _damaged(data: View, method: str, error: _StreamError, format: str) -> BadValue:
    return BadValue(
        f"{method} stream is damaged: {error}",
        format=format,
        offset=data.offset(0),
        field="compressed data",
        chain=data.chain,
    )


def _front_zstd(data: View, size: int) -> bytes:
    stream, error = _zstd_stream(data)
    found = b""
    try:
        while len(found) < size and (more := stream.read(size - len(found))):
            found += more
    except error as damage:
        raise _complaint(damage) from damage
    return found


def _front_lz4(data: View, size: int) -> bytes:
    from fatpack.codecs import lz4

    window = 2 * size
    try:
        # Fewer bytes may be the end, a long run of literals, or a long count: read more to find out.
        while len(found := lz4.inflate_block_beginning(data.head(0, window), size)) < size and window < len(data):
            window *= 64
    except lz4.LZ4BlockError as error:
        raise _StreamError(str(error)) from error
    return found


class _BoundedReader:
    """The file object that zstandard reads from; the first reads are small, for readers of the beginning only."""

    def __init__(self, data: View) -> None:
        self._data = data
        self._at = 0

    def read(self, _size: int) -> bytes:
        taken = self._data.head(self._at, min(max(self._at, _LEAST), _STEP))
        self._at += len(taken)
        return taken


def _zstd_stream(data: View) -> tuple[_Stream, type[Exception]]:
    """Return a reader of decompressed zstd data, and the exception that it raises for a damaged stream."""
    import zstandard

    # A 32 KiB frame may ask for a window of 2 GiB; the library allocates it only as data arrives.
    decompressor = zstandard.ZstdDecompressor(max_window_size=1 << 31)
    return decompressor.stream_reader(_BoundedReader(data), read_across_frames=True), zstandard.ZstdError  # type: ignore[arg-type]


def _inflate_zstd(data: View, _: int) -> Iterator[bytes]:
    stream, error = _zstd_stream(data)
    try:
        size = 0
        while piece := stream.read(max(_LEAST, min(size, _PIECE))):
            yield piece
            size += len(piece)
    except error as damage:
        raise _complaint(damage) from damage


def _inflate_lz4(data: View, size: int) -> Iterator[bytes]:
    """Yield the content of an LZ4 block, at most ``size`` bytes, which are allocated after checking the ratio."""
    if size > min(LZ4_BLOCK, _LZ4_RATIO * len(data)):
        raise _StreamError(f"its {len(data)} bytes cannot hold {size}")
    if size > LZ4_AT_ONCE:
        from fatpack.codecs.lz4 import LZ4BlockError, inflate_block_pieces

        try:
            yield from inflate_block_pieces(data)
        except LZ4BlockError as error:
            raise _StreamError(str(error)) from error
        return
    import lz4.block

    try:
        yield lz4.block.decompress(data.tobytes(), uncompressed_size=size)
    except lz4.block.LZ4BlockError as error:
        raise _StreamError(f"it does not inflate to {size} bytes") from error


def _inflate_lz4_frame(data: View, _: int) -> Iterator[bytes]:
    import lz4.frame

    stream = lz4.frame.LZ4FrameDecompressor()
    try:
        for piece in _steps(data):
            yield stream.decompress(piece, max_length=1 << 20)
            while not stream.eof and not stream.needs_input:
                yield stream.decompress(b"", max_length=1 << 20)
            if stream.eof:
                break
    except RuntimeError as error:
        raise _complaint(error) from error
    if not stream.eof:
        raise _StreamError("it ends early")


#: method → generator of decompressed pieces; the caller stops it, so the limit is exceeded by at most one piece
_STREAMS: Mapping[str, Callable[[View, int], Iterator[bytes]]] = {
    "zlib": _inflate_zlib,
    "zstd": _inflate_zstd,
    "lz4": _inflate_lz4,
    "lz4-frame": _inflate_lz4_frame,
}

#: method → function for the first bytes, if it is cheaper than the stream
_FRONTS: Mapping[str, Callable[[View, int], bytes]] = {"zstd": _front_zstd, "lz4": _front_lz4}
