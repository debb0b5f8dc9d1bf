"""What a press of TAB costs, counted in instructions: times would be those of the machine."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from tests.reference import tool

pytestmark = pytest.mark.reference

#: bare interpreter starts that words may cost; what a command imports to declare its options comes on top for some
MOST = 2.5

ASK = "import sys; sys.argv[0] = 'fatpack'; from fatpack.cli import main; sys.exit(main())"


def instructions(*words: str, asks: bool = False) -> int:
    command = [tool("valgrind"), "--tool=callgrind", "--callgrind-out-file=/dev/null", sys.executable, *words]
    environment = {"_FATPACK_COMPLETE": "zsh", "PYTHONPATH": ":".join(filter(None, sys.path))} if asks else {}
    subprocess.run(command[3:], capture_output=True, env=environment, check=True)  # modules are compiled once
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    assert bool(done.stdout) is asks
    return int(re.findall(r"refs: +([0-9,]+)", done.stderr)[0].replace(",", ""))


def test_words_come_quickly() -> None:
    bare = instructions("-I", "-c", "pass")
    for line in (
        ["inspect", "--"],
        ["tool", "clang-offload-bundler", "--un"],
        ["targets", "gfx9"],
    ):
        taken = instructions("-c", ASK, *line, asks=True)
        assert taken <= MOST * bare, f"{line}: {taken / bare:.2f} bare starts"
