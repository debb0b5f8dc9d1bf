"""Every system call of a command fails, is cut short, or is its last: then the old or the new file is there, whole."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.laws.rooms import FIXTURES

from fatpack.errors import FormatError
from fatpack.io.open import open_source
from fatpack.main import main

#: The command line; every host counts as a large one, so that an edit in place grows it.
MAIN = """
import sys
from fatpack.edit import editor
editor.GROWS_FROM = 0
from fatpack.main import main
sys.exit(main())
"""

WRITING = ("write", "pwrite", "pwrite64", "copy_file_range")
READING = ("read", "pread", "pread64", "preadv", "preadv64")

#: call → its possible errors
ERRORS = {
    **dict.fromkeys(WRITING, (errno.ENOSPC, errno.EIO, errno.EINTR)),
    **dict.fromkeys(READING, (errno.EIO, errno.EINTR)),
    **dict.fromkeys(("open", "open64", "mkdir"), (errno.ENOSPC, errno.EIO)),
    **dict.fromkeys(("rename", "link", "linkat"), (errno.EXDEV, errno.EIO)),
    "copy_file_range": (errno.EXDEV, errno.ENOSPC, errno.EIO),
}

Files = dict[str, bytes]


class Case(NamedTuple):
    """A command, and the files that it writes."""

    arguments: list[str]
    outputs: list[str]


IMAGE = "--image=file=k.ptx,triple=nvptx64-nvidia-cuda,arch=sm_80,kind=cuda"
CASES = {
    "new": Case(["pack", IMAGE, "-o", "new.bin"], ["new.bin"]),
    "replace": Case(["pack", IMAGE, "-o", "old.bin", "--force"], ["old.bin"]),
    "grow": Case(["embed", "host.o", "pkg.bin", "--in-place"], ["host.o"]),
    "in-place": Case(["remove", "pkg.bin", "--container=0", "--arch=!x", "--in-place"], ["pkg.bin"]),
    "extract": Case(
        ["extract", "pkg.bin", "--containers", "-d", "out", "--force"], ["out/pkg.0.offload", "out/pkg.1.offload"]
    ),
    "batch": Case(
        [
            *["tool", "clang-offload-bundler", "-type=o", "-unbundle", "-allow-missing-bundles"],
            *["-targets=hip-amdgcn-amd-amdhsa--gfx90a,host-x86_64-unknown-linux-gnu-"],
            *["-input=zstd.bundle", "-output=a", "-output=b"],
        ],
        ["a", "b"],
    ),
}


@pytest.fixture(scope="module")
def preload(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None or not sys.platform.startswith("linux"):
        pytest.skip("needs a C compiler, and Linux")
    library = tmp_path_factory.mktemp("faults") / "faults.so"
    source = Path(__file__).with_name("faults.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
    return library


def prepared(folder: Path) -> Path:
    """Return a new folder with the inputs, and old outputs."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "out").mkdir(parents=True)
    for source, name in (
        ("cuda/ptx/k1.compute_80.ptx", "k.ptx"),
        ("demo/host.o", "host.o"),
        ("offload_binary/llvm-22-four.bin", "pkg.bin"),
        ("clang_bundle/llvm-22-v3-zstd.bundle", "zstd.bundle"),
    ):
        shutil.copy(FIXTURES / source, folder / name)
    for name in ("old.bin", "a", *CASES["extract"].outputs):
        (folder / name).write_bytes(b"old")
    return folder


def contents(folder: Path, case: Case) -> list[bytes | None]:
    return [(folder / name).read_bytes() if (folder / name).exists() else None for name in case.outputs]


def run(folder: Path, case: Case, preload: Path, **fault: object) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "PYTHONDONTWRITEBYTECODE": "1",
        "LD_PRELOAD": str(preload),
        "FAULT_FOLDER": str(folder),
        **{f"FAULT_{key.upper()}": str(value) for key, value in fault.items()},
    }
    command = [sys.executable, "-c", MAIN, *case.arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60)


def faults(calls: list[str]) -> Iterator[tuple[int, dict[str, object]]]:
    """Yield the number of a call with its fault."""
    for number, name in enumerate(calls):
        for error in ERRORS.get(name, (errno.EIO,)):
            yield number, {"errno": error}
        for kind in ("kill", "after", *(["short"] if name in (*WRITING, *READING) else [])):
            yield number, {"kind": kind}


