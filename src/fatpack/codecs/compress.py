"""Compression with zlib, zstd, LZ4 and bzip2; the output equals that of the tools that own the formats."""

from __future__ import annotations

from fatpack.codecs import LZ4_BLOCK, is_no_memory
from fatpack.errors import Unsupported, UsageError
from fatpack.io.source import View

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import TypeAlias

    from fatpack.io.source import Piece

    Pieces: TypeAlias = Iterable[bytes | bytearray | memoryview]


#: LIMIT: up to this size, long-distance matching gets its input in one piece, as in LLVM: once the input is larger than
#: the window, that determines some bytes of the output. Above, memory matters more than those bytes.
_WHOLE = 64 << 20


def compress(
    pieces: Pieces,
    method: str,
    size: int,
    level: int | None = None,
    *,
    long_distance: bool = False,
    one_shot: bool = False,
) -> bytes:
    """Return ``size`` bytes, given in pieces, as one compressed stream; for LZ4, a block made by its HC compressor.

    Levels are those of the codec; the defaults are LLVM's (``llvm/lib/Support/Compression.cpp``): zlib 6, zstd 5; for
    LZ4 2, fatbinary's. ``one_shot`` passes the input to zstd in one piece of any size, which determines some bytes of
    the output if the input is larger than the window. ``long_distance`` enables zstd's long-distance matching and sets
    no other parameter but the level, as LLVM does. Raises UsageError for a level that the codec does not have, and for
    an unknown method.
    """
    if method == "zlib":
        return _zlib(pieces, 6 if level is None else level)
    if method == "zstd":
        return _zstd(pieces, size, 5 if level is None else level, long_distance=long_distance, one_shot=one_shot)
    if method == "lz4":
        return _lz4(pieces, size, 2 if level is None else level)
    raise UsageError(f"compression {method!r}", hint="choose from zlib, zstd and lz4")


def _zlib(pieces: Pieces, level: int) -> bytes:
    import zlib

    if not -1 <= level <= 9:
        raise UsageError(f"zlib level {level}", hint="zlib levels are -1 to 9")
    deflater = zlib.compressobj(level)
    return b"".join([*(deflater.compress(piece) for piece in pieces), deflater.flush()])


def _zstd(pieces: Pieces, size: int, level: int, *, long_distance: bool, one_shot: bool) -> bytes:
    import zstandard

    if not -131072 <= level <= 22:
        raise UsageError(f"zstd level {level}", hint="zstd levels are -131072 to 22")
    try:
        if long_distance:
            parameters = zstandard.ZstdCompressionParameters(compression_level=level, enable_ldm=1)
            compressor = zstandard.ZstdCompressor(compression_params=parameters)
        else:
            compressor = zstandard.ZstdCompressor(level=level)
        if one_shot or (long_distance and size <= _WHOLE):
            return compressor.compress(_joined(pieces))
        packer = compressor.compressobj(size=size)
        return b"".join([*(packer.compress(piece) for piece in pieces), packer.flush()])
    except zstandard.ZstdError as error:
        if is_no_memory(error):
            raise MemoryError(str(error)) from error
        raise


def _lz4(pieces: Pieces, size: int, level: int) -> bytes:
    import lz4.block

    if not 1 <= level <= 12:
        raise UsageError(f"LZ4 level {level}", hint="levels of LZ4's high-compression form are 1 to 12")
    if size > LZ4_BLOCK:
        raise UsageError(f"{size} bytes in one LZ4 block", hint=f"{LZ4_BLOCK} are the most; use zstd")
    options = {"mode": "high_compression", "compression": level, "store_size": False}
    return bytes(lz4.block.compress(_joined(pieces), **options))


def _joined(pieces: Pieces) -> bytearray:
    whole = bytearray()
    for piece in pieces:
        whole += piece
    return whole


# Packages: compression of a stream in bounded memory, with the same output on every machine

#: defaults of conda's packers (conda-package-handling 2, ``DEFAULT_COMPRESSION_LEVEL``; 9 is the highest of bzip2)
ZSTD_LEVEL, BZIP2_LEVEL = 19, 9


def compress_stream(
    pieces: Iterable[Piece], method: str, size: int, level: int | None = None, *, on_all_cores: bool = True
) -> Iterator[bytes]:
    """Yield ``size`` bytes, given in pieces, as one stream: ``zstd``, ``bzip2``, or "" for uncompressed.

    Zstandard runs on all cores; their number does not affect the output. Without ``on_all_cores`` it takes one, less
    time in total, and 90 MB instead of 140 and more (level 19, measured with zstd 1.5.7); the output is another one.
    Raises Unsupported for another method.
    """
    if method not in _METHODS:
        hint = "unpack it, slim the files, and pack them again"
        raise Unsupported(f"packages compressed with {method} are not written", hint=hint)
    if method == "zstd":
        yield from _zstd_stream(_parts(pieces), size, level, on_all_cores=on_all_cores)
    else:
        yield from _METHODS[method](_parts(pieces), size, level)


def _parts(pieces: Iterable[Piece]) -> Iterator[memoryview]:
    for piece in pieces:
        if isinstance(piece, View):
            yield from piece.read_once()
        else:
            yield memoryview(piece)


def _plain(parts: Iterator[memoryview], _size: int, _level: int | None) -> Iterator[bytes]:
    return map(bytes, parts)


def _zstd_stream(
    parts: Iterator[memoryview], size: int, level: int | None, *, on_all_cores: bool = True
) -> Iterator[bytes]:
    import zstandard

    from fatpack.concurrency.threads import thread_count

    # The output is the same for any number of workers except none (zstd.h, ZSTD_c_nbWorkers).
    threads = thread_count() if on_all_cores else 0
    packer = zstandard.ZstdCompressor(level=ZSTD_LEVEL if level is None else level, threads=threads)
    stream = packer.compressobj(size=size)
    for part in parts:
        yield stream.compress(part)
    yield stream.flush()


def _bzip2(parts: Iterator[memoryview], _size: int, level: int | None) -> Iterator[bytes]:
    import bz2

    stream = bz2.BZ2Compressor(BZIP2_LEVEL if level is None else level)
    for part in parts:
        yield stream.compress(part)
    yield stream.flush()


_METHODS: dict[str, Callable[[Iterator[memoryview], int, int | None], Iterator[bytes]]] = {
    "": _plain,
    "zstd": _zstd_stream,
    "bzip2": _bzip2,
}
