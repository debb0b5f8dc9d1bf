"""Codecs: the output has exactly the expected size, or an error gives the reason."""

from __future__ import annotations

import random
import zlib

import lz4.frame
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from fatpack import codecs
from fatpack.codecs.compress import compress
from fatpack.codecs.lz4 import inflate_block_pieces
from fatpack.errors import BadValue, LimitExceeded, Unsupported, UsageError
from fatpack.io.inflated import InflatedSource
from fatpack.io.source import BytesSource, View
from fatpack.limits import Budget
from fatpack.testing.helpers import make_view


def inflate(data: bytes, method: str, expected: int) -> bytes:
    return bytes(codecs.decompress(make_view(data), method, expected, format="f"))


@given(st.binary(max_size=5000), st.sampled_from(["zlib", "zstd", "lz4"]))
def test_what_is_compressed_comes_back(data: bytes, method: str) -> None:
    packed = compress([data[:10], memoryview(data)[10:]], method, len(data))
    assert inflate(packed, method, len(data)) == data


def test_several_zstd_frames_and_skippable_ones_are_one_stream() -> None:
    frame = zstandard.compress(b"hello")
    skippable = b"\x50\x2a\x4d\x18" + (3).to_bytes(4, "little") + b"xyz"
    assert inflate(skippable + frame + frame, "zstd", 10) == b"hellohello"


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        (b"rest of the file", "damaged"),
        (b"\0", "ends early|damaged|another size"),
        (zstandard.compress(b"more"), "another size"),
        (b"\x50\x2a\x4d\x18\3\0\0\0xyz", ""),
        (zstandard.compress(b""), ""),
    ],
)
def test_what_follows_a_zstd_frame_is_another_frame(more: bytes, problem: str) -> None:
    stream = zstandard.compress(b"hello") + more
    if not problem:
        assert inflate(stream, "zstd", 5) == b"hello"
        return
    with pytest.raises(BadValue, match=problem):
        inflate(stream, "zstd", 5)


@pytest.mark.parametrize("expected", [15, None])
def test_an_empty_zstd_frame_is_not_the_end(expected: int | None) -> None:
    hello, empty = zstandard.compress(b"hello"), zstandard.compress(b"")
    stream = make_view(empty + hello + empty + empty + hello + hello + empty)
    assert codecs.decompress(stream, "zstd", expected, format="f") == b"hello" * 3
    assert codecs.inflate_beginning(stream, 7, method="zstd", format="f") == b"hellohe"


def test_a_zstd_frame_that_states_another_size_is_not_inflated_to_it() -> None:
    """The library allocates what a frame states: here a terabyte for five bytes."""
    frame = (
        b"\x28\xb5\x2f\xfd\xc0\x00" + (1 << 40).to_bytes(8, "little") + (5 << 3 | 1).to_bytes(3, "little") + b"hello"
    )
    with pytest.raises(BadValue, match=r"inflates to another size|damaged"):
        inflate(frame, "zstd", 5)


def test_bytes_after_a_zlib_stream_are_tolerated_as_llvm_does() -> None:
    assert inflate(zlib.compress(b"hello") + b"rest", "zlib", 5) == b"hello"


def test_an_lz4_frame_is_one_stream() -> None:
    data = bytes(range(256)) * 20_000
    assert inflate(lz4.frame.compress(data), "lz4-frame", len(data)) == data


def test_an_lz4_block_cannot_hold_more_than_255_times_its_size() -> None:
    """Its decoder allocates the size that the caller passes: only the block itself limits it."""
    with pytest.raises(BadValue, match="its 12 bytes cannot hold 4000000"):
        inflate(bytes(12), "lz4", 4_000_000)


def test_zstd_in_one_shot_is_what_the_library_does_in_one_call() -> None:
    data = bytes(range(251)) * 40_000
    pieces = (data[at : at + 4096] for at in range(0, len(data), 4096))
    assert compress(pieces, "zstd", len(data), 5, one_shot=True) == zstandard.ZstdCompressor(5).compress(data)


