"""Sources that inflate while they are read: a window is kept, going back starts again, damage keeps its position."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fatpack import limits
from fatpack.errors import BadValue
from fatpack.io.inflated import StreamedSource
from fatpack.io.source import BytesSource

DATA = random.Random(2).randbytes(1000)


class Stream:
    """A stream of pieces of 10 bytes that counts its starts and the bytes taken."""

    def __init__(self, data: bytes = DATA, damage: BadValue | None = None) -> None:
        self.data, self.damage = data, damage
        self.starts = self.taken = 0

    def __call__(self) -> Iterator[bytes]:
        self.starts += 1
        for at in range(0, len(self.data), 10):
            self.taken += 1
            yield self.data[at : at + 10]
        if self.damage is not None:
            raise self.damage


def streamed(stream: Stream, size: int = len(DATA), origin: BytesSource | None = None) -> StreamedSource:
    return StreamedSource(size, stream, "z", present=1, origin=origin)


@pytest.fixture
def _in_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Inflate ahead after three pieces, with any number of cores."""
    monkeypatch.setattr("fatpack.io.inflated_buffer.thread_count", lambda: 2)
    monkeypatch.setattr("fatpack.io.inflated_buffer._ALONE", 30)
    monkeypatch.setattr("fatpack.io.inflated_buffer._AHEAD", 4)


def kept(source: StreamedSource) -> int:
    return sum(map(len, source._window._pieces)) if source._window is not None else 0


@pytest.fixture(autouse=True)
def _small_window(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "INFLATED_KEPT", 50)


@given(st.lists(st.tuples(st.integers(0, 999), st.integers(0, 300), st.booleans()), max_size=8))
def test_any_order_of_reads_gives_the_bytes(reads: list[tuple[int, int, bool]]) -> None:
    stream = Stream()
    source = streamed(stream)
    for at, most, in_pieces in reads:
        size = min(most, len(DATA) - at)
        view = source.view().slice(at, size)
        found = b"".join(view.pieces()) if in_pieces else view.tobytes()
        assert found == DATA[at : at + size]
    assert stream.starts <= 3


def test_nothing_is_inflated_before_it_is_read_and_no_more_than_is_read() -> None:
    stream = Stream()
    source = streamed(stream)
    assert stream.starts == 0
    assert source.read(0, 0) == b""
    assert source.read(3, 20) == DATA[3:23]
    assert (stream.starts, stream.taken) == (1, 3)


def test_reading_forwards_keeps_a_window() -> None:
    stream = Stream()
    source = streamed(stream)
    for at in range(0, 1000, 5):
        assert source.read(at, 5) == DATA[at : at + 5]
        assert kept(source) <= 60
    assert source.read(960, 40) == DATA[960:]
    assert stream.starts == 1
    assert b"".join(source.pieces(0, 1000)) == DATA
    assert (stream.starts, kept(source)) == (2, 50)


def test_going_back_twice_keeps_everything_in_a_file() -> None:
    stream = Stream()
    source = streamed(stream)
    for at in [900, 0] * 50:
        assert source.read(at, 1) == DATA[at : at + 1]
    assert (stream.starts, kept(source)) == (3, 0)
    assert b"".join(source.pieces(5, 900)) == DATA[5:905]
    assert stream.starts == 3
    source.release_buffers()
    assert kept(source) == 0
    assert source.read(0, 1000) == DATA


def test_the_little_that_fits_is_kept_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Stream()
    source = streamed(stream)
    for at in (900, 0, 900):
        source.read(at, 1)
    monkeypatch.setattr(limits, "INFLATED_KEPT", 1000)
    for at in [0, 900] * 5:
        assert source.read(at, 1) == DATA[at : at + 1]
    assert (stream.starts, kept(source)) == (3, 910)


@pytest.mark.parametrize("size", [990, 995, 1005, 1010])
def test_a_stream_of_another_size_is_an_error(size: int) -> None:
    source = streamed(Stream(), size)
    assert source.read(0, 980) == DATA[:980]
    with pytest.raises(BadValue, match="inflated size differs"):
        source.read(0, size)


def test_damage_is_met_where_it_is_and_not_inflated_again() -> None:
    stream = Stream(DATA[:500], BadValue("damaged"))
    source = streamed(stream)
    assert source.read(490, 10) == DATA[490:500]
    for _ in range(5):
        source.release_buffers()
        with pytest.raises(BadValue, match="damaged"):
            source.read(499, 2)
    assert stream.starts == 2  # once to read, once to reach the damage
    assert source.read(490, 10) == DATA[490:500]


def test_damage_after_the_last_byte_is_met_by_who_reads_it() -> None:
    source = streamed(Stream(DATA, BadValue("checksum")))
    for _ in range(2):
        with pytest.raises(BadValue, match="checksum"):
            source.view().tobytes()
        assert source.read(0, 999) == DATA[:999]


def test_streams_of_one_origin_share_what_may_be_kept() -> None:
    origin = BytesSource(b"stored")
    first, second = (streamed(Stream(), origin=origin) for _ in range(2))
    first.read(0, 40)
    second.read(0, 40)
    assert (kept(first), kept(second)) == (0, 40)
    assert first.read(20, 10) == DATA[20:30]


@pytest.mark.usefixtures("_in_threads")
class TestInflatingAhead:
    def test_the_bytes_are_the_same_in_any_order(self) -> None:
        stream = Stream()
        source = streamed(stream, origin=BytesSource(b""))
        for at, size in ((0, 10), (0, 500), (700, 300), (20, 30), (0, 1000), (990, 10)):
            assert source.read(at, size) == DATA[at : at + size]
        assert stream.starts <= 3

    def test_the_beginning_is_read_without_a_thread(self) -> None:
        stream = Stream()
        source = streamed(stream, origin=BytesSource(b""))
        before = threading.active_count()
        source.read(0, 30)
        assert (stream.taken, threading.active_count()) == (3, before)

    @pytest.mark.parametrize("is_closed", [False, True])
    def test_letting_go_and_closing_the_origin_end_the_thread(self, is_closed: bool) -> None:
        before = threading.active_count()
        stream, origin = Stream(), BytesSource(b"")
        source = streamed(stream, origin=origin)
        source.read(0, 50)
        if is_closed:
            origin.close()
        else:
            source.release_buffers()
        assert threading.active_count() == before
        assert stream.taken < 20

    def test_damage_is_reported_where_it_is(self) -> None:
        source = streamed(Stream(DATA[:600], BadValue("broken")), origin=BytesSource(b""))
        assert source.read(0, 600) == DATA[:600]
        for _ in range(2):
            with pytest.raises(BadValue, match="broken"):
                source.read(595, 10)
        assert source.read(590, 10) == DATA[590:600]

    def test_an_origin_that_one_thread_reads_at_a_time_is_not_read_ahead(self) -> None:
        stream = Stream()
        source = streamed(stream, origin=streamed(Stream()))  # type: ignore[arg-type]  # any source
        before = threading.active_count()
        source.read(0, 500)
        assert (stream.taken, threading.active_count()) == (50, before)
