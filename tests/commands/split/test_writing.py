"""Where ``split`` writes: no link or pipe is followed, nothing of a release is left behind by a failure."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.builders import releases
from tests.builders.releases import NAME

import fatpack
from fatpack import UsageError
from fatpack.commands.split import run
from fatpack.io.atomic_write import write_file
from fatpack.main import main

INDEX = "demo-1.5-variants.json"


@pytest.fixture
def fat(tmp_path: Path) -> Path:
    path = tmp_path / f"{NAME}.whl"
    path.write_bytes(releases.wheel("80 90 p90"))
    return path


@pytest.mark.parametrize("name", [f"{NAME}-sm80.whl", f"{NAME}-null.whl", f"{NAME}.whl", INDEX])
@pytest.mark.parametrize("overwrite", [False, True])
def test_a_link_is_not_followed(name: str, overwrite: bool, fat: Path, tmp_path: Path) -> None:
    out, target = tmp_path / "out", tmp_path / "target.txt"
    out.mkdir()
    target.write_text("mine")
    (out / name).symlink_to("../target.txt")
    with pytest.raises(UsageError, match="is a symbolic link"):
        fatpack.split(fat, out, overwrite=overwrite)
    assert target.read_text() == "mine"
    assert os.listdir(out) == [name]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes with names")
@pytest.mark.parametrize("name", [f"{NAME}-sm80.whl", INDEX])
@pytest.mark.parametrize("overwrite", [False, True])
def test_a_pipe_is_refused_before_anything_is_written(name: str, overwrite: bool, fat: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    os.mkfifo(out / name)
    with pytest.raises(UsageError, match="is no regular file"):
        fatpack.split(fat, out, overwrite=overwrite)
    assert os.listdir(out) == [name]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes with names")
def test_a_pipe_among_packages_to_verify_is_not_waited_for(fat: Path, tmp_path: Path) -> None:
    fatpack.split(fat, tmp_path / "out")
    os.mkfifo(tmp_path / "out" / f"{NAME}-sm75.whl")
    with pytest.raises(UsageError, match=r"-sm75\.whl is no regular file"):
        fatpack.verify_split(fat, tmp_path / "out")


def test_an_index_with_other_labels_is_found_before_anything_is_written(fat: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / INDEX).write_text("{}")
    with pytest.raises(UsageError, match="a release has one map of labels"):
        fatpack.split(fat, out)
    assert os.listdir(out) == [INDEX]


@pytest.mark.parametrize("last", [f"{NAME}.whl", INDEX])
def test_a_full_disk_leaves_no_part_of_a_release(
    last: str, fat: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write = write_file

    def full(path: str, *rest: Any, **options: Any) -> int:
        if path.endswith(last) and os.path.basename(path) == last:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        return write(path, *rest, **options)

    monkeypatch.setattr(run, "write_file", full)
    out = tmp_path / "out"
    assert main(["split", str(fat), "-d", str(out)]) == 5
    assert not out.exists()
    assert "the release was incomplete" in capsys.readouterr().err
    out.mkdir()
    (out / "notes.txt").write_text("mine")
    (out / f"{NAME}-sm80.whl").write_text("old")
    assert main(["split", str(fat), "-d", str(out), "--force"]) == 5
    assert sorted(os.listdir(out)) == [f"{NAME}-sm80.whl", "notes.txt"]
    assert "1 file may be new and the others old" in capsys.readouterr().err


def test_a_missing_file_is_named_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["split", str(tmp_path / "gone.whl")]) != 0
    text = capsys.readouterr().err
    assert "gone.whl" in text
    assert "where to write" not in text


def test_a_directory_that_is_none_is_called_so(fat: Path, tmp_path: Path) -> None:
    (tmp_path / "dangling").symlink_to("nowhere")
    for name in ("dangling", fat.name):
        with pytest.raises(UsageError, match="is no folder"):
            fatpack.split(fat, tmp_path / name)


#: A command whose workers say their numbers when they have begun a file, and then wait.
WRITING = """
import os, sys, time
import signal
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_DFL)  # whoever runs the tests may ignore them
from fatpack.concurrency import processes
from fatpack.io import atomic_write
processes.core_count = lambda: 2
processes.MIN_BYTES_FOR_WORKERS = 0
fill = atomic_write._NewFile.fill
def slow(self, fd, path):
    if processes.is_worker():
        os.write(1, b"%d\\n" % os.getpid())
        time.sleep(40)
    return fill(self, fd, path)
atomic_write._NewFile.fill = slow
from fatpack.main import main
sys.exit(main())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="nothing is forked there")
@pytest.mark.parametrize(
    ("name", "receiver", "code"),
    [
        ("SIGINT", "command", 130),
        ("SIGTERM", "command", 143),
        ("SIGTERM", "all", 143),
        ("SIGKILL", "command", -9),
        ("SIGKILL", "workers", 0),
    ],
)
def test_a_signal_leaves_no_unfinished_file_of_a_worker(
    name: str, receiver: str, code: int, fat: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    fatpack.split(fat, out)
    before = sorted(os.listdir(out))
    process = subprocess.Popen(
        [sys.executable, "-c", WRITING, "split", str(fat), "-d", str(out), "--force"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdout is not None
    workers = [int(process.stdout.readline()) for _ in range(2)]
    assert len(list(out.glob(".fatpack.*"))) == 2
    number = getattr(signal, name)
    if receiver == "all":
        os.killpg(process.pid, number)
    for one in workers if receiver == "workers" else [process.pid] if receiver == "command" else []:
        os.kill(one, number)
    process.communicate(timeout=20)  # the pipe ends when its last writer does
    assert process.returncode == code
    assert sorted(os.listdir(out)) == before
