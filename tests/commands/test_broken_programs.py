"""All three commands about the matrix of broken programs: they agree, and find what docs/testing.md says."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests import reference
from tests.builders import broken_programs
from tests.builders.broken_programs import WHOLE, Counter, cell

pytestmark = pytest.mark.reference

PAGE = Path(__file__).parents[2] / "docs" / "testing.md"


def documented(name: str) -> dict[str, str]:
    """Return what the page says of a toolchain, by what is broken."""
    rows = [line.strip("| ").split("|") for line in PAGE.read_text(encoding="utf-8").splitlines() if line[:1] == "|"]
    cells = [[text.strip() for text in row] for row in rows]
    start = next(number for number, row in enumerate(cells) if row[0] == "broken")
    column = cells[start].index(name)
    found = {}
    for row in cells[start + 2 :]:
        found[row[0]] = row[column] if column < len(row) else ""
        if row[0] == "all":
            break
    return found


def test_a_few(tmp_path: Path) -> None:
    reference.package("capstone")
    counts = broken_programs.counted(broken_programs.quick(tmp_path))
    assert len(counts) == 8
    assert [cell(count) for count in counts.values()] == ["3", "3", "3", "3", "1", "1", "1", "1"]


@pytest.mark.slow
@pytest.mark.parametrize("name", broken_programs.TOOLCHAINS)
def test_the_table_of_the_page(tmp_path: Path, name: str) -> None:
    reference.package("capstone")
    counts = broken_programs.counted(broken_programs.TOOLCHAINS[name](tmp_path))
    assert WHOLE in counts
    total = sum(counts.values(), Counter[str]())
    expected = {kind: text for kind, text in documented(name).items() if text}
    assert {**{kind: cell(count) for kind, count in counts.items()}, "all": cell(total)} == expected
