"""The page docs/how-to/compare-two-compilers.md: two compilers run, and the commands say what they made."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from tests.reference import LLVM19, llvm_tool

from fatpack.main import main

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "compare-two-compilers.md").read_text(encoding="utf-8")


def _blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def _masked(text: str) -> str:
    """Return a text without numbers and blanks, which differ between builds of one version of clang."""
    return re.sub(r"(?<![\w.])[+-]?\d[\d.]*(?![\w.])|\b\d[\d.]*k?(?= ?k?B\b)", "N", re.sub(r" +", " ", text))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which the compilers of the page have run."""
    for version, folder in (("19", LLVM19), ("22", Path(llvm_tool("clang", "22")).parent)):
        llvm_tool("clang", version)
        (tmp_path / f"clang-{version}").symlink_to(folder / "clang")
    (tmp_path / "fatpack").symlink_to(Path(sys.executable).parent / "fatpack")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.chdir(tmp_path)
    (build,) = _blocks("sh")
    subprocess.run(["bash", "-euc", build], check=True, capture_output=True)
    return tmp_path


@pytest.mark.reference
def test_the_page_tells_what_two_compilers_make(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    inspected, different, *failing = _blocks("console")
    for block, code in ((inspected, 0), (different, 1)):
        command, _, expected = block.removeprefix("$ ").partition("\n")
        assert main(shlex.split(command)[1:]) == code
        assert _masked(capsys.readouterr().out) == _masked(expected)
    (block,) = failing
    assert main(shlex.split(block.removeprefix("$ ").partition(" >")[0])[1:]) == 0
    (program,) = _blocks("python")
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(program, {})
    assert _masked(printed.getvalue()) == _masked(_blocks("text")[0])


def test_words_are_compared_and_numbers_are_not() -> None:
    assert _masked("gfx90a  6 124  scale 4.97 kB +936 B") == "gfx90a N N scale N kB N B"
