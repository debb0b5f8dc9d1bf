"""The exit codes of commands for files without device code follow the rule of ``docs/cli.md``, and all say it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.builders import wheels

from fatpack.exit_codes import FINDINGS, FINE
from fatpack.main import main

#: command lines that judge or take images of {0}, and have nothing to judge or take
JUDGING = (
    "check {0} --forbid sm_50",
    "check {0} --require sm_90",
    "check {0} --verify",
    "doctor {0}",
    "explain {0} --device sm_90",
    "extract {0} -d images",
    "report {0} -o page.html",
    "inspect --digest {0}",
)
#: command lines that list, compare or copy
LISTING = (
    "inspect {0}",
    "diff {0} {0}",
    "slim {0} --for sm_90 -d slimmed",
    "slim {0} --lossless -d slimmed",
)
SPLITTING = ("split {0} --by family -d variants --dry-run",)


def file_and_wheel(folder: Path) -> list[Path]:
    text = folder / "notes.txt"
    text.write_text("no device code\n")
    wheel = folder / "demo-1.5-py3-none-any.whl"
    wheel.write_bytes(wheels.wheel({"demo/__init__.py": b"VERSION = 1\n"}))
    return [text, wheel]


@pytest.mark.parametrize("line", JUDGING + LISTING)
def test_of_a_file_and_of_a_wheel(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in file_and_wheel(tmp_path):
        folder = tmp_path / f"of{path.suffix}"
        folder.mkdir()
        monkeypatch.chdir(folder)
        code = main(line.format(path).split())
        out, err = capsys.readouterr()
        assert code == (FINDINGS if line in JUDGING else FINE), out + err
        said = " ".join((out + err).split())
        assert any(word in said for word in ("no device code", "none with device code", "no images")), said


@pytest.mark.parametrize("line", SPLITTING)
def test_of_a_wheel_that_is_to_be_split(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(line.format(file_and_wheel(tmp_path)[1]).split()) == FINDINGS
    assert "it holds no device code" in capsys.readouterr().err
