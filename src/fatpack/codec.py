"""Compression behind one call: zlib and zstd, imported when used.

Every decompressor is told how many bytes to expect and stops there: memory is bounded by what the caller allows
(``fatpack.io.limits``) and by what the stream really holds, never by what a header claims.
"""

from __future__ import annotations

from fatpack.errors import BadValue, LimitExceeded, Unsupported, UsageError
from fatpack.io import limits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from fatpack.io.source import View

#: A zstd frame starts with these bytes (RFC 8878, 3.1.1).
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"

#: Bytes fed to a decompressor at a time. A zlib stream grows at most 1032-fold, so one step stays below 70 MB.
_STEP = 64 << 10

#: LIMIT: up to this size long-distance matching gets its input in one piece, as LLVM gives it, which decides some
#: bytes of the output once the input is larger than the window. Above, memory counts more than those bytes.
_WHOLE = 64 << 20


def decompress(data: View, method: str, expected: int | None, *, format: str) -> bytearray:
    """Return the inflated bytes of a whole stream, exactly ``expected`` of them.

    ``method`` is ``zlib`` (RFC 1950) or ``zstd`` (several frames and skippable frames allowed). Raises BadValue for
    a damaged stream or another length, LimitExceeded when the length is out of proportion, Unsupported for an
    unknown method. With None for ``expected`` any proportionate length will do; of zstd, the caller then knows that
    the stream is complete.
    """
    most = max(limits.INFLATED_FLOOR, min(len(data), data.source.present) * limits.INFLATED_RATIO)
    most = min(limits.INFLATED_SIZE, most)
    if expected is not None and expected > most:
        raise _out_of_proportion(data, str(expected), most, format)
    streams = {"zlib": _inflate_zlib, "zstd": _inflate_zstd}
    if method not in streams:
        raise Unsupported(f"compression {method!r}", hint=f"known are {', '.join(streams)}", chain=data.chain)
    ceiling = most if expected is None else expected
    out = bytearray()
    try:
        for piece in streams[method](data):
            out += piece
            if len(out) > ceiling:
                break
    except _StreamError as error:
        raise BadValue(
            f"{method} stream is damaged: {error}",
            format=format,
            offset=data.offset(0),
            field="compressed data",
            chain=data.chain,
        ) from error.__cause__
    if expected is None and len(out) > most:
        raise _out_of_proportion(data, f"more than {most}", most, format)
    if expected is not None and len(out) != expected:
        found = f"more than {expected}" if len(out) > expected else str(len(out))
        raise BadValue(
            "the data inflates to another size",
            format=format,
            offset=data.offset(0),
            field="inflated size",
            expected=str(expected),
            found=found,
            chain=data.chain,
        )
    return out


def _out_of_proportion(data: View, size: str, most: int, format: str) -> LimitExceeded:
    return LimitExceeded(
        f"{len(data)} bytes claim to inflate to {size}",
        format=format,
        offset=data.offset(0),
        field="inflated size",
        expected=f"at most {most}",
        hint="raise fatpack.io.limits.INFLATED_SIZE and INFLATED_RATIO if you trust the file",
        chain=data.chain,
    )


class _StreamError(Exception):
    """A codec's own complaint, in words; the original is the cause."""


def _steps(data: View) -> Iterator[memoryview]:
    for piece in data.pieces():
        for at in range(0, len(piece), _STEP):
            yield piece[at : at + _STEP]


def _inflate_zlib(data: View) -> Iterator[bytes]:
    import zlib

    stream = zlib.decompressobj()
    try:
        for piece in _steps(data):
            yield stream.decompress(piece)
            if stream.eof:
                break
        yield stream.flush()
    except zlib.error as error:
        raise _StreamError(str(error).rpartition(": ")[2]) from error
    if not stream.eof:
        raise _StreamError("it ends early")
    # Bytes behind the stream are tolerated, as LLVM's zlib reader does.


def _inflate_zstd(data: View) -> Iterator[bytes]:
    import zstandard

    class Reader:
        """What zstandard reads from: the pieces of the view, joined to no more than it asks for."""

        def __init__(self) -> None:
            self._pieces = _steps(data)
            self._rest = memoryview(b"")
            self.count = 0

        def read(self, size: int = -1) -> bytes:
            if not self._rest:
                self._rest = next(self._pieces, memoryview(b""))
            taken = self._rest if size < 0 else self._rest[:size]
            self._rest = self._rest[len(taken) :]
            self.count += len(taken)
            return bytes(taken)

    # A 32 KiB frame may ask for a window of 2 GiB; the library allocates it only as data arrives.
    decompressor = zstandard.ZstdDecompressor(max_window_size=1 << 31)
    stream = decompressor.stream_reader(Reader(), read_across_frames=True)  # type: ignore[arg-type]
    try:
        yield from iter(lambda: stream.read(1 << 20), b"")
    except zstandard.ZstdError as error:
        raise _StreamError(str(error).rpartition(": ")[2]) from error


def compress(
    pieces: Iterable[bytes | bytearray | memoryview],
    method: str,
    size: int,
    level: int | None = None,
    *,
    long_distance: bool = False,
) -> bytes:
    """Return ``size`` bytes, given in pieces, as one compressed stream.

    Levels are the codec's own; the defaults are LLVM's (``llvm/lib/Support/Compression.cpp``): zlib 6, zstd 5.
    ``long_distance`` turns zstd's long-distance matching on and sets nothing but it and the level, as LLVM does.
    """
    if method == "zlib":
        import zlib

        if level is not None and not -1 <= level <= 9:
            raise UsageError(f"zlib level {level}", hint="zlib levels are -1 to 9")
        deflater = zlib.compressobj(6 if level is None else level)
        return b"".join([*(deflater.compress(piece) for piece in pieces), deflater.flush()])
    if method == "zstd":
        import zstandard

        if level is not None and not -131072 <= level <= 22:
            raise UsageError(f"zstd level {level}", hint="zstd levels are -131072 to 22")
        level = 5 if level is None else level
        if long_distance:
            parameters = zstandard.ZstdCompressionParameters(compression_level=level, enable_ldm=1)
            compressor = zstandard.ZstdCompressor(compression_params=parameters)
            if size <= _WHOLE:
                whole = bytearray()
                for piece in pieces:
                    whole += piece
                return compressor.compress(whole)
        else:
            compressor = zstandard.ZstdCompressor(level=level)
        packer = compressor.compressobj(size=size)
        return b"".join([*(packer.compress(piece) for piece in pieces), packer.flush()])
    raise UsageError(f"compression {method!r}", hint="known are zlib and zstd")
