"""Compressing a whole stream in bounded memory, as packages are: the same bytes on every machine."""

from __future__ import annotations

from fatpack.errors import Unsupported
from fatpack.io.source import View

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from fatpack.io.source import Piece

#: what conda's own packers take (conda-package-handling 2, ``DEFAULT_COMPRESSION_LEVEL``; bzip2 knows no higher one)
ZSTD_LEVEL, BZIP2_LEVEL = 19, 9


def compress_stream(pieces: Iterable[Piece], method: str, size: int, level: int | None = None) -> Iterator[bytes]:
    """Yield ``size`` bytes, given in pieces, as one stream: ``zstd``, ``bzip2``, or "" as they are.

    Zstandard works on all cores; how many there are decides no byte. Raises Unsupported for another method.
    """
    if method not in _METHODS:
        hint = "unpack it, slim the files, and pack them again"
        raise Unsupported(f"packages compressed with {method} are not written", hint=hint)
    yield from _METHODS[method](_parts(pieces), size, level)


def _parts(pieces: Iterable[Piece]) -> Iterator[memoryview]:
    for piece in pieces:
        if isinstance(piece, View):
            yield from piece.once()
        else:
            yield memoryview(piece)


def _plain(parts: Iterator[memoryview], _size: int, _level: int | None) -> Iterator[bytes]:
    return map(bytes, parts)


def _zstd_stream(parts: Iterator[memoryview], size: int, level: int | None) -> Iterator[bytes]:
    import zstandard

    from fatpack.concurrency.threads import thread_count

    # One worker or more make the same bytes, none makes others (zstd.h, ZSTD_c_nbWorkers).
    packer = zstandard.ZstdCompressor(level=ZSTD_LEVEL if level is None else level, threads=thread_count())
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