def slow(*names: str) -> list[object]:
    return [pytest.param(name, marks=pytest.mark.slow) for name in names]


@pytest.mark.parametrize("name", ["replace", "grow", *slow("new", "in-place", "extract", "batch")])
def test_whatever_a_call_does_the_old_file_or_the_new_one_is_there(tmp_path: Path, preload: Path, name: str) -> None:
    case, folder = CASES[name], tmp_path / "work"
    prepared(folder)
    old = contents(folder, case)
    log = tmp_path / "calls"
    whole = run(folder, case, preload, log=log)
    assert whole.returncode == 0, whole.stderr
    new = contents(folder, case)
    assert None not in new
    assert new != old
    calls = log.read_text().splitlines()
    assert {"open", "open64"} & set(calls)
    assert {*WRITING} & set(calls)
    assert {"rename", "link", "linkat", "fsync"} & set(calls)
    failures = 0
    for number, fault in faults(calls):
        prepared(folder)
        done = run(folder, case, preload, at=number, **fault)
        what = f"{calls[number]} (call {number}) with {fault}: exit code {done.returncode}\n{done.stderr}"
        for found, before, after in zip(contents(folder, case), old, new, strict=True):
            is_tail = name == "grow" and done.returncode < 0 and found is not None and found.startswith(before or b"")
            assert found in (before, after) or is_tail, what
        left = [entry for entry in os.listdir(folder) + os.listdir(folder / "out") if entry.startswith(".fatpack")]
        if fault.get("kind") in ("kill", "after"):
            assert done.returncode == -9, what
            assert len(left) <= len(case.outputs), what
            continue
        assert "Traceback" not in done.stderr, what
        assert not left or calls[number] == "unlink", what
        failures += done.returncode != 0
        if done.returncode == 0:
            assert contents(folder, case) == new, what
        elif name != "batch":  # with the words of its original
            assert done.returncode == 5, what
            assert done.stderr.count("\n") == 1, what
    assert failures > 5


@pytest.mark.parametrize("change", ["shrinks", "is emptied"])
def test_a_file_that_shrinks_while_it_is_read_is_an_error(tmp_path: Path, change: str) -> None:
    path = tmp_path / "f"
    path.write_bytes(os.urandom(300_000))
    with open_source(path) as source:
        view = source.view()
        view.read(0, 100)
        os.truncate(path, 200_000 if change == "shrinks" else 0)
        with pytest.raises(FormatError, match="file changed while reading"):
            view.tobytes()
        with pytest.raises(FormatError, match="file changed while reading"):
            list(view.pieces())
        with pytest.raises(FormatError, match="file changed while reading"):
            view.read(299_990, 10)


def test_a_file_that_grows_is_read_as_it_was_opened(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"x" * 100_000)
    with open_source(path) as source:
        with path.open("ab") as file:
            file.write(b"y" * 100_000)
        assert source.view().tobytes() == b"x" * 100_000
        assert source.view().head(99_990, 100) == b"x" * 10


def test_a_file_that_is_replaced_is_read_as_it_was_opened(tmp_path: Path) -> None:
    path, other = tmp_path / "f", tmp_path / "g"
    path.write_bytes(b"x" * 100_000)
    other.write_bytes(b"y" * 100_000)
    with open_source(path) as source:
        os.replace(other, path)
        assert source.view().tobytes() == b"x" * 100_000
    # A file that is closed between uses would be another one when it is opened again.
    other.write_bytes(b"z" * 100_000)
    with open_source(path, may_close=True) as source:
        assert source.view().read(0, 1) == b"y"
        source.release_buffers()
        os.replace(other, path)
        with pytest.raises(FormatError, match="the file changed since it was opened"):
            source.view().read(0, 1)


def test_a_file_that_shrinks_while_it_is_packed_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "f"
    path.write_bytes(os.urandom(300_000))
    from fatpack.io import write

    real = write._copy_range

    def shrinking(*arguments: object) -> None:
        os.truncate(path, 100_000)
        real(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(write, "_copy_range", shrinking)
    assert main(["pack", f"--image=file={path},triple=t", "-o", str(tmp_path / "out")]) == 3
    assert "file changed while reading" in capfd.readouterr().err
    assert os.listdir(tmp_path) == ["f"]
