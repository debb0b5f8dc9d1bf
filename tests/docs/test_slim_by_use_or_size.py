"""The page docs/how-to/slim-by-use-or-size.md: its commands run as they stand there, and print what it shows."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest
from tests.laws.rooms import FIXTURES

from fatpack.main import main

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "slim-by-use-or-size.md"


def test_the_commands_print_what_the_page_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(FIXTURES / "cuda_fatbin" / "hosts" / "libtwo.so", "libkernels.so")
    Path("used.txt").write_text("add_one\n")
    shown = 0
    for block in re.findall(r"^```console\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL):
        for command, expected in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE):
            capfd.readouterr()
            assert main(shlex.split(command)[1:]) == 0, command
            assert capfd.readouterr().out == expected, command
            shown += 1
    assert shown == 4
