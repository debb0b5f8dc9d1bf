"""Sections laid down again: order, alignment, what must not move, and what belongs to nobody."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fatpack.commands.slim.linked import PlacedContainer, compact_section
from fatpack.io.source import BytesSource, View
from fatpack.testing.helpers import join_pieces

ADDRESS = 0x5010


def section(data: bytes) -> View:
    return BytesSource(data, "section").view()


def test_containers_follow_each_other_from_the_start() -> None:
    laid = compact_section(
        section(bytes(100)), ADDRESS, [PlacedContainer(0, 40, [b"A" * 12], 8), PlacedContainer(40, 96, [b"B" * 56], 8)]
    )
    assert join_pieces(laid.pieces) == b"A" * 12 + bytes(4) + b"B" * 56
    assert [(move.old, move.old_size, move.new, move.new_size) for move in laid.moves] == [
        (ADDRESS, 40, ADDRESS, 12),
        (ADDRESS + 40, 56, ADDRESS + 16, 56),
    ]


def test_an_address_and_no_offset_is_aligned() -> None:
    blocks = [PlacedContainer(0, 16, [b"A" * 16], 8), PlacedContainer(0xFF0, 0x2000, [b"B"], 4096)]
    laid = compact_section(section(bytes(0x3000)), ADDRESS, blocks)
    assert [move.new for move in laid.moves] == [0x6000]
    assert join_pieces(laid.pieces)[0xFF0:] == b"B"


def test_what_is_fixed_stays_and_what_is_after_it_comes_closer() -> None:
    blocks = [
        PlacedContainer(0, 32, [b"A"], 8),
        PlacedContainer(32, 64, [b"F" * 4], 8, is_fixed=True),
        PlacedContainer(64, 96, [b"C" * 32], 8),
    ]
    data = join_pieces(compact_section(section(bytes(96)), ADDRESS, blocks).pieces)
    assert data == b"A" + bytes(31) + b"FFFF" + bytes(4) + b"C" * 32


def test_bytes_between_containers_stay_where_they_are() -> None:
    data = bytearray(100)
    data[44:48] = b"what"
    data[90:92] = b"is"
    laid = compact_section(
        section(bytes(data)), ADDRESS, [PlacedContainer(0, 40, [b"A"], 8), PlacedContainer(56, 80, [b"B" * 24], 8)]
    )
    after = join_pieces(laid.pieces)
    assert laid.strays == [(44, 48), (90, 92)]
    assert (after[44:48], after[90:92]) == (b"what", b"is")
    assert after[48:72] == b"B" * 24


@given(st.data())
def test_nothing_overlaps_nothing_grows_and_nothing_comes_to_a_higher_address(data: st.DataObject) -> None:
    blocks, at = [], 0
    for number in range(data.draw(st.integers(1, 8))):
        start = -(-(at + data.draw(st.integers(0, 40))) // 8) * 8
        size = data.draw(st.integers(1, 60))
        new = bytes([65 + number]) * data.draw(st.integers(1, size))
        align = data.draw(st.sampled_from([1, 2, 4, 8]))
        blocks.append(PlacedContainer(start, start + size, [new], align, is_fixed=data.draw(st.booleans())))
        at = start + size
    whole = section(bytes(at + data.draw(st.integers(0, 20))))
    laid = compact_section(whole, 0x1000, blocks)
    after = join_pieces(laid.pieces)
    assert len(after) <= len(whole)
    moves = {move.old: move for move in laid.moves}
    reached = 0
    for block in blocks:
        move = moves.get(0x1000 + block.start)
        place = (move.new if move else 0x1000 + block.start) - 0x1000
        assert reached <= place <= block.start
        assert after[place : place + block.size] == join_pieces(block.pieces)
        assert place % block.align == 0
        assert place == block.start or not block.is_fixed
        reached = place + block.size
