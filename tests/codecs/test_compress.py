"""What is compressed is what the owner's library writes with the same settings, and levels are the library's."""

from __future__ import annotations

import bz2
import random
import zlib
from collections.abc import Iterator

import lz4.block
import pytest
import zstandard

from fatpack import codecs
from fatpack.codecs.compress import compress, compress_stream
from fatpack.errors import Unsupported, UsageError
from fatpack.io.source import BytesSource
from fatpack.limits import Budget


def text(size: int) -> bytes:
    source = random.Random(5)
    words = [source.randbytes(source.randrange(2, 12)) for _ in range(400)]
    made = bytearray()
    while len(made) < size:
        made += source.choice(words)
    return bytes(made[:size])


DATA = text(300_000)


def pieces() -> Iterator[bytes]:
    return (DATA[at : at + 70_000] for at in range(0, len(DATA), 70_000))


def lz4_block(level: int) -> bytes:
    return lz4.block.compress(DATA, mode="high_compression", compression=level, store_size=False)


@pytest.mark.parametrize("level", [None, -1, 1, 9])
def test_zlib_is_that_of_the_library(level: int | None) -> None:
    assert compress(pieces(), "zlib", len(DATA), level) == zlib.compress(DATA, 6 if level is None else level)


@pytest.mark.parametrize("level", [None, -131072, -5, 0, 1, 22])
def test_zstd_is_that_of_the_library(level: int | None) -> None:
    packer = zstandard.ZstdCompressor(5 if level is None else level).compressobj(size=len(DATA))
    whole = b"".join([*map(packer.compress, pieces()), packer.flush()])
    assert compress(pieces(), "zstd", len(DATA), level) == whole
    assert zstandard.frame_content_size(whole) == len(DATA)


def test_long_distance_matching_takes_its_input_in_one_piece() -> None:
    data = DATA[:40_000] + random.Random(2).randbytes(5 << 20) + DATA[:40_000]
    parameters = zstandard.ZstdCompressionParameters(compression_level=1, enable_ldm=1)
    in_pieces = (data[at : at + 70_000] for at in range(0, len(data), 70_000))
    packed = compress(in_pieces, "zstd", len(data), 1, long_distance=True)
    assert packed == zstandard.ZstdCompressor(compression_params=parameters).compress(data)
    assert len(packed) < len(compress([data], "zstd", len(data), 1)) - 10_000


@pytest.mark.parametrize(("mebibytes", "is_whole"), [(64, True), (65, False)])
def test_long_distance_matching_takes_large_input_in_pieces(mebibytes: int, is_whole: bool) -> None:
    """The library writes another frame for input in one piece: it needs no window beyond it."""
    size, piece = mebibytes << 20, bytes(1 << 20)
    parameters = zstandard.ZstdCompressionParameters(compression_level=1, enable_ldm=1)
    packer = zstandard.ZstdCompressor(compression_params=parameters).compressobj(size=size)
    in_pieces = b"".join([*(packer.compress(piece) for _ in range(mebibytes)), packer.flush()])
    packed = compress((piece for _ in range(mebibytes)), "zstd", size, 1, long_distance=True)
    assert (packed != in_pieces) == is_whole


@pytest.mark.parametrize("level", [None, 1, 12])
def test_lz4_is_that_of_the_library(level: int | None) -> None:
    assert compress(pieces(), "lz4", len(DATA), level) == lz4_block(2 if level is None else level)
    assert lz4_block(1) != lz4_block(3)


@pytest.mark.parametrize(
    ("method", "level", "advice"),
    [
        ("zlib", -2, "zlib levels are -1 to 9"),
        ("zlib", 10, "zlib levels are -1 to 9"),
        ("zstd", -131073, "zstd levels are -131072 to 22"),
        ("zstd", 23, "zstd levels are -131072 to 22"),
        ("lz4", 0, "1 to 12"),
        ("lz4", 13, "1 to 12"),
        ("lzma", None, "choose from zlib, zstd and lz4"),
    ],
)
def test_levels_that_the_library_lacks_are_refused(method: str, level: int | None, advice: str) -> None:
    with pytest.raises(UsageError, match=advice):
        compress([b""], method, 0, level)


def test_an_lz4_block_has_a_largest_size() -> None:
    assert compress([b""], "lz4", codecs.LZ4_BLOCK) == b"\0"
    with pytest.raises(UsageError, match="2113929217 bytes in one LZ4 block"):
        compress([b""], "lz4", 0x7E000000 + 1)


@pytest.mark.parametrize("level", [None, 3])
def test_streams_of_packages_are_those_of_the_libraries(level: int | None) -> None:
    views = [BytesSource(DATA[:100_000]).view(), DATA[100_000:]]
    zstd = zstandard.ZstdCompressor(level=level or 19, threads=1).compressobj(size=len(DATA))
    bzip2 = bz2.BZ2Compressor(level or 9)
    for method, packer in (("zstd", zstd), ("bzip2", bzip2)):
        expected = packer.compress(DATA) + packer.flush()
        assert b"".join(compress_stream(views, method, len(DATA), level)) == expected
    assert b"".join(compress_stream(views, "", len(DATA), level)) == DATA


def test_a_package_of_another_method_is_not_written() -> None:
    with pytest.raises(Unsupported, match="compressed with xz are not written"):
        list(compress_stream([DATA], "xz", len(DATA)))


@pytest.mark.parametrize(("method", "ratio"), [("zlib", 258 * 8 // 2), ("zstd", (128 << 10) // 4), ("lz4", 255)])
def test_nothing_inflates_to_more_than_its_format_allows(method: str, ratio: int) -> None:
    assert codecs.max_inflated_size(method, 1000) == ratio * 1000
    packed = compress([bytes(1 << 20)] * 32, method, 32 << 20)
    assert codecs.max_inflated_size(method, len(packed)) >= 32 << 20


@pytest.mark.parametrize(
    ("words", "means"),
    [
        ("zstd decompress error: Allocation error : not enough memory", True),
        ("LZ4F_decompress failed with code: ERROR_allocation_failed", True),
        ("zstd decompress error: Data corruption detected", False),
    ],
)
def test_an_error_for_want_of_memory_is_told_from_damage(words: str, means: bool) -> None:
    assert codecs.is_no_memory(zstandard.ZstdError(words)) is means


def test_the_size_that_a_view_may_inflate_to_is_the_budget_of_its_source() -> None:
    source = BytesSource(b"")
    source.budget = Budget(inflated=1234)
    assert codecs.inflation_budget(source.view()) == 1234
