"""Files to be surveyed, and what is in the folder afterwards."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests import reference
from tests.laws.rooms import FIXTURES

import fatpack
from fatpack.io.open import open_source
from fatpack.tabular.columns import RowOptions
from fatpack.tabular.read_file import read_rows

Read = Callable[[Path], list[dict[str, Any]]]

SAMPLES = (
    *sorted((FIXTURES / "cuda_fatbin" / "recorded").glob("*.fatbin")),
    *sorted((FIXTURES / "offload_binary").glob("*.bin")),
    *sorted((FIXTURES / "cuda_fatbin" / "hosts").glob("*.o")),
)


@pytest.fixture
def many(tmp_path: Path) -> Path:
    """A folder of 120 files with device code, one without, and one that nobody may read."""
    folder = tmp_path / "many"
    for number in range(120):
        inner = folder / f"{number % 7}"
        inner.mkdir(parents=True, exist_ok=True)
        shutil.copy(SAMPLES[number % len(SAMPLES)], inner / f"{number}.bin")
    cubin = FIXTURES / "cuda" / "cubin" / "k1.cuda13.0.sm_90.cubin"
    with pytest.warns(UserWarning, match="sm_80"):  # so there is a file with a warning
        image = fatpack.ImageFile(cubin, triple="nvptx64-nvidia-cuda", arch="sm_80", offload="cuda")
        fatpack.pack([image], folder / "1" / "8.bin", overwrite=True)
    (folder / "empty").write_bytes(b"")
    (folder / "cut.fatbin").write_bytes(SAMPLES[0].read_bytes()[:-8])
    return folder


def expected(folder: Path, of: str = "images", *, dead: bool = True) -> list[dict[str, Any]]:
    """Return the rows that a survey of a folder has to have, sorted."""
    rows = []
    for path in folder.rglob("*"):
        if path.is_file():
            with open_source(str(path)) as source:
                rows += [row.to_dict() for row in read_rows(source.view(), RowOptions(of=of, dead=dead))]
    return in_order(rows)


def in_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: (row["path"], row["row"], row["position"] or "", row.get("kernel_index") or 0))


@pytest.fixture
def read() -> Read:
    """Read all rows of a folder, sorted: what the parts hold, not what the manifest says."""

    def rows(folder: Path) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        for name in os.listdir(folder):
            if name.endswith(".parquet"):
                found += reference.package("pyarrow.parquet").read_table(folder / name).to_pylist()
            elif name.endswith(".jsonl"):
                found += [json.loads(line) for line in (folder / name).read_text().splitlines()]
        return in_order(found)

    return rows
