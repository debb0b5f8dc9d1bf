"""Codecs: what comes out is exactly what was promised, or an error says why."""

from __future__ import annotations

import zlib

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from tests.laws.rooms import view_of

from fatpack import codec
from fatpack.errors import BadValue, LimitExceeded, Unsupported, UsageError
from fatpack.io import limits


def inflate(data: bytes, method: str, expected: int) -> bytes:
    return bytes(codec.decompress(view_of(data), method, expected, format="f"))


@given(st.binary(max_size=5000), st.sampled_from(["zlib", "zstd"]))
def test_what_is_compressed_comes_back(data: bytes, method: str) -> None:
    packed = codec.compress([data[:10], memoryview(data)[10:]], method, len(data))
    assert inflate(packed, method, len(data)) == data


def test_several_zstd_frames_and_skippable_ones_are_one_stream() -> None:
    frame = zstandard.compress(b"hello")
    skippable = b"\x50\x2a\x4d\x18" + (3).to_bytes(4, "little") + b"xyz"
    assert inflate(skippable + frame + frame, "zstd", 10) == b"hellohello"


def test_bytes_after_a_zlib_stream_are_tolerated_as_llvm_does() -> None:
    assert inflate(zlib.compress(b"hello") + b"rest", "zlib", 5) == b"hello"


@pytest.mark.parametrize("method", ["zlib", "zstd"])
@pytest.mark.parametrize("expected", [0, 4, 6])
def test_another_length_is_refused(method: str, expected: int) -> None:
    with pytest.raises(BadValue, match="inflates to another size"):
        inflate(codec.compress([b"hello"], method, 5), method, expected)


@pytest.mark.parametrize("method", ["zlib", "zstd"])
def test_any_damage_is_a_format_error(method: str) -> None:
    data = bytes(range(200)) * 5
    packed = codec.compress([data], method, len(data))
    for at in range(len(packed)):
        for damaged in (packed[:at], packed[:at] + bytes([packed[at] ^ 0x55]) + packed[at + 1 :]):
            try:
                assert len(inflate(damaged, method, len(data))) == len(data)
            except BadValue as error:
                assert error.format == "f"


@pytest.mark.parametrize("method", ["zlib", "zstd"])
def test_a_bomb_is_refused_before_it_goes_off(method: str) -> None:
    packed = codec.compress([bytes(1 << 20)] * 64, method, 64 << 20)
    with pytest.raises(LimitExceeded, match="claim to inflate to"):
        inflate(packed, method, 64 << 20)
    with pytest.raises(BadValue, match="more than 100"):
        inflate(packed, method, 100)


def test_something_compressed_in_something_compressed_counts_the_outer_bytes() -> None:
    from fatpack.io.source import BytesSource

    inner = BytesSource(bytes(10 << 20), present=100).view()
    with pytest.raises(LimitExceeded):
        codec.decompress(inner, "zlib", limits.INFLATED_FLOOR + 1, format="f")


def test_unknown_methods_and_levels_are_refused() -> None:
    with pytest.raises(Unsupported, match="lzma"):
        inflate(b"", "lzma", 0)
    for method, level in (("lzma", None), ("zlib", 10), ("zstd", 23)):
        with pytest.raises(UsageError):
            codec.compress([b""], method, 0, level)
