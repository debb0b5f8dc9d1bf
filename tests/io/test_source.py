"""Sources and views: bounds, memory, and every kind of input."""

from __future__ import annotations

import io
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fatpack import limits
from fatpack.errors import BadValue, Truncated, UsageError
from fatpack.io.inflated import InflatedSource
from fatpack.io.open import open_source
from fatpack.io.source import READ_AHEAD, BytesSource, PiecesSource, View

DATA = bytes(range(256)) * 64


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "data"
    file.write_bytes(DATA)
    return file


def test_a_path_bytes_and_a_file_object_read_alike(path: Path) -> None:
    with path.open("rb") as file:
        for given_input in (path, str(path), DATA, bytearray(DATA), memoryview(DATA), file, io.BytesIO(DATA)):
            with open_source(given_input) as source:
                view = source.view()
                assert (len(view), view.read(5, 3), view.tobytes()) == (len(DATA), DATA[5:8], DATA)
        assert not file.closed


def test_a_pipe_is_spooled(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    writer = threading.Thread(target=lambda: fifo.write_bytes(DATA))
    writer.start()
    with open_source(fifo) as source:
        assert source.view().tobytes() == DATA
        assert source.name == str(fifo)
    writer.join()


def test_a_directory_and_a_missing_file_are_os_errors(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError, match=str(tmp_path)):
        open_source(tmp_path)
    with pytest.raises(FileNotFoundError):
        open_source(tmp_path / "none")


def test_devices_that_may_never_end_are_refused() -> None:
    with pytest.raises(UsageError, match="/dev/zero is a device"):
        open_source("/dev/zero")
    assert open_source("/dev/null").size == 0


def test_what_is_no_input_is_a_usage_error() -> None:
    with pytest.raises(TypeError, match="a path, bytes or a binary file, got int"):
        open_source(5)  # type: ignore[arg-type]


@given(st.integers(-5, 300), st.integers(-5, 300))
def test_reading_outside_a_view_is_truncated_with_the_place(at: int, size: int) -> None:
    view = View(BytesSource(DATA), 1000, 1200, ("x", ".part"))
    if at >= 0 and size >= 0 and at + size <= 200:
        assert view.read(at, size) == DATA[1000 + at : 1000 + at + size]
        assert view.slice(at, size).tobytes() == DATA[1000 + at : 1000 + at + size]
    else:
        for reading in (view.read, view.slice):
            with pytest.raises(Truncated) as caught:
                reading(at, size)
            assert (caught.value.offset, caught.value.chain) == (1000 + at, ("x", ".part"))
    if size >= 0:
        assert view.head(at, size) == (DATA[1000 + at : 1200][:size] if 0 <= at <= 200 else b"")


@given(st.lists(st.tuples(st.integers(0, len(DATA) - 1), st.integers(0, READ_AHEAD * 2)), max_size=20))
def test_read_ahead_never_shows(places: list[tuple[int, int]]) -> None:
    import tempfile

    with tempfile.TemporaryFile() as file:
        file.write(DATA)
        file.flush()
        view = open_source(file).view()
        for at, size in places:
            inside = min(size, len(DATA) - at)
            assert view.read(at, inside) == DATA[at : at + inside]


def test_find_crosses_block_borders(tmp_path: Path) -> None:
    data = bytearray(3 << 20)
    for at in (2046, 4095, (1 << 20) - 2, (2 << 20) + 5):
        data[at : at + 4] = b"MAGI"
    file = tmp_path / "x"
    file.write_bytes(data)
    for source in (open_source(file), BytesSource(bytes(data))):
        view, hits, at = source.view(), [], 0
        while (hit := view.find(b"MAGI", at)) >= 0:
            hits.append(hit)
            at = hit + 1
        assert hits == [2046, 4095, (1 << 20) - 2, (2 << 20) + 5]
        assert view.slice(0, 2049).find(b"MAGI") == -1


def test_zeros_are_skipped_up_to_the_next_byte_or_the_end(tmp_path: Path) -> None:
    places = (0, 2047, 2048, 6000, (2 << 20) + 5)
    data = bytearray(3 << 20)
    for at in places:
        data[at] = 1
    file = tmp_path / "x"
    file.write_bytes(data)
    for source in (open_source(file), BytesSource(bytes(data))):
        view = source.view()
        assert [view.skip_zeros(at) for at in places] == list(places)
        assert [view.skip_zeros(at + 1) for at in places] == [*places[1:], len(data)]
        assert view.slice(2049, 3000).skip_zeros(10) == 3000
        assert view.slice(2049, 3000).is_zero()
        assert not view.slice(2048, 3000).is_zero()


def test_pieces_of_a_file_are_read_as_they_are(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pieces of a file share one buffer, so the first is no longer there when the last was read."""
    monkeypatch.setattr(limits, "CHUNK", 1000)
    with open_source(path) as source:
        file = source.view()
        view = PiecesSource([b"before", file.slice(100, 9000), memoryview(b"between"), file.slice(0, 5000)]).view()
        wanted = b"before" + DATA[100:9100] + b"between" + DATA[:5000]
        assert (view.tobytes(), bytes(view.tobuffer()), view.read(3, 9000)) == (wanted, wanted, wanted[3:9003])


def test_a_file_that_shrinks_is_reported(path: Path) -> None:
    with open_source(path) as source:
        path.write_bytes(b"short")
        with pytest.raises(Truncated, match="file changed while reading"):
            source.view().read(8000, 4)
        with pytest.raises(Truncated, match="file changed while reading"):
            list(source.view().pieces())


def test_a_resting_file_is_reopened_and_must_be_the_same(path: Path) -> None:
    with open_source(path, may_close=True) as source:
        source.release_buffers()
        assert source.view().read(0, 2) == DATA[:2]
        source.release_buffers()
        path.unlink()
        path.write_bytes(b"another")
        with pytest.raises(BadValue, match="the file changed since it was opened: another"):
            source.view().read(9000, 2)


def test_inflated_bytes_come_once_and_must_have_the_size() -> None:
    calls = []
    source = InflatedSource(3, lambda: calls.append(1) or b"abc", "z", present=1)  # type: ignore[func-returns-value]
    assert calls == []
    assert source.view().read(1, 2) + source.view().tobytes() == b"bcabc"
    assert len(calls) == 1
    with pytest.raises(BadValue, match="inflated size differs"):
        InflatedSource(4, lambda: b"abc", present=1).view().tobytes()


def _inflated(origin: BytesSource, size: int, calls: list[int]) -> InflatedSource:
    def inflate() -> bytes:
        calls.append(size)
        return bytes(size)

    return InflatedSource(size, inflate, present=origin.size, origin=origin)


def test_inflated_bytes_are_at_hand_while_they_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "INFLATED_KEPT", 100)
    origin, calls = BytesSource(b"x"), []
    first, second = (_inflated(origin, size, calls) for size in (60, 41))
    assert origin.is_at_hand
    assert not first.is_at_hand
    first.read(0, 1)
    assert first.is_at_hand
    second.read(0, 1)
    assert (first.is_at_hand, second.is_at_hand) == (False, True)
    origin.drop_cache()
    assert not second.is_at_hand


def test_inflated_bytes_are_dropped_when_others_need_the_room_and_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "INFLATED_KEPT", 100)
    origin, calls = BytesSource(b"stored"), list[int]()
    first, second, third = (_inflated(origin, size, calls) for size in (60, 40, 41))
    for source in (first, second, first):
        source.view().tobytes()
    assert calls == [60, 40]  # both fit
    third.view().tobytes()
    second.view().tobytes()
    assert calls == [60, 40, 41]  # only the oldest was dropped
    assert first.view().tobytes() == bytes(60)
    assert calls == [60, 40, 41, 60]


def test_one_inflation_larger_than_all_that_is_kept_is_still_kept_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "INFLATED_KEPT", 10)
    origin, calls = BytesSource(b"stored"), list[int]()
    source = _inflated(origin, 50, calls)
    assert source.read(0, 1) + source.read(49, 1) == bytes(2)
    assert calls == [50]


def test_dropping_lets_go_of_what_was_inflated_inside() -> None:
    origin, calls = BytesSource(b"stored"), list[int]()
    outer = _inflated(origin, 60, calls)
    inner = InflatedSource(3, lambda: calls.append(outer.read(0, 1)[0]) or b"abc", present=1, origin=outer)  # type: ignore[func-returns-value]
    assert inner.read(0, 3) + inner.read(0, 3) == b"abcabc"
    outer.release_buffers()
    assert inner.read(0, 3) == b"abc"
    assert calls == [60, 0, 60, 0]


def test_bytes_that_were_inflated_already_are_taken_as_they_are() -> None:
    calls: list[int] = []
    source = InflatedSource(3, lambda: calls.append(1) or b"abc", present=1, data=b"abc")  # type: ignore[func-returns-value]
    assert source.view().tobytes() == b"abc"
    assert calls == []


def test_reading_once_inflates_without_keeping_anything() -> None:
    calls: list[str] = []

    def inflate() -> bytes:
        calls.append("whole")
        return b"0123456789"

    def stream() -> Iterator[bytes]:
        calls.append("stream")
        yield from (b"0123", b"456789")

    origin = BytesSource(b"packed")
    for streamed, name in ((stream, "stream"), (None, "whole")):
        calls.clear()
        source = InflatedSource(10, inflate, "i", present=6, origin=origin, stream=streamed)
        assert b"".join(source.view().read_once()) == b"0123456789"
        assert (calls, source.is_at_hand, origin._inflated) == ([name], False, None)
        assert source.read_once_size(0, 10) == 10
        assert b"".join(source.view().slice(2, 3).read_once()) == b"234"  # a part: all is kept for other parts
        assert (calls, source.is_at_hand) == ([name, "whole"], True)
        assert b"".join(source.view().read_once()) == b"0123456789"
        assert len(calls) == 2
        origin.drop_cache()
    assert InflatedSource(10, inflate, "i", present=6, stream=stream, piece_size=6).read_once_size(0, 10) == 6


@pytest.mark.parametrize("pieces", [[b"0123"], [b"0123", b"45678"], [b""]])
def test_a_stream_of_another_size_is_an_error(pieces: list[bytes]) -> None:
    source = InflatedSource(8, lambda: b"", "i", present=6, stream=lambda: iter(pieces))
    with pytest.raises(BadValue, match="inflated size differs"):
        list(source.view().read_once())


def test_which_sources_several_threads_may_read(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"packed")
    with open_source(tmp_path / "f") as plain, open_source(tmp_path / "f", may_close=True) as resting:
        for source, is_concurrent in ((plain, True), (resting, False), (BytesSource(b""), True)):
            assert source.is_concurrent is is_concurrent
            inflated = InflatedSource(1, lambda: b"1", "i", present=1, origin=source)
            assert inflated.is_concurrent is is_concurrent
            assert not InflatedSource(1, lambda: b"1", "i", present=1, origin=inflated).is_concurrent
