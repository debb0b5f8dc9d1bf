"""Names of symbols are found in blocks of a table of strings, wherever a block ends."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.laws.rooms import FIXTURES

from fatpack.commands.inspect.registration import registration_record
from fatpack.io.open import open_source
from fatpack.registration.analysis import elf_program

LINKED = sorted(FIXTURES.rglob("lib*.so"))


def names_of(path: Path) -> tuple[object, list[object]]:
    """Return what a program registers, and what is wrong with it."""
    with open_source(str(path)) as source:
        record = registration_record(source.view())
    return record["units"], record["findings"]


@pytest.mark.parametrize("size", [1, 7, 64])
def test_a_program_registers_the_same_in_blocks_of_any_size(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    whole = {path: names_of(path) for path in LINKED}
    assert sum(bool(units) for units, _ in whole.values()) >= 3
    monkeypatch.setattr(elf_program, "_STRING_BLOCK", size)
    for path, expected in whole.items():
        assert names_of(path) == expected, path
