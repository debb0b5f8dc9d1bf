"""Windows without Windows: POSIX's calls are removed, and files are read and written the same.

``tests/repository_tools/test_windows.py`` runs on a real Windows.
"""

from __future__ import annotations

import errno
import hashlib
import os
import threading
from pathlib import Path

import pytest
from tests.laws.rooms import FIXTURES

import fatpack
from fatpack.concurrency import system
from fatpack.io.append_in_place import append_in_place, plan_append
from fatpack.io.atomic_write import read_file_metadata, write_file
from fatpack.io.open import open_source
from fatpack.main import main

#: Functions called below src/fatpack that Windows' ``os`` does not have.
MISSING = ("copy_file_range", "fchmod", "pread", "preadv", "pwrite", "posix_spawn", "statvfs", "listxattr", "killpg")


@pytest.fixture
def without_posix(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in MISSING:
        monkeypatch.delattr(os, name)
    monkeypatch.setattr("fatpack.io.atomic_write._works", False)
    monkeypatch.setattr(system, "OPEN_FILES_LOCK_NAMES", True)
    monkeypatch.setattr(system, "NEEDED_MODE", 0o200)
    monkeypatch.setattr(system, "AT_ONCE", 0)
    monkeypatch.setattr(system, "PLAIN", 0)


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse to rename over files that this process has open, and to remove their names, like Windows."""

    def is_open(path: str) -> bool:
        return any(os.path.realpath(entry) == os.path.realpath(path) for entry in Path("/proc/self/fd").iterdir())

    replace, unlink = os.replace, os.unlink

    def replace_unless_open(source: str, target: str) -> None:
        if is_open(target) or is_open(source):
            raise PermissionError(errno.EACCES, "The process cannot access the file", target)
        replace(source, target)

    def unlink_unless_open(path: str) -> None:
        if is_open(path):
            raise PermissionError(errno.EACCES, "The process cannot access the file", path)
        unlink(path)

    monkeypatch.setattr(os, "replace", replace_unless_open)
    monkeypatch.setattr(os, "unlink", unlink_unless_open)


@pytest.mark.usefixtures("without_posix")
class TestPlaces:
    def test_reading_and_writing_leave_the_position(self, tmp_path: Path) -> None:
        fd = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
        os.write(fd, b"0123456789")
        assert system.read_at(fd, 3, 4) == b"456"
        assert system.write_at(fd, b"ab", 1) == 2
        part = bytearray(5)
        assert system.read_into(fd, memoryview(part), 8) == 2
        assert part == b"89\0\0\0"
        os.write(fd, b"end")
        assert system.read_at(fd, 20, 0) == b"0ab3456789end"
        os.close(fd)

    def test_threads_read_what_they_ask_for(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_bytes(b"".join(number.to_bytes(4, "little") for number in range(5000)))
        fd = os.open(tmp_path / "file", os.O_RDONLY)
        wrong: list[int] = []

        def read(start: int) -> None:
            for number in range(start, 5000, 4):
                if system.read_at(fd, 4, 4 * number) != number.to_bytes(4, "little"):
                    wrong.append(number)

        threads = [threading.Thread(target=read, args=(start,)) for start in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        os.close(fd)
        assert wrong == []

    def test_a_descriptor_that_cannot_seek_frees_the_others(self, tmp_path: Path) -> None:
        ours, theirs = os.pipe()
        with pytest.raises(OSError):
            system.read_at(ours, 1, 0)
        os.close(ours)
        os.close(theirs)
        (tmp_path / "file").write_bytes(b"abc")
        with open(tmp_path / "file", "rb") as file:
            assert system.read_at(file.fileno(), 1, 2) == b"c"

    def test_a_folder_that_cannot_be_opened_is_called_one(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def denied(path: str, *_: object) -> int:
            raise PermissionError(errno.EACCES, "Permission denied", path)

        monkeypatch.setattr(os, "open", denied)
        with pytest.raises(IsADirectoryError):
            system.open_to_read(str(tmp_path))
        with pytest.raises(PermissionError):
            system.open_to_read(str(tmp_path / "file"))


@pytest.mark.usefixtures("without_posix", "held")
class TestCommands:
    def test_what_is_inspected_packed_and_extracted_is_the_same(self, tmp_path: Path) -> None:
        cubin = FIXTURES / "cuda/cubin/k1.cuda13.0.sm_80.cubin"
        given = f"--image=file={cubin},triple=nvptx64-nvidia-cuda,arch=sm_80,kind=cuda"
        assert main(["pack", given, "-o", str(tmp_path / "x")]) == 0
        with fatpack.open(tmp_path / "x") as file:
            assert [str(image.target.arch) for image in file.images()] == ["sm_80"]
        assert main(["extract", str(tmp_path / "x"), "-d", str(tmp_path / "made"), "-q"]) == 0
        (made,) = (tmp_path / "made").iterdir()
        assert made.read_bytes() == cubin.read_bytes()

    @pytest.mark.parametrize("command", ["remove", "embed", "replace"])
    def test_an_edit_in_place_takes_the_name_when_the_old_file_is_closed(self, tmp_path: Path, command: str) -> None:
        given = FIXTURES / "elf/clang-22-openmp-gfx90a.o"
        host, copy = tmp_path / "host.o", tmp_path / "copy.o"
        host.write_bytes(given.read_bytes())
        more = [str(FIXTURES / "offload_binary/llvm-22-one.bin")] if command != "remove" else []
        more += ["--force"] if command == "embed" else []
        assert main([command, str(given), *more, "-o", str(copy)]) == 0
        assert main([command, str(host), *more, "--in-place"]) == 0
        assert host.read_bytes() == copy.read_bytes() != given.read_bytes()

    def test_a_file_grows_in_place(self, tmp_path: Path) -> None:
        path = tmp_path / "file"
        path.write_bytes(b"old header, old bytes")
        with open_source(path) as source:
            view = source.view()
            change = plan_append(view, [b"new", view.slice(3, len(view) - 3), b", new bytes"])
            assert change is not None
            size = append_in_place(str(path), view, change, like=read_file_metadata(path), verify=lambda _: None)
        assert path.read_bytes() == b"new header, old bytes, new bytes"
        assert size == 32

    def test_a_bulk_copy_is_whole(self, tmp_path: Path) -> None:
        (tmp_path / "in").write_bytes(data := os.urandom(3_000_001))
        with open_source(tmp_path / "in") as source:
            write_file(tmp_path / "out", [b"head", source.view()])
        assert hashlib.sha256((tmp_path / "out").read_bytes()).digest() == hashlib.sha256(b"head" + data).digest()

    def test_a_failure_leaves_nothing(self, tmp_path: Path) -> None:
        (tmp_path / "out").write_bytes(b"old")

        def refuse(_: object) -> None:
            raise ValueError("no")

        with pytest.raises(ValueError, match="no"):
            write_file(tmp_path / "out", [b"new"], force=True, verify=refuse)
        assert [path.name for path in tmp_path.iterdir()] == ["out"]
        assert (tmp_path / "out").read_bytes() == b"old"


def test_programs_are_looked_for_in_the_order_of_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for place, mode in (("a/tool", 0o644), ("b/tool-22", 0o755), ("b/tool", 0o755), ("c/tool", 0o755), ("d/tool", 0)):
        path = tmp_path / place
        path.parent.mkdir(exist_ok=True)
        path.touch(mode)
        path.chmod(mode)
    (tmp_path / "a" / "tool-22").mkdir()
    folders = [str(tmp_path / name) for name in "abcd"]
    monkeypatch.chdir(tmp_path / "c")
    monkeypatch.setenv("PATH", os.pathsep.join(["", *folders[:2], "", str(tmp_path / "none")]))
    found = [os.path.relpath(path, tmp_path) for path in system.find_programs(["tool", "tool-22"], ["", folders[2]])]
    assert found == ["c/tool", "b/tool", "b/tool-22"]
    monkeypatch.delenv("PATH")
    assert list(system.find_programs(["tool"])) == []
