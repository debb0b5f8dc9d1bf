"""The stand-in against what was recorded of clang-offload-wrapper 15.

``clang_offload_wrapper_15.json`` was recorded with Debian's clang-tools-15 15.0.6: arguments, exit code, streams with
PROGRAM in the place of the tool's path, and the files that were written.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from tests.reference import run, tool

from fatpack.main import main

NAME = "clang-offload-wrapper"
#: As it was called when it was recorded: the name in front of a message is the last part.
PROGRAM = f"/PROGRAM/{NAME}"
RECORDED = json.loads(Path(__file__).with_name("clang_offload_wrapper_15.json").read_text())


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "a").write_text("first")
    (tmp_path / "b").write_text("second")
    (tmp_path / "response").write_text("-target=x86_64 -o=out.bc")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_command_lines_are_answered_as_llvm_15_does(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = {path.name for path in folder.iterdir()}
    written = 0
    for case in RECORDED:
        (folder / "a").write_text("first")  # some write over it
        (folder / "b").write_text("second")
        code = main(["tool", PROGRAM, *case["arguments"]])
        streams = capsys.readouterr()
        made = sorted({path.name for path in folder.iterdir()} - before)
        said = streams.err.replace(PROGRAM, "PROGRAM")
        assert (code, said, made) == (case["code"], case["stderr"], case["writes"]), case["arguments"]
        assert streams.out == case["stdout"], case["arguments"]
        written += len(made)
        for name in made:
            (folder / name).unlink()
    assert written > 5


@pytest.mark.reference
def test_images_are_registered_as_they_are(folder: Path) -> None:
    assert main(["tool", NAME, "-target=x86_64-pc-linux-gnu", "-o", "out.bc", "a", "b"]) == 0
    run("clang", "-c", "out.bc", "-o", "out.o")  # the name says bitcode, and clang takes text for it
    text = subprocess.run([tool("llvm-dis"), "-o", "-"], input=_assembled("out.bc"), capture_output=True, check=True)
    assert b'c"first"' in text.stdout and b'c"second"' in text.stdout
    assert b"[2 x %__tgt_device_image]" in text.stdout and b'section "omp_offloading_entries"' in text.stdout


def _assembled(name: str) -> bytes:
    return subprocess.run([tool("llvm-as"), name, "-o", "-"], capture_output=True, check=True).stdout
