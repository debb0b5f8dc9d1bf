"""The process of a command ends as it is, without taking the interpreter down: nothing may be lost by that."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from shutil import copyfile

import pytest
from tests.laws.rooms import FIXTURES

from fatpack import commands

ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}

#: As the command is started, and as a program calls it: that one is taken down as usual.
ENDING = "import sys; from fatpack.main import main; sys.exit(main())"
RETURNING = "import sys; from fatpack.main import main; sys.exit(main(sys.argv[1:]))"

OBJECT = str(FIXTURES / "cuda_fatbin" / "hosts" / "single.o")

COMMANDS = {
    "cuobjdump": ["cuobjdump", "-lelf", OBJECT],
    "llvm-readobj": ["llvm-readobj", "--offloading", "hip.o"],
    "roc-obj-ls": ["roc-obj-ls", "hip.o"],
    "fatbinary": ["fatbinary", "--help"],
    "refused": ["cuobjdump", "--nothing"],
    "missing": ["roc-obj-ls", "missing.o"],
    "inspect": ["inspect", OBJECT, "--kernels"],
    "inspect-json": ["inspect", "hip.o", "--json"],
    "inspect-missing": ["inspect", "missing.o"],
    "check": ["check", OBJECT, "--require", "sm_80"],
    "help": ["slim", "--help"],
}


def run(program: str, *words: str, redirected: str = "", **more: str) -> subprocess.CompletedProcess[str]:
    shell = f'exec "$0" -c "$1" "${{@:2}}" {redirected}'
    command = [
        "bash",
        "-c",
        shell,
        sys.executable,
        program,
        *(() if words[0] in commands.COMMANDS else ("tool",)),
        *words,
    ]
    return subprocess.run(command, env={**ENVIRONMENT, **more}, capture_output=True, text=True)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    copyfile(FIXTURES / "elf" / "clang-22-hip.o", "hip.o")
    return tmp_path


@pytest.mark.parametrize("redirected", ["", ">/dev/full", ">&-", "2>&-", "2>/dev/full", ">&- 2>&-"])
@pytest.mark.parametrize("words", COMMANDS.values(), ids=COMMANDS)
def test_what_is_written_and_the_exit_code_are_those_of_a_program_that_returns(
    words: list[str], redirected: str
) -> None:
    ended, returned = (run(program, *words, redirected=redirected) for program in (ENDING, RETURNING))
    assert (ended.returncode, ended.stdout, ended.stderr) == (returned.returncode, returned.stdout, returned.stderr)
    if redirected in (">/dev/full", ">&-") and words[-1] not in ("--nothing", "missing.o"):
        assert ended.returncode
        assert ended.stderr


def test_a_reader_that_goes_away_is_noticed() -> None:
    command = [sys.executable, "-c", ENDING, "tool", *COMMANDS["roc-obj-ls"]]
    process = subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait() == 141


def test_the_interpreter_is_not_taken_down_and_what_was_registered_for_the_end_is_done() -> None:
    program = (
        "import atexit, os, sys\n"
        "class Late:\n"
        "    def __del__(self): os.write(2, b'taken down\\n')\n"
        "late = Late()\n"
        "atexit.register(lambda: os.write(2, b'registered\\n'))\n"
    )
    assert run(program + RETURNING, *COMMANDS["roc-obj-ls"]).stderr == "registered\ntaken down\n"
    assert run(program + ENDING, *COMMANDS["roc-obj-ls"]).stderr == "registered\n"


def test_with_a_library_of_others_the_interpreter_is_taken_down(here: Path) -> None:
    (here / "other.py").touch()
    program = (
        "import os, sys\n"
        "end = os._exit\n"
        "os._exit = lambda code: (os.write(2, b'ended\\n'), end(code))\n"
        "sys.path.insert(0, '')\n"
    )
    assert run(program + ENDING, "inspect", "hip.o").stderr == "ended\n"
    assert run(f"{program}import other; {ENDING}", "inspect", "hip.o").stderr == ""


@pytest.mark.parametrize("code", [0, 3])
def test_programs_are_waited_for_and_temporary_files_are_gone(here: Path, code: int) -> None:
    """Of nvdisasm, which reads a cubin that was written for it."""
    (here / "tmp").mkdir()
    tool = here / "nvdisasm"
    tool.write_text(f'#!/bin/sh\ntest -s "$1" && sleep 0.3\necho "$1" > seen\nexit {code}\n')
    tool.chmod(0o755)
    done = run(ENDING, "cuobjdump", "-sass", OBJECT, NVDISASM_PATH=str(here), TMPDIR=str(here / "tmp"))
    assert done.returncode == code
    seen = Path((here / "seen").read_text().strip())
    assert seen.is_relative_to(here / "tmp")
    assert not list((here / "tmp").iterdir())


def test_all_children_of_a_loop_have_ended(here: Path) -> None:
    (here / "list").write_text("".join(f"{number}\n" for number in range(6)))
    words = [
        "llvm-foreach",
        "--in-file-list=list",
        "--in-replace={}",
        "--jobs=2",
        "--",
        "sh",
        "-c",
        "sleep 0.2; touch {}",
    ]
    done = run(ENDING, *words)
    assert (done.returncode, done.stderr) == (0, "")
    assert all((here / str(number)).exists() for number in range(6))


@pytest.mark.parametrize(
    "words",
    [
        ["roc-obj", "-o", "out", "hip.o"],
        ["llvm-objdump", "--offloading", "hip.o"],
        ["nvprune", "-arch", "sm_80", "-o", "y", OBJECT],
        ["extract", OBJECT, "-d", "out"],
        ["slim", OBJECT, "--for", "sm_80", "--allow-empty", "-o", "y"],
    ],
    ids=lambda words: words[0],
)
def test_files_are_whole_and_nothing_else_is_left(here: Path, words: list[str]) -> None:
    (here / "tmp").mkdir()

    def files() -> dict[str, bytes]:
        return {path.relative_to(here).as_posix(): path.read_bytes() for path in here.rglob("*") if path.is_file()}

    before = files()
    assert run(RETURNING, *words, TMPDIR=str(here / "tmp")).returncode == 0
    written = files()
    assert written.keys() > before.keys()
    for name in written.keys() - before.keys():
        (here / name).unlink()
    assert run(ENDING, *words, TMPDIR=str(here / "tmp")).returncode == 0
    assert files() == written
