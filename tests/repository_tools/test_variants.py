"""The tool that offers split wheels to uv, on a small release: its counts are those of the table, from an index."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests import reference
from tests.builders import releases
from tests.builders.releases import NAME
from tools.bench import variants

import fatpack


@pytest.mark.slow
def test_uv_takes_from_an_index_what_the_table_says(tmp_path: Path) -> None:
    reference.variant_tool("uv")
    wheel = tmp_path / f"{NAME}.whl"
    wheel.write_bytes(releases.wheel("75 80 90 100a p100", toolkit=12))
    row = variants.measured(wheel, ("7.5", "8.6", "10.3", "12.1"), ("11.8", "13.0"))
    assert (row["questions"], row["agree"], row["lost"]) == (8, 8, 0)
    assert row["served"] == 4, "a driver of 11.8 is older than the toolkit"
    assert variants.is_as_expected(row)


@pytest.mark.slow
def test_a_wheel_that_lost_its_code_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tool sees it if what uv installs does not run: here wheels of another fat one, without code for 8.6."""
    reference.variant_tool("uv")
    wheel, other = tmp_path / f"{NAME}.whl", tmp_path / "other" / f"{NAME}.whl"
    wheel.write_bytes(releases.wheel("80 90"))
    other.parent.mkdir()
    other.write_bytes(releases.wheel("90"))
    split = fatpack.split
    monkeypatch.setattr(fatpack, "split", lambda _wheel, out: split(other, out))
    row = variants.measured(wheel, ("8.6",), ("12.8",))
    assert (row["served"], row["lost"], row["proved"]) == (1, 1, False)
    assert not variants.is_as_expected(row)