@pytest.mark.parametrize("method", ["zlib", "zstd", "lz4"])
@pytest.mark.parametrize("expected", [0, 1, 4, 6])
def test_another_length_is_refused(method: str, expected: int) -> None:
    with pytest.raises(BadValue, match=r"to another size|does not inflate to"):
        inflate(compress([b"hello"], method, 5), method, expected)


@pytest.mark.parametrize("method", ["zlib", "zstd", "lz4", "lz4-frame"])
def test_any_damage_is_a_format_error(method: str) -> None:
    data = bytes(range(200)) * 5
    is_frame = method == "lz4-frame"
    packed = lz4.frame.compress(data) if is_frame else compress([data], method, len(data))
    for at in range(len(packed)):
        for damaged in (packed[:at], packed[:at] + bytes([packed[at] ^ 0x55]) + packed[at + 1 :]):
            try:
                assert len(inflate(damaged, method, len(data))) == len(data)
            except BadValue as error:
                assert error.format == "f"


def view_with(budget: Budget, data: bytes) -> View:
    source = BytesSource(data)
    source.budget = budget
    return source.view()


@pytest.mark.parametrize("method", ["zlib", "zstd", "lz4"])
@pytest.mark.parametrize("size", [1 << 20, 64 << 20])
def test_no_proportion_is_a_limit_and_a_budget_is(method: str, size: int) -> None:
    packed = compress([bytes(1 << 20)] * (size >> 20), method, size)
    assert inflate(packed, method, size) == bytes(size)
    with pytest.raises(LimitExceeded, match="claim to inflate to"):
        codecs.decompress(view_with(Budget(inflated=size - 1), packed), method, size, format="f")
    if method != "lz4":
        with pytest.raises(BadValue, match="more than 100"):
            inflate(packed, method, 100)


@pytest.mark.parametrize("method", ["zlib", "zstd"])
def test_what_nobody_says_is_drawn_as_it_comes(method: str) -> None:
    packed = compress([bytes(1 << 20)] * 16, method, 16 << 20)
    view = view_with(Budget(inflated=4 << 20), packed)
    made = 0
    with pytest.raises(LimitExceeded, match="more than is left"):
        for piece in codecs.inflate_pieces(view, method, None, format="f"):
            made += len(piece)
    assert made <= 4 << 20


def test_what_is_inflated_again_counts_once_and_all_streams_count_together() -> None:
    size = 1 << 20
    packed = compress([bytes(size)], "zstd", size)
    view = view_with(Budget(inflated=2 * size), packed * 3)
    streams = [view.slice(number * len(packed), len(packed)) for number in range(3)]
    for stream in (streams[0], streams[1], streams[0], streams[1]):
        assert codecs.decompress(stream, "zstd", size, format="f") == bytes(size)
    with pytest.raises(LimitExceeded, match=f"claim to inflate to {size}"):
        codecs.decompress(streams[2], "zstd", size, format="f")


def test_what_is_inflated_inside_of_what_was_inflated_draws_on_the_same_account() -> None:
    size = 1 << 20
    inner = compress([bytes(size)], "zstd", size)
    source = InflatedSource(len(inner), lambda: inner, present=1, origin=view_with(Budget(inflated=size), b"").source)
    assert codecs.decompress(source.view(), "zstd", size, format="f") == bytes(size)
    assert not source.budget.is_inflatable(1)


@given(st.lists(st.tuples(st.binary(max_size=200), st.integers(0, 700), st.integers(0, 3)), max_size=30))
def test_a_large_lz4_block_comes_out_in_pieces(parts: list[tuple[bytes, int, int]]) -> None:
    data = b"".join(
        piece * (count if not kind else 1) + bytes(count * 300 * (kind == 1)) for piece, count, kind in parts
    )
    packed = compress([data], "lz4", len(data))
    assert b"".join(inflate_block_pieces(make_view(packed))) == data


