"""Installed packages on all GPUs of a machine."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from tests.builders.policy_files import library
from tests.builders.variants import wheel

import fatpack
from fatpack.errors import TargetError, UsageError
from fatpack.targets import local_devices
from fatpack.targets.devices import Device


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


def test_doctor_asks_about_every_gpu_of_the_machine(tmp_path: Path) -> None:
    (tmp_path / "pyvenv.cfg").write_text("")
    install(tmp_path, "sm90", "90", ("90_real",))
    found = fatpack.doctor(tmp_path, device=["8.6", "9.0"])
    told = [(each.code, each.message, each.hint) for each in found.findings if each.severity != "note"]
    assert [code for code, _, _ in told] == ["FP3608"]
    assert told[0][1].startswith("nothing of demo==1.0 runs on sm_86: lib.so")
    assert told[0][2].startswith("uv takes variants by the highest GPU alone, 9.0")
    assert [(row.checked, row.wrong) for row in found.verified if row.what == "GPUs"] == [(2, 1)]
    assert (found.verdict, found.exit_code) == ("suspect", 1)
    fine = fatpack.doctor(tmp_path, device="9.0")
    assert not [each for each in fine.findings if each.code == "FP3608"]


def test_doctor_says_that_no_gpu_was_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pyvenv.cfg").write_text("")
    install(tmp_path, None, "80")
    monkeypatch.setattr(local_devices, "local_devices", no_device)
    found = fatpack.doctor(tmp_path)
    assert [(row.count, row.why) for row in found.not_verified if row.what == "packages on GPUs"] == [
        (1, "no GPU here")
    ]


def no_device(root: str = "/") -> tuple[Device, ...]:
    raise TargetError("no GPU here")


def test_doctor_takes_devices_for_environments_alone(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="devices are asked about in environments alone"):
        fatpack.doctor(tmp_path, device="9.0")
    (tmp_path / "pyvenv.cfg").write_text("")
    install(tmp_path, None, "80")
    with pytest.raises(TargetError):
        fatpack.doctor(tmp_path, device="no such device")


def test_a_folder_without_packages_is_no_environment(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is no environment") as raised:
        fatpack.explain((), "9.0", environment=tmp_path)
    assert "slim" not in raised.value.hint
    with pytest.raises(UsageError, match="takes neither paths nor an installer"):
        fatpack.explain("x.so", "9.0", environment=tmp_path)
