"""The page docs/how-to/report-a-wheel.md: its commands run as they stand there, and say what it says."""

from __future__ import annotations

import re
import shlex
import zipfile
from pathlib import Path

import pytest
from tests.laws.rooms import FIXTURES

import fatpack
from fatpack.main import main

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "report-a-wheel.md").read_text(encoding="utf-8")
CUBINS = FIXTURES / "cuda" / "cubin"


def _blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the wheel that the page names."""
    monkeypatch.chdir(tmp_path)
    both = [fatpack.ImageFile(CUBINS / f"k1.cuda13.0.{arch}.cubin") for arch in ("sm_80", "sm_90")]
    with zipfile.ZipFile("demo.whl", "w") as wheel:
        for name in ("a.so", "b.so"):
            fatpack.pack(both, name, format="fatbin")
            wheel.write(name, f"demo/{name}")
    return tmp_path


def test_the_commands_do_what_the_page_says(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for block in _blocks("console"):
        for shown, expected in re.findall(r"^\$ (.*)\n(.*)\n", block, re.MULTILINE):
            assert main(shlex.split(shown)[1:]) == 0, shown
            told = capsys.readouterr().err
            assert told.split(" (")[0] == expected
            assert Path(shlex.split(shown)[-1]).stat().st_size > 500


def test_the_program_runs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (program,) = _blocks("python")
    exec(compile(program, "docs/how-to/report-a-wheel.md", "exec"), {})
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines] == [["sm_80", "2"], ["sm_90", "2"]]