def test_pieces_of_a_large_lz4_block_are_small(monkeypatch: pytest.MonkeyPatch) -> None:
    data = bytes(range(256)) * 9000 + bytes(9 << 20) + random.Random(1).randbytes(3 << 20)
    packed = compress([data], "lz4", len(data))
    monkeypatch.setattr(codecs, "LZ4_AT_ONCE", 1 << 20)
    pieces = list(codecs.inflate_pieces(make_view(packed), "lz4", len(data), format="f"))
    assert b"".join(pieces) == data
    assert len(pieces) > 10
    for at in range(0, len(packed), len(packed) // 50):
        for damaged in (packed[:at], packed[:at] + bytes([packed[at] ^ 0x55]) + packed[at + 1 :]):
            try:
                assert len(inflate(damaged, "lz4", len(data))) == len(data)
            except BadValue as error:
                assert error.format == "f"


def test_unknown_methods_and_levels_are_refused() -> None:
    with pytest.raises(Unsupported, match="lzma"):
        inflate(b"", "lzma", 0)
    for method, level in (("lzma", None), ("zlib", 10), ("zstd", 23)):
        with pytest.raises(UsageError):
            compress([b""], method, 0, level)


@pytest.mark.parametrize("method", ["zlib", "zstd", "lz4", "lz4-frame"])
@pytest.mark.parametrize("size", [0, 1, 64, 5000, 300_000])
def test_the_beginning_is_that_of_the_whole(method: str, size: int) -> None:
    data = bytes(range(256)) * 40 + bytes(200_000) + bytes(range(250)) * 10
    packed = lz4.frame.compress(data) if method == "lz4-frame" else compress([data], method, len(data))
    assert codecs.inflate_beginning(make_view(packed), size, method=method, format="f") == data[:size]


def test_a_damaged_beginning_is_a_format_error() -> None:
    for method, packed in (("zstd", bytes(40)), ("lz4", b"\x00\1\0" + bytes(40)), ("zlib", bytes(40))):
        with pytest.raises(BadValue, match=f"{method} stream is damaged"):
            codecs.inflate_beginning(make_view(packed), 64, method=method, format="f")


class CountingSource(BytesSource):
    """Bytes, and the end of what was read of them."""

    end = 0

    def read(self, offset: int, size: int) -> bytes:
        self.end = max(self.end, offset + size)
        return super().read(offset, size)


@pytest.mark.parametrize(
    ("method", "first", "largest"),
    [("zlib", 256 << 10, 256 << 10), ("zstd", 4 << 10, 128 << 10), ("lz4-frame", 1 << 20, 1 << 20)],
)
def test_pieces_have_a_largest_size(method: str, first: int, largest: int) -> None:
    data = bytes(8 << 20)
    packed = lz4.frame.compress(data) if method == "lz4-frame" else compress([data], method, len(data))
    sizes = [len(piece) for piece in codecs.inflate_pieces(make_view(packed), method, len(data), format="f")]
    assert sum(sizes) == len(data)
    assert (sizes[0], max(sizes)) == (first, largest)


@pytest.mark.parametrize(
    ("method", "size", "most"),
    # Some releases of LZ4 make one run of literals of it, whose count alone takes 8 kB.
    [("lz4", 100, 12_800), ("lz4", 5000, 640_000), ("zstd", 100, 192 << 10), ("zstd", 300_000, 512 << 10)],
)
def test_a_beginning_is_read_from_a_beginning(method: str, size: int, most: int) -> None:
    """Of megabytes that do not compress, little more is read: zstd has blocks of 128 KiB."""
    data = random.Random(4).randbytes(2 << 20)
    source = CountingSource(compress([data], method, len(data)))
    assert codecs.inflate_beginning(source.view(), size, method=method, format="f") == data[:size]
    assert size < source.end <= most


@pytest.mark.parametrize(("mebibytes", "is_whole"), [(20, True), (32, True), (33, False)])
def test_an_lz4_block_comes_as_a_whole_up_to_a_size(mebibytes: int, is_whole: bool) -> None:
    size = mebibytes << 20
    packed = compress([bytes(size)], "lz4", size, 1)
    sizes = [len(piece) for piece in codecs.inflate_pieces(make_view(packed), "lz4", size, format="f")]
    assert sum(sizes) == size
    assert (len(sizes) == 1) == is_whole
    assert is_whole or max(sizes) <= 256 << 10
