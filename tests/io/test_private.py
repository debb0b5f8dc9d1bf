"""A folder that no other user can enter, and the rules for the output of a program."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from fatpack.io.temporary import PrivateFolder, size_or_problem, write_for_reading


def test_the_folder_and_its_files_are_for_their_owner_alone_and_go() -> None:
    with PrivateFolder() as private:
        path = os.path.join(private.folder("0"), "in.bc")
        write_for_reading(path, [b"some", b" bytes"])
        assert Path(path).read_bytes() == b"some bytes"
        modes = [stat.S_IMODE(os.stat(name).st_mode) for name in (private.path, os.path.dirname(path), path)]
        assert modes == [0o700, 0o700, 0o600]
        with pytest.raises(FileExistsError):
            write_for_reading(path, [b"other"])
    assert not os.path.exists(private.path)


def test_the_folder_goes_with_what_a_program_left_in_it() -> None:
    with PrivateFolder() as private:
        inner = Path(private.folder("0"), "deep", "deeper")
        inner.mkdir(parents=True)
        (inner / "file").write_bytes(b"x")
        os.symlink("/", inner / "root")
    assert not os.path.exists(private.path)
    assert os.path.exists("/")


def test_nothing_but_a_file_with_bytes_is_an_output(tmp_path: Path) -> None:
    made = {name: tmp_path / name for name in ("file", "empty", "link", "folder", "pipe", "none")}
    made["file"].write_bytes(b"12345")
    made["empty"].touch()
    made["link"].symlink_to(made["file"])
    made["folder"].mkdir()
    os.mkfifo(made["pipe"])
    found = {name: size_or_problem(str(path)) for name, path in made.items()}
    assert found.pop("file") == 5
    words = ["is empty", "is a link", "is a folder", "is a pipe", "no file with the name {out}"]
    assert [word in str(problem) for word, problem in zip(words, found.values(), strict=True)] == [True] * 5
