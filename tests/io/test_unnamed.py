"""Files without a name until they are complete: a run that is ended leaves nothing, with or without such files."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fatpack.io import atomic_write
from fatpack.io.atomic_write import write_file


@pytest.fixture(autouse=True)
def at_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reset what another test has found out about the system."""
    monkeypatch.setattr(atomic_write, "_works", bool(atomic_write._TMPFILE))


@pytest.fixture
def needed(tmp_path: Path) -> None:
    fd = atomic_write.create_unnamed(str(tmp_path / "file"), 0o600)
    if fd is None:
        pytest.skip("this file system has no files without a name")
    os.close(fd)


def seen(folder: Path, found: list[list[str]]) -> Iterator[bytes]:
    """Yield a file in two pieces, and record the contents of the folder meanwhile."""
    yield b"one, "
    found.append(os.listdir(folder))
    yield b"two"


@pytest.mark.usefixtures("needed")
def test_nothing_is_in_the_folder_before_the_file_is_complete(tmp_path: Path) -> None:
    found: list[list[str]] = []
    assert write_file(tmp_path / "file", seen(tmp_path, found)) == 8
    assert found == [[]]
    assert (tmp_path / "file").read_bytes() == b"one, two"
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.usefixtures("needed")
def test_a_run_that_is_killed_leaves_nothing(tmp_path: Path) -> None:
    program = (
        "import os, signal, sys\n"
        "from fatpack.io.atomic_write import write_file\n"
        "def pieces():\n"
        "    yield bytes(4 << 20)\n"
        "    yield b'x'\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "    yield b'y'\n"
        "write_file(sys.argv[1], pieces())\n"
    )
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path / "file")], check=False)
    assert done.returncode == -signal.SIGKILL
    assert os.listdir(tmp_path) == []


def test_a_file_that_cannot_be_named_later_goes_by_a_temporary_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link, refused = os.link, []

    def without_proc(source: str, target: str, **options: object) -> None:
        if source.startswith("/proc/"):
            refused.append(target)
            raise OSError(errno.ENOENT, os.strerror(errno.ENOENT))
        link(source, target)

    monkeypatch.setattr(os, "link", without_proc)
    for name in ("a", "b"):
        assert write_file(tmp_path / name, [b"content"], mode=0o640) == 7
        assert (tmp_path / name).read_bytes() == b"content"
        assert (tmp_path / name).stat().st_mode & 0o777 == 0o640
    assert sorted(os.listdir(tmp_path)) == ["a", "b"]
    # The result for the first file applies to the second.
    assert len(refused) <= 1


def test_a_file_system_without_them_takes_a_temporary_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = os.open

    def without(path: str, flags: int, *rest: int) -> int:
        if atomic_write._TMPFILE and flags & atomic_write._TMPFILE == atomic_write._TMPFILE:
            raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))
        return opened(path, flags, *rest)

    monkeypatch.setattr(os, "open", without)
    found: list[list[str]] = []
    write_file(tmp_path / "file", seen(tmp_path, found))
    assert [len(names) for names in found] == [1]
    assert os.listdir(tmp_path) == ["file"]


def test_a_name_that_somebody_took_meanwhile_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "file"

    def pieces() -> Iterator[bytes]:
        yield b"ours"
        path.write_bytes(b"theirs")

    for is_checked in (False, True):
        path.unlink(missing_ok=True)
        with pytest.raises(FileExistsError) as caught:
            write_file(path, pieces(), is_checked=is_checked)
        assert caught.value.filename == str(path)
        assert path.read_bytes() == b"theirs"
        assert os.listdir(tmp_path) == ["file"]
