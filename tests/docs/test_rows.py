"""The page docs/rows.md, run as it stands there: commands, Python, and the questions in SQL and polars."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from glob import glob
from pathlib import Path
from typing import Any

import pytest
from tests import reference
from tests.laws.rooms import FIXTURES

import fatpack
from fatpack.main import main

PAGE = (Path(__file__).parents[2] / "docs" / "rows.md").read_text(encoding="utf-8")
CUBINS = FIXTURES / "cuda" / "cubin"


def _blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with two libraries, and the tables that the commands of the page make of them."""
    monkeypatch.chdir(tmp_path)
    cubins = [f"--image=file={CUBINS / f'k1.cuda13.0.{arch}.cubin'}" for arch in ("sm_80", "sm_90")]
    assert main(["pack", "--format=fatbin", *cubins, "-o", "lib.so", "-q"]) == 0
    other = CUBINS / "tiny.cuda12.9.sm_90.cubin"
    assert main(["pack", "--format=fatbin", f"--image=file={other}", "-o", "other.so", "-q"]) == 0
    reference.package("pyarrow")
    return tmp_path


def _run_commands(capsys: pytest.CaptureFixture[str]) -> None:
    (block,) = _blocks("sh")
    for line in block.splitlines():
        command, _, output = line.partition(" > ")
        words = [name for word in shlex.split(command)[1:] for name in (sorted(glob(word)) or [word])]
        capsys.readouterr()
        assert main(words) == 0, line
        if output:
            Path(output).write_text(capsys.readouterr().out)


def test_the_examples_run_and_answer(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _run_commands(capsys)
    duckdb, pl = reference.package("duckdb"), reference.package("polars")
    rows = [row for path in ("lib.so", "other.so") for row in fatpack.rows(path)]
    bytes_of: dict[tuple[Any, ...], list[int]] = {}
    for row in rows:
        if row.row == "image":
            sums = bytes_of.setdefault((row.label, row.form), [0, 0, 0])
            sums[:] = sums[0] + 1, sums[1] + (row.stored_size or 0), sums[2] + (row.size or 0)
    archs_of: dict[str, set[str]] = {}
    for path in ("lib.so", "other.so"):
        for kernel in fatpack.rows(path, of="kernels"):
            if kernel.row == "kernel":
                archs_of.setdefault(str(kernel.kernel), set()).add(str(kernel.arch))
    alone = sorted(name for name, archs in archs_of.items() if len(archs) == 1)
    assert alone
    assert len(alone) < len(archs_of)

    per_arch, of_one, unreadable = (duckdb.sql(block).fetchall() for block in _blocks("sql"))
    assert {(arch, form): list(sums) for arch, form, *sums in per_arch} == bytes_of
    assert [row[0] for row in of_one] == alone
    assert unreadable == []
    names: dict[str, Any] = {}
    exec(compile(_blocks("python")[1], "docs/rows.md", "exec"), names)
    assert {(arch, form): list(sums) for arch, form, *sums in names["bytes_per_arch"].rows()} == bytes_of
    assert names["of_one_arch"]["kernel"].to_list() == alone
    assert pl.read_csv("images.csv").height == len(rows)


def test_the_example_of_the_library_prints_what_the_page_says(folder: Path) -> None:
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(_blocks("python")[0], "docs/rows.md", "exec"), {})
    assert output.getvalue() == _blocks("text")[0]
