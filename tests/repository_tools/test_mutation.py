"""The tool that counts which changes of meaning the tests notice: its samples, its order, and what it leaves out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tools.mutation import __main__ as samples
from tools.mutation import equivalent, trial
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


@pytest.mark.parametrize(
    ("text", "is_noticed"),
    [
        ("def test(): pass", False),
        ("def test(): assert 0", True),
        ("import no_such_module", True),
        ("import os\ndef test(): os.kill(os.getpid(), 9)", True),
        ("import time\ndef test(): time.sleep(60)", True),
    ],
    ids=["passes", "fails", "import", "signal", "time"],
)
def test_a_failure_and_an_end_by_force_notice_a_change(text: str, is_noticed: bool, tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(text)
    assert trial.tests_fail([str(tmp_path)], ROOT / "src", 2 if "sleep" in text else 60) == is_noticed


def test_a_conftest_that_cannot_be_imported_notices_a_change(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text("import no_such_module")
    (tmp_path / "test_it.py").write_text("def test(): pass")
    assert trial.tests_fail([str(tmp_path)], ROOT / "src", 60)


@pytest.mark.parametrize(
    ("arguments", "conftest", "code"),
    [
        ([], "def pytest_collection_modifyitems(): 1 / 0", 3),
        (["--no-such-option"], "", 4),
        (["-k", "no_such_test"], "", 5),
    ],
    ids=["internal", "usage", "nothing"],
)
def test_a_run_that_tries_no_test_says_so(arguments: list[str], conftest: str, code: int, tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(conftest)
    (tmp_path / "test_it.py").write_text("def test(): pass")
    with pytest.raises(SystemExit, match=f"pytest ended with {code} and tried no test"):
        trial.tests_fail([*arguments, str(tmp_path)], ROOT / "src", 60)


@pytest.mark.parametrize(("tried", "noticed", "code"), [(0, 0, 1), (10, 6, 1), (10, 7, 0)])
def test_a_bound_fails_if_less_is_noticed_or_nothing_was_tried(
    tried: int, noticed: int, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    count = samples.Count()
    count.tried, count.noticed = tried, noticed
    monkeypatch.setattr(samples, "try_rooms", lambda *_: {"codecs": count})
    monkeypatch.setattr("sys.argv", ["mutation", "--at-least", "65", "codecs"])
    assert samples.main() == code
    assert f"{noticed} of {tried} noticed" in capsys.readouterr().out
