"""The table of installers' traps: each rule is where it says, and its tests exist."""

from __future__ import annotations

from pathlib import Path

import pytest
from tools.mutation import traps

TRAPS = traps.read_traps()


@pytest.mark.parametrize("trap", TRAPS, ids=[trap.says[:60] for trap in TRAPS])
def test_a_rule_is_in_its_place_and_has_its_tests(trap: traps.Trap) -> None:
    text = (traps.SOURCES / trap.file).read_text()
    changed = trap.changed(text)
    compile(changed, trap.file, "exec")
    name = trap.function.rpartition(".")[2]
    assert f"def {name}(" in text or f"{name} = " in text
    for test in trap.tests:
        file, _, function = test.partition("::")
        source = Path(traps.ROOT / file).read_text()
        assert not function or f"def {function}(" in source


@pytest.mark.slow
def test_a_change_that_matters_is_noticed_and_none_is_not(tmp_path: Path) -> None:
    import shutil

    shutil.copytree(traps.SOURCES, tmp_path / traps.SOURCES.name)
    trap = next(one for one in TRAPS if "of every feature" in one.says)
    (test,) = trap.tests
    assert traps.is_noticed(trap, tmp_path, test)
    assert not traps.is_noticed(trap.replace(new=trap.old), tmp_path, test)
