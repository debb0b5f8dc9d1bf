"""Pieces of every kind are written in order, by every way of copying."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from fatpack.io import write
from fatpack.io.atomic_write import NewFolder, write_file
from fatpack.io.open import open_source
from fatpack.io.source import BytesSource
from fatpack.io.write import write_pieces

BULK = os.urandom(300_000)


def test_pieces_of_every_kind_are_joined_in_order(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(BULK)
    with open_source(tmp_path / "in") as source:
        bulk, small = source.view().slice(10, 100_000), BytesSource(b"d").view()
        pieces = [b"a", bulk, bytearray(b"b"), memoryview(b"c"), small, b""]
        size = write_file(tmp_path / "out", pieces)
    expected = b"a" + BULK[10:100_010] + b"bcd"
    assert (tmp_path / "out").read_bytes() == expected
    assert size == len(expected)


@pytest.mark.parametrize("is_missing", [False, True])
@pytest.mark.parametrize(("head", "start"), [(0, 0), (1, 0), (0, 1), (4096, 8192), (5, 5)])
def test_every_way_of_copying_gives_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_missing: bool, head: int, start: int
) -> None:
    if is_missing:
        monkeypatch.delattr(os, "copy_file_range", raising=False)
    (tmp_path / "in").write_bytes(BULK)
    with open_source(tmp_path / "in") as source:
        view = source.view()
        write_file(tmp_path / "out", [bytes(head), view.slice(start, len(view) - start)])
    assert (tmp_path / "out").read_bytes() == bytes(head) + BULK[start:]


def test_a_kernel_that_refuses_is_worked_around(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise OSError(errno.EXDEV, "no")

    monkeypatch.setattr(os, "copy_file_range", refuse, raising=False)
    (tmp_path / "in").write_bytes(BULK)
    with open_source(tmp_path / "in") as source:
        write_file(tmp_path / "out", [source.view()])
    assert (tmp_path / "out").read_bytes() == BULK


def test_progress_counts_every_byte(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(BULK)
    seen: list[int] = []
    with open_source(tmp_path / "in") as source:
        size = write_file(tmp_path / "out", [b"abc", source.view(), BytesSource(b"xyz").view()], progress=seen.append)
    assert sum(seen) == size == len(BULK) + 6


def test_many_small_pieces_are_few_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    real = os.write
    monkeypatch.setattr(write.os, "write", lambda fd, data: calls.append(len(data)) or real(fd, data))
    with (tmp_path / "out").open("wb") as file:
        assert write_pieces(file.fileno(), [b"x"] * 10_000) == 10_000
    assert len(calls) == 1


def test_a_folder_that_stays_empty_is_removed_by_who_made_it(tmp_path: Path) -> None:
    def stopped(path: Path, name: str = "") -> list[str]:
        with pytest.raises(KeyboardInterrupt), NewFolder(str(path)):
            assert path.is_dir()
            if name:
                (path / name).touch()
            raise KeyboardInterrupt
        return sorted(found.relative_to(tmp_path).as_posix() for found in tmp_path.rglob("*"))

    assert stopped(tmp_path / "a" / "b") == []
    (tmp_path / "there").mkdir()
    assert stopped(tmp_path / "there") == stopped(tmp_path / "there" / "c") == ["there"]
    assert stopped(tmp_path / "a" / "b", "x") == ["a", "a/b", "a/b/x", "there"]
    with NewFolder(str(tmp_path / "made")):
        pass
    assert (tmp_path / "made").is_dir()
