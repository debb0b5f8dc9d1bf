"""The beginning of an LZ4 block, decoded here, compared with the whole block from the library."""

from __future__ import annotations

import random

import lz4.block
import pytest

from fatpack.codecs.lz4 import LZ4BlockError, inflate_block_beginning, inflate_block_pieces
from fatpack.io.source import BytesSource

SIZES = [0, 1, 5, 15, 16, 63, 64, 65, 300, 4096]


def contents() -> list[bytes]:
    source = random.Random(7)
    words = [source.randbytes(source.randrange(1, 40)) for _ in range(30)]
    return [
        b"",
        b"a",
        bytes(5000),
        b"ab" * 900 + b"c",
        source.randbytes(600),
        b"".join(source.choice(words) for _ in range(900)),
        bytes(70) + source.randbytes(20) + bytes(300) + b"xyz" * 500,
    ]


@pytest.mark.parametrize("level", [0, 1, 9, 12])
@pytest.mark.parametrize("data", contents(), ids=range(len(contents())))
def test_it_is_the_beginning_of_the_whole(data: bytes, level: int) -> None:
    mode = {"mode": "high_compression", "compression": level} if level else {"mode": "default"}
    block = lz4.block.compress(data, store_size=False, **mode)
    assert lz4.block.decompress(block, uncompressed_size=len(data)) == data
    for size in SIZES:
        assert inflate_block_beginning(block, size) == data[:size]


def test_a_block_that_is_cut_short_gives_what_it_holds() -> None:
    data = contents()[5]
    block = lz4.block.compress(data, store_size=False)
    found = [inflate_block_beginning(block[:end], len(data)) for end in range(0, len(block), 7)]
    assert all(data.startswith(part) for part in found)
    assert [len(part) for part in found] == sorted(len(part) for part in found)
    assert inflate_block_beginning(block, len(data) + 5) == data


@pytest.mark.parametrize("block", [b"\x10a\2\0", b"\x10a\0\0", b"\x00\1\0"], ids=["before", "nowhere", "at once"])
def test_a_match_before_the_beginning_is_damage(block: bytes) -> None:
    with pytest.raises(LZ4BlockError, match="starts before"):
        inflate_block_beginning(block, 64)


def test_damage_after_what_is_asked_for_is_not_looked_at() -> None:
    for size in range(6):
        assert inflate_block_beginning(b"\x50abcde\0\0", size) == b"abcde"[:size]
    with pytest.raises(LZ4BlockError, match="starts before"):
        inflate_block_beginning(b"\x50abcde\0\0", 6)


def test_a_long_match_is_cut_at_the_size_that_is_asked_for() -> None:
    assert inflate_block_beginning(b"\x1fa\1\0" + b"\xff" * 100_000 + b"\0", 40) == b"a" * 40


def test_damage_never_raises_anything_else() -> None:
    source = random.Random(3)
    block = bytearray(lz4.block.compress(contents()[5], store_size=False))
    for _ in range(3000):
        at = source.randrange(len(block))
        damaged = bytes(block[:at]) + source.randbytes(3) + bytes(block[at + 3 :])
        try:
            assert len(inflate_block_beginning(damaged, 500)) <= 500
        except LZ4BlockError:
            pass


@pytest.mark.parametrize(
    ("distance", "count"),
    # The library takes a distance of 0 in short matches.
    [(2, 15), (2, 5000), (2, 200_000), (0xFFFF, 15), (0xFFFF, 5000), (0xFFFF, 200_000), (0, 200_000)],
)
def test_pieces_end_with_an_error_at_a_match_before_the_beginning(distance: int, count: int) -> None:
    more = b"\xff" * ((count - 15) // 255) + bytes(((count - 15) % 255,))
    block = b"\x1fa" + distance.to_bytes(2, "little") + more + b"\x10z"
    with pytest.raises(LZ4BlockError, match="starts before"):
        list(inflate_block_pieces(BytesSource(block, "x").view()))


@pytest.mark.parametrize("count", [15, 5000, 200_000])
def test_pieces_of_a_long_match_are_the_byte_before_it(count: int) -> None:
    more = b"\xff" * ((count - 15) // 255) + bytes(((count - 15) % 255,))
    block = b"\x1fa\1\0" + more + b"\x10z"
    assert b"".join(inflate_block_pieces(BytesSource(block, "x").view())) == b"a" * (count + 5) + b"z"
