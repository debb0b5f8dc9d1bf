"""Records that one process keeps are those that the next one reads, or none."""

from __future__ import annotations

import multiprocessing
import os
from pathlib import Path

import pytest

from fatpack.errors import UsageError
from fatpack.io import cache_folder
from fatpack.io.cache_folder import CacheFolder

KEY = bytes(range(32))


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def test_records_of_a_key_are_kept_by_name(tmp_path: Path) -> None:
    folder = CacheFolder(str(tmp_path / "kept"))
    folder.add(KEY, b"one", b"body")
    folder.add(KEY, b"two", b"")
    folder.add(KEY, b"one", b"newer")
    assert CacheFolder(folder.path).read(KEY) == {b"one": b"newer", b"two": b""}
    assert folder.read(KEY[::-1]) == {}
    folder.forget(KEY)
    folder.forget(KEY)
    assert folder.read(KEY) == {}


def test_every_change_of_a_byte_and_every_cut_is_damage(tmp_path: Path) -> None:
    folder = CacheFolder(str(tmp_path))
    folder.add(KEY, b"name", b"body" * 9)
    (path,) = _files(tmp_path)
    whole = path.read_bytes()
    for at in range(len(whole)):
        for damaged in (whole[:at], whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :]):
            path.write_bytes(damaged)
            assert folder.read(KEY) == {}
            assert not damaged or not path.exists()


def test_a_record_under_another_key_is_damage(tmp_path: Path) -> None:
    folder = CacheFolder(str(tmp_path))
    folder.add(KEY, b"name", b"body")
    (path,) = _files(tmp_path)
    path.rename(path.with_name("0" * 62))
    assert folder.read(bytes([KEY[0], *bytes(31)])) == {}


def test_a_link_in_the_place_of_a_file_is_not_followed(tmp_path: Path) -> None:
    folder = CacheFolder(str(tmp_path / "kept"))
    folder.add(KEY, b"name", b"body")
    (path,) = _files(tmp_path)
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    before = (tmp_path / "elsewhere").read_bytes()
    assert folder.read(KEY) == {}
    folder.add(KEY, b"other", b"body")
    assert (tmp_path / "elsewhere").read_bytes() == before


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes with names")
@pytest.mark.parametrize("has_reader", [False, True])
def test_a_pipe_in_place_of_a_file_is_not_waited_for(has_reader: bool, tmp_path: Path) -> None:
    folder = CacheFolder(str(tmp_path))
    folder.add(KEY, b"name", b"body")
    (path,) = _files(tmp_path)
    path.unlink()
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK) if has_reader else None
    assert folder.read(KEY) == {}
    folder.add(KEY, b"other", b"body")
    assert folder.read(KEY) == {}
    if reader is not None:
        assert os.read(reader, 1) == b""
        os.close(reader)


def test_files_used_last_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_folder, "MOST_BYTES", 256 * 4000)
    folder = CacheFolder(str(tmp_path))
    keys = [bytes([7, number, *bytes(30)]) for number in range(100)]
    for key in keys:
        folder.add(key, b"name", bytes(300))
    kept = [key for key in keys if folder.read(key)]
    assert sum(path.stat().st_size for path in _files(tmp_path)) < 4000 + 16 * 400
    assert kept
    assert kept == keys[-len(kept) :]


def test_a_file_does_not_grow_without_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_folder, "MOST_OF_FILE", 1000)
    folder = CacheFolder(str(tmp_path))
    for number in range(20):
        folder.add(KEY, b"name %d" % number, bytes(200))
    folder.add(KEY, b"large", bytes(2000))
    assert 0 < sum(path.stat().st_size for path in _files(tmp_path)) <= 1000
    assert b"name 0" in folder.read(KEY)


def _add_many(path: str, number: int) -> None:
    folder = CacheFolder(path)
    for index in range(200):
        folder.add(KEY, b"%d.%d" % (number, index), b"%d" % index * 50)


def test_processes_that_add_at_once_leave_whole_records_or_none(tmp_path: Path) -> None:
    started = [multiprocessing.Process(target=_add_many, args=(str(tmp_path), number)) for number in range(3)]
    for process in started:
        process.start()
    for process in started:
        process.join()
        assert process.exitcode == 0
    for name, body in CacheFolder(str(tmp_path)).read(KEY).items():
        assert body == name.partition(b".")[2] * 50


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(UsageError, match="Not a directory"):
        CacheFolder(str(tmp_path / "file" / "kept"))
