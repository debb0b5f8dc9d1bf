"""Installed packages on all GPUs of a machine."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from tests.builders.policy_files import library
from tests.builders.variants import wheel

import fatpack
from fatpack.errors import UsageError


def install(environment: Path, label: str | None, code: str, archs: tuple[str, ...] = ()) -> None:
    """Unpack a wheel where uv installs it."""
    site = environment / "lib/python3.12/site-packages"
    made = environment / "x.whl"
    made.parent.mkdir(parents=True, exist_ok=True)
    properties = {"nvidia": {"sm_arch": archs}} if archs else {}
    made.write_bytes(wheel("demo", label, {label or "": properties}, {"demo/lib.so": library(code)}))
    with zipfile.ZipFile(made) as archive:
        archive.extractall(site)
    made.unlink()
    (site / "demo-1.0.dist-info/INSTALLER").write_text("uv")


def test_a_wheel_for_the_higher_gpu_breaks_the_lower_one(tmp_path: Path) -> None:
    """The third trap: providers look at the highest GPU alone."""
    install(tmp_path, "sm90", "90", ("90_real",))
    found = fatpack.explain((), ["8.6", "9.0"], environment=tmp_path)
    (package,) = found.packages
    assert (package.package, package.installer, package.label) == ("demo==1.0", "uv", "sm90")
    assert [(each.device, each.runs, each.fails) for each in package.outcomes] == [("sm_86", 0, 1), ("sm_90", 1, 0)]
    assert "lib.so: no image fits compute capability 8.6" in package.outcomes[0].reason
    (note,) = package.notes
    assert note.startswith("uv takes variants by the highest GPU alone, 9.0")
    assert note.endswith("uv pip install --reinstall --no-deps demo==1.0")
    assert found.verdict == "fails"


def test_a_wheel_for_all_gpus_is_fine(tmp_path: Path) -> None:
    install(tmp_path, None, "80 90")
    found = fatpack.explain((), ["8.6", "9.0"], environment=tmp_path)
    assert found.verdict == "runs"
    assert found.packages[0].notes == ()


def test_a_variant_for_another_machine_is_noted(tmp_path: Path) -> None:
    install(tmp_path, "sm80", "80 p80", ("80_real",))
    found = fatpack.explain((), "9.0", cuda="12.8", environment=tmp_path)
    assert found.packages[0].notes == ("uv takes another variant for this machine, whose highest GPU is 9.0",)


def test_a_folder_without_packages_is_no_environment(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is no environment"):
        fatpack.explain((), "9.0", environment=tmp_path)
    with pytest.raises(UsageError, match="takes neither paths nor an installer"):
        fatpack.explain("x.so", "9.0", environment=tmp_path)
