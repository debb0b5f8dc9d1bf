"""The walk of docs/how-to/wrap-without-a-compiler.md: wrapped images get into a program, which registers them."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.laws.rooms import FIXTURES
from tests.reference import run, tool

from fatpack.main import main

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "how-to" / "wrap-without-a-compiler.md"
RUNTIME = ROOT / "tests" / "commands" / "wrap" / "runtime.c"


def steps(section: str) -> list[list[str]]:
    """Return the words of all commands in the section of the page with this heading."""
    (block,) = re.findall(rf"^## {section}.*?```console\n(.*?)```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    return [shlex.split(line)[1:] for line in block.splitlines()]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the images of the page, as the current one."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(FIXTURES / "kernels" / "needs.v6.gfx90a.hsaco", "gfx90a.hsaco")
    shutil.copy(FIXTURES / "kernels" / "needs.v5.gfx1100.hsaco", "gfx1100.hsaco")
    return tmp_path


def test_a_program_registers_what_was_wrapped(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    # main.o has entries and a main; the calls of a runtime's library print themselves.
    run("gcc", "-fPIC", "-c", RUNTIME, "-DIMAGE_SIZE=24", "-o", "main.o")
    run("gcc", "-shared", "-fPIC", RUNTIME, "-DIMAGE_SIZE=24", "-DNO_ENTRIES", "-Dmain=unused", "-o", "libamdhip64.so")
    for words in steps("HIP"):
        if words[0] == "fatpack":
            main(words[1:])
        else:
            subprocess.run([tool(words[0]), *words[1:]], check=True)
    shown = capfd.readouterr().out
    assert "wrapper hip v1" in shown and ".hip.fatbin_reg" in shown and "entry hip hip kernel" in shown
    environment = {**os.environ, "LD_LIBRARY_PATH": str(folder)}
    printed = subprocess.run(["./program"], capture_output=True, text=True, env=environment, check=True).stdout
    assert b"__CLANG_OFFLOAD_BUNDLE__".hex() in printed
    assert "hipRegisterFunction thing thing+1 hip kernel" in printed
    assert printed.endswith("main\ncall hipUnregisterFatBinary thing\n")


def test_wrappers_for_other_hosts_are_made(folder: Path) -> None:
    for words in steps("Windows"):
        assert main(words[1:]) == 0
    assert Path("wrapper.obj").read_bytes()[:2] == b"\x64\x86"
    assert Path("wrapper.arm.o").read_bytes()[18:20] == b"\xb7\0"
    run("llc", "-filetype=obj", "wrapper.ll", "-o", "wrapper.o")
    assert Path("wrapper.o").read_bytes()[18:20] == b"\xf3\0"
