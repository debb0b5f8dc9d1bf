"""Writing many files at once: the same files as one by one, errors in their places, memory bounded."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
import zstandard

from fatpack.errors import FormatError, UsageError
from fatpack.io import atomic_write
from fatpack.io.atomic_write import NewFile, write_files
from fatpack.io.inflated import InflatedSource
from fatpack.io.open import open_source
from fatpack.io.source import BytesSource, View

SIZE = 1 << 20


class Peak:
    """Counts the bytes that are inflated and not written yet."""

    def __init__(self) -> None:
        self.now = self.most = self.running = self.most_running = 0
        self.lock = threading.Lock()
        #: set when two were inflated at the same time
        self.met = threading.Event()

    def change(self, size: int) -> None:
        with self.lock:
            self.now += size
            self.running += 1 if size > 0 else -1
            self.most, self.most_running = max(self.most, self.now), max(self.most_running, self.running)
            if self.running > 1:
                self.met.set()


def inflated(content: bytes, peak: Peak, delay: float = 0.002) -> View:
    """An image that uses its size in memory from inflation until it is written.

    That takes ``delay`` seconds, unless two of them have been in memory at once.
    """
    origin = BytesSource(zstandard.compress(content))

    def stream():  # type: ignore[no-untyped-def]
        peak.change(len(content))
        peak.met.wait(delay)
        yield zstandard.decompress(origin.read(0, origin.size))
        peak.change(-len(content))

    source = InflatedSource(
        len(content), lambda: next(stream()), "image", present=origin.size, origin=origin, stream=stream
    )
    return source.view()


def contents(count: int, size: int = SIZE) -> list[bytes]:
    return [bytes([number]) * (size + number) for number in range(count)]


@pytest.mark.parametrize("threads", [1, 2, 8])
def test_files_are_written_and_sizes_come_in_order(tmp_path: Path, threads: int) -> None:
    wanted = contents(20)
    files = [NewFile(str(tmp_path / f"{n}.bin"), (inflated(data, Peak()),)) for n, data in enumerate(wanted)]
    progress: list[int] = []
    with write_files(files, progress=progress.append, threads=threads) as sizes:
        assert list(sizes) == [len(data) for data in wanted]
    assert [(tmp_path / f"{n}.bin").read_bytes() for n in range(20)] == wanted
    assert sum(progress) == sum(map(len, wanted))
    assert len(list(tmp_path.iterdir())) == 20  # no temporary file is left


def test_no_more_is_inflated_at_a_time_than_allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(atomic_write, "WINDOW", 3 * SIZE + 100)
    peak = Peak()
    files = [NewFile(str(tmp_path / f"{n}"), (inflated(data, peak, 30),)) for n, data in enumerate(contents(24))]
    with write_files(files, threads=8) as sizes:
        list(sizes)
    assert SIZE < peak.most <= 3 * SIZE + 100
    assert peak.most_running > 1


def test_what_needs_more_than_the_window_is_written_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(atomic_write, "WINDOW", SIZE // 2)
    peak = Peak()
    files = [NewFile(str(tmp_path / f"{n}"), (inflated(data, peak),)) for n, data in enumerate(contents(8))]
    with write_files(files, threads=4) as sizes:
        assert len(list(sizes)) == 8
    assert peak.most_running == 1


def test_parts_of_one_inflated_whole_are_written_one_after_the_other(tmp_path: Path) -> None:
    peak, data = Peak(), bytes(range(256)) * 64 * 1024
    whole = inflated(data, peak)
    parts = [whole.slice(at, 1 << 20) for at in range(0, len(data), 1 << 20)]
    files = [NewFile(str(tmp_path / f"{n}"), (part,)) for n, part in enumerate(parts)]
    with write_files(files, threads=4) as sizes:
        assert list(sizes) == [1 << 20] * len(parts)
    assert b"".join((tmp_path / f"{n}").read_bytes() for n in range(len(parts))) == data
    assert peak.most_running == 1


@pytest.mark.parametrize("threads", [1, 4])
def test_an_error_is_raised_in_the_place_of_its_file(tmp_path: Path, threads: int) -> None:
    good = contents(6, 2 * SIZE)
    views = [inflated(data, Peak()) for data in good]
    source = InflatedSource(9, lambda: b"short", "bad", present=5, origin=BytesSource(b"packed"))
    views.insert(3, source.view())
    files = [NewFile(str(tmp_path / f"{n}"), (view,)) for n, view in enumerate(views)]
    got = []
    with write_files(files, threads=threads) as sizes:
        for _ in files:
            try:
                got.append(next(iter(sizes)))
            except FormatError:
                got.append(-1)
    assert got == [*map(len, good[:3]), -1, *map(len, good[3:])]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0", "1", "2", "4", "5", "6"]


def test_existing_files_and_inputs_are_refused_as_for_one_file(tmp_path: Path) -> None:
    (tmp_path / "old").write_bytes(b"old")
    with open_source(tmp_path / "old") as source:
        for view, force, problem in ((BytesSource(b"new").view(), False, "exists"), (source.view(), True, "an input")):
            files = [NewFile(str(tmp_path / "old"), (view,))]
            with write_files(files, force=force) as sizes, pytest.raises((OSError, UsageError), match=problem):
                list(sizes)
        with write_files(files[:0], force=True) as sizes:
            assert list(sizes) == []
        with (
            write_files([NewFile(str(tmp_path / "old"), (b"new",))], force=True, inputs=[source.view()]) as sizes,
            pytest.raises(UsageError, match="an input"),
        ):
            list(sizes)
    assert (tmp_path / "old").read_bytes() == b"old"


def test_small_work_needs_no_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading, "Thread", None)
    files = [NewFile(str(tmp_path / f"{n}"), (inflated(b"x" * 100, Peak(), 0),)) for n in range(9)]
    with write_files(files, threads=8) as sizes:
        assert list(sizes) == [100] * 9
