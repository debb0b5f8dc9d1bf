"""The cost of a press of TAB in instructions: times depend on the machine."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from tests.laws.rooms import FIXTURES
from tests.reference import tool

from fatpack.commands import COMMANDS

CONTAINER = str(FIXTURES / "offload_binary" / "llvm-22-four.bin")

#: Bare interpreter starts that words may cost; click alone takes 4.5.
MOST = 6

#: Parts of fatpack that do the work of commands: none is loaded to declare options.
WORK = (
    "fatpack.codecs",
    "fatpack.packages.",
    "fatpack.binary.",
    "fatpack.commands.check.request",
    "fatpack.library.",
)

ASK = "import sys; sys.argv[0] = 'fatpack'; from fatpack.main import main; sys.exit(main())"


def instructions(*words: str, asks: bool = False) -> int:
    command = [tool("valgrind"), "--tool=callgrind", "--callgrind-out-file=/dev/null", sys.executable, *words]
    environment = {"_FATPACK_COMPLETE": "zsh_complete", "PYTHONPATH": ":".join(filter(None, sys.path))} if asks else {}
    subprocess.run(command[3:], capture_output=True, env=environment, check=True)  # modules are compiled once
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    assert bool(done.stdout) is asks
    return int(re.findall(r"refs: +([0-9,]+)", done.stderr)[0].replace(",", ""))


@pytest.mark.reference
def test_words_come_quickly() -> None:
    bare = instructions("-I", "-c", "pass")
    for line in (
        ["inspect", "--"],
        ["pack", "--compress-mode", ""],
        ["slim", CONTAINER, "--"],
        ["extract", CONTAINER, "--"],
        ["tool", "clang-offload-bundler", "--un"],
        ["targets", "gfx9"],
    ):
        taken = instructions("-c", ASK, *line, asks=True)
        assert taken <= MOST * bare, f"{line}: {taken / bare:.2f} bare starts"


@pytest.mark.parametrize("name", COMMANDS)
def test_options_are_declared_without_what_does_the_work(name: str) -> None:
    # The command ends the process itself, before any line after it.
    said = "sys.stdout.flush(); os.write(2, ' '.join(set(sys.modules) - before).encode())"
    program = f"import os, sys; before = set(sys.modules); end = os._exit\ndef told(code): {said}; end(code)\n"
    program += f"os._exit = told; {ASK.replace('sys.exit(main())', 'os._exit(main())')}"
    environment = {"_FATPACK_COMPLETE": "zsh_complete", "PYTHONPATH": ":".join(filter(None, sys.path))}
    command = [sys.executable, "-c", program, name, "-"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    assert done.stdout.startswith("plain\t-"), done.stdout
    loaded = set(done.stderr.split())
    assert "fatpack.commands" in loaded
    assert not loaded & {"tomllib", "logging", "dataclasses", "json"}, name
    assert not [each for each in loaded if each.startswith(WORK)], name
