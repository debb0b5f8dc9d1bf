"""Files assembled from parts of an old one."""

from __future__ import annotations

import struct
from mmap import mmap

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.builders import coff
from tests.objcopy import joined

from fatpack import binary, limits
from fatpack.binary.new_file import PieceList, check_filler_size
from fatpack.errors import HostError, Truncated
from fatpack.io.source import BytesSource
from fatpack.testing.helpers import TracedMemory

OLD = bytes(range(1, 101)) + bytes(10) + bytes(range(1, 91))
VIEW = BytesSource(OLD).view()


def test_neighbours_are_one_piece() -> None:
    file = PieceList(VIEW, [b"head"])
    file.copy(10, 20)
    file.put([b"", b""])
    file.copy(30, 5)
    (head, view) = file.finished()
    assert (head, view) == (b"head", VIEW.slice(10, 25))
    assert file.at == 29


def test_the_same_gap_of_zeros_in_both_is_copied_with_its_neighbours() -> None:
    file = PieceList(VIEW)
    file.copy(90, 10)
    file.fill(20)
    file.copy(110, 40)
    assert file.finished() == [VIEW.slice(90, 60)]
    file = PieceList(VIEW)
    file.copy(0, 10)
    file.fill(12)
    file.copy(12, 40)  # in the old file, the gap is not zero
    assert [len(piece) for piece in file.finished()] == [10, 2, 40]


def test_large_fillers_are_bounded_pieces() -> None:
    file = PieceList(VIEW, [b"x"])
    file.fill(1_000_001, b"\xcc")
    pieces = file.finished()
    assert max(map(len, pieces)) <= 64 << 10
    assert joined(pieces) == b"x" + b"\xcc" * 1_000_000


def test_fillers_share_their_bytes() -> None:
    file = PieceList(VIEW)
    with TracedMemory() as memory:
        for number in range(1, 1000):
            file.fill(number * 60_001)
            file.put([b"x"])
    assert memory.peak < 4 << 20


def test_far_more_filler_than_there_is_to_a_file_is_refused() -> None:
    file = PieceList(VIEW)
    file.fill(limits.FILLER)
    file.put([b"x"])
    for end in (file.at + 1, 1 << 60):
        with pytest.raises(HostError, match=r"would be put into a file of 200 bytes; .*raise fatpack.limits.FILLER"):
            file.fill(end)
    check_filler_size(2 * limits.FILLER, BytesSource(mmap(-1, limits.FILLER)).view())


def test_uninitialised_data_of_coff_objects_cannot_make_the_file_huge() -> None:
    data = coff.build([coff.Section(b".bss", b"0", 0xC0000080)])
    for size, is_fine in ((limits.FILLER, True), (0x7FFFFFFF, False)):
        data = data[:36] + struct.pack("<II", size, 0) + data[44:]
        view = BytesSource(data).view()
        if is_fine:
            assert sum(map(len, binary.get_objcopy("coff").add_sections(view, []))) > limits.FILLER
            continue
        with pytest.raises(HostError, match="would be put into a file of"):
            binary.get_objcopy("coff").add_sections(view, [])


def test_what_is_not_there_is_noticed() -> None:
    file = PieceList(VIEW)
    file.copy(190, 11)
    with pytest.raises(Truncated):
        file.finished()


COPY = st.tuples(st.integers(0, 199), st.integers(0, 60)).map(lambda pair: (pair[0], min(pair[1], 200 - pair[0])))


@given(st.lists(st.one_of(COPY, st.integers(0, 200), st.binary(max_size=5))))
def test_it_holds_what_was_added(steps: list[tuple[int, int] | int | bytes]) -> None:
    file, expected = PieceList(VIEW), b""
    for step in steps:
        if isinstance(step, tuple):
            file.copy(*step)
            expected += OLD[step[0] : sum(step)]
        elif isinstance(step, int):
            file.fill(file.at + step)
            expected += bytes(step)
        else:
            file.put([step])
            expected += step
        assert file.at == len(expected)
    assert joined(file.finished()) == expected
