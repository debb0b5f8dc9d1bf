"""The walk of docs/how-to/missing-kernel.md: each command runs, and finds what is missing."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest
from tests.laws.rooms import FIXTURES

from fatpack.cli import main
from fatpack.findings import CODES

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "missing-kernel.md"


def commands() -> list[list[str]]:
    blocks = re.findall(r"^```console\n(.*?)```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    return [shlex.split(line)[2:] for block in blocks for line in block.splitlines()]


@pytest.mark.parametrize(
    ("host", "code", "words"),
    [
        ("cuda_fatbin/hosts/single.o", 0, "registered: "),
        ("elf/clang-22-hip.o", 0, "registered: "),
        ("cuda_fatbin/hosts/clang_win.obj", 1, "FP3046"),
    ],
)
def test_each_step_says_what_is_registered_and_what_is_missing(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    host: str,
    code: int,
    words: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(FIXTURES / host, "fat.o")
    found = commands()
    assert [command[1] for command in found] == ["fat.o", "fat.o", "--runtime", "--runtime"]
    assert [main(command) for command in found] == [code] * len(found)
    assert words in capsys.readouterr().out


def test_every_finding_of_the_page_exists() -> None:
    assert set(re.findall(r"FP\d{4}", PAGE.read_text())) <= CODES.keys()
