"""The page docs/how-to/survey.md: its commands run as they stand there, its questions are answered, its sums add up."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest
from tests import reference
from tests.command_lines import parsed
from tests.laws.rooms import FIXTURES

import fatpack
from fatpack.main import main

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "survey.md").read_text(encoding="utf-8")
CUBINS = FIXTURES / "cuda" / "cubin"


def _blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folders that the page names, with what it says of them."""
    monkeypatch.chdir(tmp_path)
    reference.package("pyarrow")
    both = [fatpack.ImageFile(CUBINS / f"k1.cuda13.0.{arch}.cubin") for arch in ("sm_80", "sm_90")]
    for name in ("libs/a.so", "libs/deeper/b.so", "more/deeper/c.so"):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        fatpack.pack(both, name, format="fatbin")
    Path("libs/readme.txt").write_text("no device code")
    return tmp_path


def test_the_commands_do_what_the_page_says(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for block in _blocks("console"):
        shown, expected = block.removeprefix("$ ").split("\n", 1)
        assert main(shlex.split(shown)[1:]) == 0, shown
        assert capsys.readouterr().err == expected
    duckdb = reference.package("duckdb")
    archs, errors = (duckdb.sql(block).fetchall() for block in _blocks("sql"))
    size = {arch: (CUBINS / f"k1.cuda13.0.{arch}.cubin").stat().st_size for arch in ("sm_80", "sm_90")}
    stored = {row.arch: row.stored_size for row in fatpack.rows("libs/a.so") if row.row == "image"}
    assert [(arch, files) for arch, files, _ in archs] == [("sm_80", 3), ("sm_90", 3)]
    assert {arch: total for arch, _, total in archs} == {arch: 3 * (stored[arch] or 0) for arch in size}
    assert errors == []


def test_the_commands_for_clusters_can_be_typed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [line for block in _blocks("sh") for line in block.splitlines() if line.startswith("fatpack")]
    for engine, line in zip(("dask", "ray"), lines, strict=True):
        values = parsed("survey", shlex.split(line)[2:])
        assert values is not None
        assert values["engine"] == engine
    distributed = reference.package("distributed")
    Path("files.txt").write_text("libs\n")
    with distributed.LocalCluster(n_workers=1, processes=False, dashboard_address=None) as cluster:
        words = shlex.split(lines[0].replace("tcp://scheduler:8786", cluster.scheduler_address))
        assert main(words[1:]) == 0
    shutil.rmtree("libs")
    assert "surveyed 2 files, 4 images" in capsys.readouterr().err


def test_the_plan_adds_up() -> None:
    """Each line of the plan follows from the measured means and the assumptions, and the last is their sum."""
    libraries = (1023 + 552 + 26.5, 2411 + 1984 + 55, 39.5 + 58.9 + 1.3, 0.16 + 0.62 + 0.03, 2787 + 5965 + 62)
    sets = 100e12 / (libraries[0] * 1e6)
    hosts, others = 1e15 / 12.6e6, 8.9e15 / 10e6
    wanted = [
        (3 * sets, libraries[1] * sets, libraries[2] * 1e6 * sets, libraries[3] * sets, 14 * libraries[4] * sets),
        (hosts, 2.2 * hosts, 29e3 * hosts, 0.3e-3 * hosts, 20 * hosts),
        (others, 1.4 * others, 14e3 * others, 0.3e-3 * others, 19 * others),
    ]
    rows = re.findall(r"^\| (?:100 TB|1 PB|8\.9 PB|together)[^|]* \|(.*)\|$", PAGE, re.MULTILINE)
    shown = [[_number(cell) for cell in row.split("|")] for row in rows]
    for line, numbers in zip(shown, [*wanted, tuple(map(sum, zip(*wanted, strict=True)))], strict=True):
        files, reads, size, hours, table = numbers
        assert line == pytest.approx([files, reads, size, hours / 3600, table], rel=0.15)


def _number(cell: str) -> float:
    """Return the number that a cell shows, in units of one."""
    units = {"million": 1e6, "billion": 1e9, "GB": 1e9, "TB": 1e12, "h": 1.0}
    number, unit = re.match(r"\s*([\d.,]+)\s*(\w*)", cell).groups()  # type: ignore[union-attr]
    return float(number.replace(",", "")) * units.get(unit, 1.0)
