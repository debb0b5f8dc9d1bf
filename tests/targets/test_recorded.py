"""What the rules of targets answer for all names is what was recorded: ``python -m tests.targets.recorded``.

The table ``selection`` is compared in ``tests/targets/selection``.
"""

from __future__ import annotations

import pytest
from tests.targets.recorded import FOLDER, TABLES


@pytest.mark.parametrize("name", [name for name in TABLES if name != "selection"])
def test_answers_are_those_that_were_recorded(name: str) -> None:
    recorded = (FOLDER / f"{name}.txt").read_text(encoding="utf-8")
    assert "".join(TABLES[name]()).splitlines() == recorded.splitlines()


def test_every_record_has_its_table() -> None:
    assert {path.stem for path in FOLDER.iterdir()} == set(TABLES)
