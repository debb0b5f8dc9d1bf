"""One reading of many paths gives the rows that each path gives alone, in their order, however many processes read."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.builders.http_server import serving
from tests.builders.packages import zipped
from tests.laws.rooms import FIXTURES

import fatpack
from fatpack.commands.inspect.run import open_argument
from fatpack.concurrency import processes
from fatpack.inputs.files import SkipCounts
from fatpack.tabular.columns import ImageRow, KernelRow, RowOptions
from fatpack.tabular.read_many import read_paths

FAT = FIXTURES / "elf" / "clang-22-openmp-gfx90a.o"
SINGLE = FIXTURES / "cuda_fatbin" / "hosts" / "single.o"
CUBIN = FIXTURES / "cuda" / "cubin" / "k1.cuda13.0.sm_80.cubin"
KERNELS = RowOptions(of="kernels")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A current directory with a folder, a wheel with a damaged member, and files."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t").mkdir()
    shutil.copy(FAT, "t/fat.o")
    shutil.copy(SINGLE, "t/single.o")
    Path("t/readme.md").write_text("text")
    damaged = SINGLE.read_bytes()[:-700]
    contents = {"x/a.so": FAT.read_bytes(), "x/b.so": damaged, "x/c.cubin": CUBIN.read_bytes()}
    Path("x.whl").write_bytes(zipped(contents))
    shutil.copy(FAT, "a.o")
    shutil.copy(SINGLE, "b.o")
    shutil.copy(CUBIN, "c.cubin")
    Path("empty").write_bytes(b"")
    return tmp_path


PATHS = ["a.o", "b.o", "t", "missing.so", "c.cubin", "empty", "x.whl", "t/*.o", "a.o"]


def _alone(path: str, options: dict[str, Any]) -> list[ImageRow | KernelRow]:
    return list(fatpack.rows(path, **options))


@pytest.mark.parametrize("options", [{}, {"of": "kernels"}, {"digests": True, "kernels": True}], ids=str)
@pytest.mark.parametrize("cores", [1, 2])
def test_many_paths_give_what_each_gives(
    place: Path, options: dict[str, Any], cores: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "MIN_BYTES_FOR_WORKERS", 0)
    monkeypatch.setattr(processes, "core_count", lambda: cores)
    expected = [row for path in PATHS for row in _alone(path, options)]
    assert list(read_paths(PATHS, RowOptions(**options, identity="digests" in options))) == expected


def test_the_files_are_reported_in_order_and_what_was_left_out_is_counted(place: Path) -> None:
    seen: list[str] = []
    unmatched: list[str] = []
    counts = SkipCounts()
    rows = read_paths(
        [Path("a.o"), "t", "t/*.so", "x.whl"],
        KERNELS,
        exclude=["single.o"],
        unmatched=unmatched,
        on_file=lambda row: seen.append(row.path),
        counts=counts,
    )
    last = [row.path for row in rows if row.row == "file"]
    assert last == seen == ["a.o", "t/fat.o", "x.whl!x/a.so", "x.whl!x/b.so", "x.whl!x/c.cubin", "x.whl"]
    assert unmatched == ["t/*.so"]
    assert (counts.passed, counts.excluded, counts.packages) == (1, 1, 1)


def test_what_cannot_be_read_is_a_row(place: Path) -> None:
    (missing,) = read_paths(["missing.so"], RowOptions())
    assert (missing.row, missing.exit_code) == ("file", 5)
    assert "missing.so" in (missing.error or "")
    (unknown,) = read_paths(["gopher://x/y"], RowOptions())
    assert (unknown.exit_code, unknown.count) == (2, 0)


def test_a_url_and_an_address_are_read_where_they_are(place: Path) -> None:
    with serving() as server:
        remote = list(read_paths([server.put("/x.whl", Path("x.whl").read_bytes())], RowOptions()))
    local = list(read_paths(["x.whl"], RowOptions()))
    assert [row.replace(path="") for row in remote] == [row.replace(path="") for row in local]
    inside = list(read_paths(["x.whl!x/a.so"], RowOptions(), opener=open_argument))
    assert [row.row for row in inside] == ["image", "file"]
