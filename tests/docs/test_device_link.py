"""The walk of docs/how-to/device-link.md: the groups of a link line are linked by clang, and hold the kernel."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest
from tests.reference import tool

from fatpack.main import main

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "device-link.md"


def test_the_groups_can_be_linked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    folders = {str(Path(tool(name)).parent) for name in ("clang", "llvm-ar", "ld.lld")}
    environment = {**os.environ, "PATH": os.pathsep.join([*folders, os.environ["PATH"]])}
    blocks = re.findall(r"```(sh|console)\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert [kind for kind, _ in blocks] == ["sh", "console", "sh", "console"]
    for kind, text in blocks:
        if kind == "sh":
            subprocess.run(["sh", "-e", "-c", text], env=environment, check=True)
        else:
            for line in text.splitlines():
                assert main(shlex.split(line)[2:]) == 0, line
    shown = capsys.readouterr().out
    assert "gfx90a" in shown
    assert shown.count("_Z5firstPi") == 2
