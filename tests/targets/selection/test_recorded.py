"""What the rules of selection answer for sets of images is what was recorded: ``python -m tests.targets.recorded``."""

from __future__ import annotations

from tests.targets.recorded import FOLDER, TABLES


def test_answers_are_those_that_were_recorded() -> None:
    recorded = (FOLDER / "selection.txt").read_text(encoding="utf-8")
    assert "".join(TABLES["selection"]()).splitlines() == recorded.splitlines()
