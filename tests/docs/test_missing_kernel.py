"""The walk of docs/how-to/missing-kernel.md: each command runs, and finds what is missing."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest
from tests.builders.pipeline import Unit
from tests.laws.rooms import FIXTURES

from fatpack.findings import CODES
from fatpack.main import main

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "missing-kernel.md"


def commands(part: int = 0) -> list[list[str]]:
    """Return the commands of the page before its last section, or those in it."""
    text = PAGE.read_text().split("## Which step lost it")[part]
    blocks = re.findall(r"^```console\n(.*?)```", text, re.MULTILINE | re.DOTALL)
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


@pytest.mark.parametrize(
    ("archs", "is_embedded", "codes"),
    [
        (("sm_80", "sm_90"), True, set()),
        (("sm_80",), True, {"FP3201"}),
        (("sm_80", "sm_90"), False, {"FP3041", "FP3203", "FP3204"}),
    ],
)
def test_the_step_that_lost_something_is_named(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    archs: tuple[str, ...],
    is_embedded: bool,
    codes: set[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    unit = Unit(tmp_path, "cuda", ("sm_80", "sm_90"))
    container = unit.container([unit.image(arch) for arch in archs])
    unit.cir()
    unit.program(unit.host(container if is_embedded else None))
    (command,) = commands(-1)
    assert main(command) == (1 if codes else 0)
    assert set(re.findall(r"FP\d{4}", capsys.readouterr().out)) == codes
