"""The same file alone, in a folder and in a wheel gives the same images to all commands."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.builders import elf, packages
from tests.conftest import Ran
from tests.laws.rooms import FIXTURES

import fatpack

Fatpack = Callable[..., Ran]

FATBIN = (FIXTURES / "cuda_fatbin" / "recorded" / "v130_none.fatbin").read_bytes()
CUBIN = (FIXTURES / "cuda" / "cubin" / "k1.cuda13.0.sm_80.cubin").read_bytes()


def library(**contents: bytes) -> bytes:
    made = elf.Elf(type=3)
    for name, content in contents.items():
        made.add(f".{name}", content)
    return made.build()


FILES = {
    "library without registered code": library(rodata=FATBIN, data=bytes(64) + CUBIN),
    "library with a registered container": library(nv_fatbin=FATBIN, ldata=FATBIN * 3),
    "object": elf.with_contents(rodata=bytes(64) + FATBIN, text=FATBIN),
    "code": library(text=FATBIN, rodata=bytes(64)),
    "raw": bytes(600) + FATBIN,
}


@pytest.fixture(params=FILES)
def places(request: pytest.FixtureRequest, tmp_path: Path) -> list[str]:
    data = FILES[request.param]
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "lib.so").write_bytes(data)
    (tmp_path / "lib.so").write_bytes(data)
    (tmp_path / "x.whl").write_bytes(packages.zipped({"lib.so": data}))
    return [str(tmp_path / name) for name in ("lib.so", "folder", "x.whl")]


def test_inspect_rows_and_extract_find_the_same(places: list[str], fatpack: Fatpack) -> None:
    seen = []
    for place in places:
        files = json.loads(fatpack("inspect", "--json", place).out)["files"]
        found = [box["offset"] for file in files for box in file["containers"]]
        rows = [(row.offset, row.sha256) for row in rows_of(place)]
        seen.append((found, rows, len(list(Path(out(fatpack, place)).rglob("*.*")))))
    assert seen[0] == seen[1] == seen[2]


def rows_of(place: str) -> list[fatpack.ImageRow]:
    return [row for row in fatpack.rows(place, digests=True) if row.row == "image"]


def out(run: Fatpack, place: str) -> str:
    folder = f"{place}.out"
    run("extract", place, "-d", folder)
    return folder
