"""The tool that counts which changes of meaning the tests notice: its samples, its order, and what it leaves out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tools.mutation import equivalent
from tools.mutation.equivalent import Equivalents
from tools.mutation.reach import Reach
from tools.mutation.sites import ROOT, draw

LZ4 = ROOT / "src/fatpack/codecs/lz4.py"


def test_a_seed_draws_the_same_changes_of_meaning() -> None:
    changes = draw([LZ4], 12, 5)
    assert changes == draw([LZ4], 12, 5) != draw([LZ4], 12, 6)
    source = LZ4.read_text()
    for change in changes:
        old, new = change.lines
        assert old != new
        assert change.apply(source) != source
        assert str(change).startswith(f"src/fatpack/codecs/lz4.py:{change.line}\n  -{old}\n  +")


def test_rows_of_changes_that_nobody_notices_have_their_line_and_a_reason() -> None:
    assert Equivalents.read().rows


@pytest.mark.parametrize(
    "row", ['line = "no such line"\nwhy = "x"', 'line = "MIN_MATCH = 4"\nwhy = ""'], ids=["line", "reason"]
)
def test_a_row_that_says_nothing_is_an_error(row: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = tmp_path / "equivalent.toml"
    table.write_text(f'[[change]]\nmodule = "codecs/lz4.py"\n{row}\n')
    monkeypatch.setattr(equivalent, "TABLE", table)
    with pytest.raises(ValueError, match="no line"):
        Equivalents.read()


def test_a_row_leaves_out_the_changes_it_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    changes = [change for change in draw([LZ4], 1000, 5) if change.lines[0] == "MIN_MATCH = 4"]
    assert changes
    table = tmp_path / "equivalent.toml"
    monkeypatch.setattr(equivalent, "TABLE", table)
    for becomes, is_left_out in (("", True), ("becomes = ['MIN_MATCH = 44']\n", False)):
        row = f'[[change]]\nmodule = "codecs/lz4.py"\nline = "MIN_MATCH = 4"\n{becomes}why = "a trial"\n'
        table.write_text(row)
        assert all((change in Equivalents.read()) == is_left_out for change in changes)


def test_tests_that_call_the_changed_function_come_first_then_the_quick_ones(tmp_path: Path) -> None:
    record = tmp_path / "record.json"
    line = next(number for number, text in enumerate(LZ4.read_text().splitlines(), 1) if text.startswith("def _walked"))
    said = {"seconds": {"slow": 2.0, "quick": 1.0, "caller": 3.0}, "called": {f"{LZ4}:{line}": ["caller"]}}
    record.write_text(json.dumps(said))
    assert Reach(record).order(LZ4, line + 3) == ["caller", "quick", "slow"]
    assert Reach(record).order(LZ4, 1) == ["quick", "slow", "caller"]
