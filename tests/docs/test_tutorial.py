"""The page docs/tutorial.md: a stranger's quarter of an hour, all of its commands, and what they print."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from tests.reference import package, tool

from fatpack.main import main

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "tutorial.md"

#: Commands that end with another exit code than 0, as the page says.
REFUSED = ("fatpack check", "fatpack explain", "fatpack diff")


def masked(printed: str) -> str:
    """Return a text without what depends on a linker and on a zlib: addresses, sizes, and how wide columns are."""
    text = re.sub(r"0x[0-9a-f]+", "ADDRESS", printed)
    text = re.sub(r"-?\d+(?:\.\d+)? (?:[kM]?B|%)(?!\w)", "SIZE", text)
    return re.sub(r" +", " ", text)


def run(command: str, capfd: pytest.CaptureFixture[str]) -> tuple[str, str, int]:
    """Return what a command prints to stdout and stderr, and its exit code."""
    capfd.readouterr()
    program, *arguments = shlex.split(command)
    if program == "fatpack":
        code = main(arguments)
        printed = capfd.readouterr()
        return printed.out, printed.err, code
    if program == "python":
        command = shlex.join([sys.executable, *arguments])
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    return done.stdout, done.stderr, done.returncode


@pytest.mark.reference
def test_a_stranger_can_follow_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    package("wheel")
    tool("gcc")
    (tmp_path / "tests").symlink_to(ROOT / "tests")
    (tmp_path / "tutorial").mkdir()
    monkeypatch.chdir(tmp_path / "tutorial")
    codes = []
    for block in re.findall(r"^```console\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL):
        for command, expected in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE):
            out, err, code = run(command, capfd)
            assert masked(expected) in (masked(err + out), masked(out + err)), command
            assert code == 0 or command.startswith(REFUSED), command
            codes.append(code)
    assert (len(codes), codes.count(1)) == (30, 3)  # the wheel that lacks devices, a device, and what differs
    assert Path("report.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


def test_sizes_are_all_that_is_not_compared() -> None:
    assert masked("at 0x2070  7.58 kB  13 %  3 kernels: sm_90") == "at ADDRESS SIZE SIZE 3 kernels: sm_90"
