"""Rows of files in data frames and databases: one line each, as ``docs/library.md`` shows it."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pandas
import polars
import pyarrow
import pytest
from tests.laws.rooms import FIXTURES

import fatpack

FATBIN = FIXTURES / "cuda_fatbin" / "v130_size.fatbin"
OBJECT = FIXTURES / "elf" / "clang-22-hip.o"
PATHS = [FATBIN, OBJECT]


def expected(of: str) -> list[dict[str, object]]:
    return [row.to_dict() for row in fatpack.rows(PATHS, of=of, digests=True)]  # type: ignore[call-overload]


@pytest.mark.parametrize("of", ["images", "kernels"])
def test_polars_takes_the_columns(of: str) -> None:
    frame = polars.DataFrame(fatpack.rows(PATHS, of=of, digests=True).to_columns())  # type: ignore[call-overload]
    assert frame.to_dicts() == expected(of)
    assert frame.schema["chain"] == polars.List(polars.String)


@pytest.mark.parametrize("of", ["images", "kernels"])
def test_pandas_takes_the_columns(of: str) -> None:
    frame = pandas.DataFrame(fatpack.rows(PATHS, of=of, digests=True).to_columns())  # type: ignore[call-overload]
    wanted = expected(of)
    assert list(frame.columns) == list(wanted[0])
    assert len(frame) == len(wanted)
    for name in ("row", "path", "chain", "findings"):
        assert list(frame[name]) == [row[name] for row in wanted]
    known = [row["offset"] for row in wanted if row["offset"] is not None]
    assert [int(offset) for offset in frame["offset"].dropna()] == known


def test_duckdb_groups_by_label() -> None:
    images = pyarrow.table(fatpack.rows(FATBIN).to_columns())
    with duckdb.connect() as connection:
        connection.register("images", images)
        found = connection.sql(
            "SELECT label, count(*) FROM images WHERE row = 'image' GROUP BY 1 ORDER BY 1"
        ).fetchall()
    assert found == [("compute_80", 1), ("sm_80", 1)]


def test_rows_that_were_taken_are_not_in_the_columns(tmp_path: Path) -> None:
    rows = fatpack.rows(FATBIN)
    first = next(rows)
    columns = rows.to_columns()
    assert first.position not in columns["position"]
    assert columns["row"] == ["image", "file"]
    assert rows.to_columns()["row"] == []
