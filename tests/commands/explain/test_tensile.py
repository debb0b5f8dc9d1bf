"""A library of Tensile is one unit for ``explain`` as for ``check``: its tables say which files a device gets."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from tests.builders.amd_stores import FALLBACK, KEY, TABLE, aks2, hsaco, tensile_library

import fatpack
from fatpack.main import main

HELPER = "Kernels.so-000-gfx942.hsaco"
TABLE_OF_942 = TABLE.format(arch="gfx942")


def library(tmp_path: Path, change: str = "") -> Path:
    """Return the folder of a library for two targets; one file for gfx942 is missing, or has other code."""
    folder = tmp_path / "rocblas" / "library"
    tensile_library(folder, "gfx1100")
    tensile_library(folder, "gfx942", code=hsaco("gfx1100") if change == "code" else None)
    gone = {
        "table": f"{TABLE_OF_942}.dat", "file": f"{TABLE_OF_942}.co", "helper": HELPER,
        "parent": "TensileLibrary_lazy_gfx942.dat", "fallback": f"{FALLBACK.format(arch='gfx942')}.hsaco",
    }.get(change)  # fmt: skip
    if gone is not None:
        (folder / gone).unlink()
    if change == "damage":
        (folder / "TensileLibrary_lazy_gfx942.dat").write_bytes(b"\xc1 no table")
    return folder


@pytest.mark.parametrize(
    ("change", "device", "outcome", "rule"),
    [
        ("", "gfx942", "runs", "H16"),
        ("", "gfx1100", "runs", "H16"),
        ("", "gfx1201", "fails", "H16"),
        ("parent", "gfx942", "fails", "H16"),
        ("table", "gfx942", "fails", "H17"),
        ("file", "gfx942", "fails", "H17"),
        ("fallback", "gfx942", "fails", "H17"),
        ("helper", "gfx942", "fails", "H17"),
        ("code", "gfx942", "fails", "H17"),
        ("file", "gfx1100", "runs", "H16"),
        ("damage", "gfx942", "unknown", "H16"),
    ],
)
def test_the_tables_decide_for_check_and_explain(
    change: str, device: str, outcome: str, rule: str, tmp_path: Path
) -> None:
    folder = library(tmp_path, change)
    (answer,) = fatpack.explain(folder, device).devices
    (unit,) = answer.units
    assert (unit.outcome, unit.rule, unit.noun) == (outcome, rule, "library")
    assert (unit.error is not None) == (outcome == "fails")
    assert unit.places[0].library == "rocBLAS"
    assert (main(["check", str(folder), "--require", device]) == 0) == (outcome == "runs")


def test_a_library_in_a_wheel_is_told_by_its_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, wheel = library(tmp_path, "file"), tmp_path / "torch-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path in sorted(folder.iterdir()):
            archive.write(path, f"torch/lib/rocblas/library/{path.name}")
    assert main(["explain", str(wheel), "--device", "gfx942", "--device", "gfx1100"]) == 1
    told = capsys.readouterr().out
    assert "gfx942: the library fails: an error, when a problem first needs what is missing" in told
    assert f"rocBLAS in {wheel}!torch/lib/rocblas/library" in told
    assert "gfx1100: the library runs" in told


def test_code_files_without_any_table_are_images_of_their_own(tmp_path: Path) -> None:
    folder = library(tmp_path)
    for path in folder.glob("*.dat"):
        path.unlink()
    (answer,) = fatpack.explain(folder, "gfx942").devices
    assert {unit.noun for unit in answer.units} == {"image"}
    assert (answer.runs, answer.fails) == (3, 3)


def test_a_device_of_another_vendor_gets_nothing_of_a_library(tmp_path: Path) -> None:
    (answer,) = fatpack.explain(library(tmp_path), "sm_90").devices
    assert answer.units == ()


def test_files_of_one_name_are_told_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for kernel in ("attn_fwd", "bwd"):
        folder = tmp_path / "amd-gfx942" / kernel
        folder.mkdir(parents=True)
        (folder / "k.aks2").write_bytes(aks2([(KEY, hsaco("gfx942"))]))
    assert main(["explain", str(tmp_path), "--device", "gfx942"]) == 0
    assert f"{tmp_path}/amd-gfx942/attn_fwd/k.aks2, {tmp_path}/amd-gfx942/bwd/k.aks2" in capsys.readouterr().out
