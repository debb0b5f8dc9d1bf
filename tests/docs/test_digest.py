"""The command of docs/design/digest.md prints what stands there, for two files with the same code."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from tests.builders.policy_files import library

from fatpack.images.identity import VERSION
from fatpack.main import main

PAGE = (Path(__file__).parents[2] / "docs" / "design" / "digest.md").read_text()


def test_the_example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("demo.o", "again.o"):
        (tmp_path / name).write_bytes(library("80 90"))
    ((command, expected),) = re.findall(r"^```text\n\$ (.*?)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert main(shlex.split(command)[1:]) == 0
    printed = capsys.readouterr().out
    assert re.sub(r"[0-9a-f]{64}", "…", printed) == expected
    assert len({line.split()[0] for line in printed.splitlines()}) == 1
    assert f"version {VERSION}\n" in PAGE
