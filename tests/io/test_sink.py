"""Output is whole or absent, and no other file is changed."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

from fatpack.errors import UsageError
from fatpack.io.atomic_write import write_file
from fatpack.io.open import open_source
from fatpack.io.source import View

BULK = os.urandom(300_000)


def leftovers(folder: Path) -> list[str]:
    return sorted(name for name in os.listdir(folder) if name.startswith("."))


def test_an_existing_file_is_refused_and_force_replaces_it_with_its_mode(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.write_bytes(b"old")
    out.chmod(0o750)
    with pytest.raises(FileExistsError):
        write_file(out, [b"new"])
    assert out.read_bytes() == b"old"
    write_file(out, [b"new"], force=True)
    assert out.read_bytes() == b"new"
    assert stat.S_IMODE(out.stat().st_mode) == 0o750


def test_a_new_file_gets_the_mode_of_the_umask_or_the_one_asked_for(tmp_path: Path) -> None:
    old = os.umask(0o027)
    try:
        write_file(tmp_path / "a", [b""])
        write_file(tmp_path / "b", [b""], mode=0o755)
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o640
    assert stat.S_IMODE((tmp_path / "b").stat().st_mode) == 0o755


@pytest.mark.parametrize("force", [False, True])
def test_a_failure_leaves_nothing_after_and_the_old_file_alone(tmp_path: Path, force: bool) -> None:
    out = tmp_path / "out"
    if force:
        out.write_bytes(b"old")

    def pieces() -> object:
        yield b"half"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_file(out, pieces(), force=force)  # type: ignore[arg-type]
    assert os.listdir(tmp_path) == (["out"] if force else [])
    assert not force or out.read_bytes() == b"old"


def test_a_full_disk_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="No space left") as caught:
        write_file(tmp_path / "out", [b"x"])
    assert caught.value.errno == errno.ENOSPC
    assert os.listdir(tmp_path) == []


def test_what_verification_refuses_gets_no_name(tmp_path: Path) -> None:
    def refuse(view: View) -> None:
        assert view.tobytes() == b"content"
        raise UsageError("no good")

    with pytest.raises(UsageError):
        write_file(tmp_path / "out", [b"content"], verify=refuse)
    assert os.listdir(tmp_path) == []


def test_an_input_is_not_overwritten_by_its_own_command(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(BULK)
    with open_source(tmp_path / "in") as source:
        with pytest.raises(UsageError, match="is an input"):
            write_file(tmp_path / "in", [source.view()], inputs=[source.view()])
        with pytest.raises(UsageError, match="is an input"):
            write_file(tmp_path / "in", [source.view()], inputs=[source.view()], force=True)
        # In place the old bytes are read while the new file is written, and replaced at the end.
        write_file(tmp_path / "in", [b"head", source.view()], force=True)
    assert (tmp_path / "in").read_bytes() == b"head" + BULK


def test_a_symbolic_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"old")
    (tmp_path / "link").symlink_to("real")
    write_file(tmp_path / "link", [b"new"], force=True)
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == b"new"


def test_a_dangling_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("elsewhere")
    for force in (False, True):
        with pytest.raises(UsageError, match="is a link to nothing"):
            write_file(tmp_path / "link", [b"new"], force=force)
    assert not (tmp_path / "elsewhere").exists()


def test_devices_are_written_to_not_replaced(tmp_path: Path) -> None:
    assert write_file("/dev/null", [b"x"], force=True) == 1
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


def test_a_directory_and_a_missing_directory_are_named(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError, match=str(tmp_path)):
        write_file(tmp_path, [b""], force=True)
    with pytest.raises(FileNotFoundError) as caught:
        write_file(tmp_path / "none" / "out", [b""])
    assert caught.value.filename == str(tmp_path / "none" / "out")
