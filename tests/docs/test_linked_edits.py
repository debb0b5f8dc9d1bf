"""The page docs/design/linked-edits.md: an edit is proved, and one byte too many is found."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.laws.rooms import FIXTURES

from fatpack.main import main

PAGE = Path(__file__).parents[2] / "docs" / "design" / "linked-edits.md"


def test_the_commands_print_what_the_page_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(FIXTURES / "cuda_fatbin" / "hosts" / "libtwo.so", "libkernels.so")
    codes = []
    for block in re.findall(r"^```console\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL):
        for command, expected in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE):
            if command.startswith("fatpack "):
                codes.append(main(shlex.split(command)[1:]))
            else:
                subprocess.run(["bash", "-c", command], check=True)
            assert capfd.readouterr().out == expected, command
    assert codes == [0, 0, 1]
