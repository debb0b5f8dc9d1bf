"""The build that an installer takes for a machine, and the outcome of its code there."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from tests import reference
from tests.builders.packages import tarred
from tests.builders.policy_files import library
from tests.builders.variants import file_name, uv_choices, write_release

import fatpack
from fatpack.errors import UsageError
from fatpack.main import main


def nvidia(*archs: str) -> Mapping[str, Mapping[str, Sequence[str]]]:
    return {"nvidia": {"sm_arch": archs}}


VARIANTS = {"sm80": nvidia("80_real"), "sm90": nvidia("90_real"), "sm100": nvidia("100_real")}
CODE = {"sm80": "80 p80", "sm90": "90", "sm100": "100a", "null": "75", None: "75 80 90 p90"}


@pytest.fixture
def release(tmp_path: Path) -> Path:
    files = {label: {"demo/lib.so": library(words)} for label, words in CODE.items()}
    write_release(tmp_path, "demo", VARIANTS, files=files)
    return tmp_path


@pytest.mark.parametrize(
    ("device", "label", "verdict"),
    [
        ("8.6", "sm80", "runs"),
        ("H100", "sm90", "runs"),
        ("B200", "sm100", "runs"),
        ("B300", "sm100", "fails"),  # sm_100a
        ("12.0", "null", "fails"),
        ("7.5", "null", "runs"),
    ],
)
def test_uv_takes_a_variant(release: Path, device: str, label: str, verdict: str) -> None:
    found = fatpack.explain(release, device, cuda="13.0", installer="uv")
    (choice,) = found.installed
    assert choice.path == str(release / file_name("demo", label))
    assert (choice.label, found.verdict) == (label, verdict)
    assert found.paths == (choice.path,)
    assert len(choice.left) == 4


@pytest.mark.reference
def test_uv_itself_takes_the_same(release: Path) -> None:
    for device, driver in [("8.6", "12.8"), ("9.0", "12.4"), ("10.3", "13.0"), ("12.0", "13.0"), ("7.5", "11.8")]:
        (choice,) = fatpack.explain(release, device, cuda=driver, installer="uv").installed
        assert uv_choices(release, ["demo"], device, driver) == {"demo": choice.label or None}


def test_all_devices_are_in_one_machine(release: Path) -> None:
    found = fatpack.explain(release, ["8.6", "9.0"], cuda="12.8", installer="uv")
    assert found.installed[0].label == "sm90"
    assert [(each.device, each.is_served) for each in found.devices] == [("sm_86", False), ("sm_90", True)]


def test_the_reasons_are_about_what_is_asked_for(release: Path) -> None:
    (choice,) = fatpack.explain(release, "9.0", cuda="12.8", installer="uv").installed
    reasons = {each.name: each.reason for each in choice.left}
    assert reasons[file_name("demo", "sm80")] == (
        "it asks for 80_real of nvidia :: sm_arch, and the machine has 90_real, 90_virtual"
    )
    assert reasons[file_name("demo", "null")] == "sm90 is preferred"


def test_an_index_file_names_its_release_and_a_wheel_itself(release: Path) -> None:
    (release / "other-1.0-py3-none-any.whl").write_bytes(b"")
    index = fatpack.explain(release / "demo-1.0-variants.json", "9.0", cuda="12.8", installer="uv")
    assert [each.label for each in index.installed] == ["sm90"]
    alone = fatpack.explain(release / file_name("demo", "sm80"), "9.0", cuda="12.8", installer="uv")
    assert alone.verdict == "fails"
    assert alone.installed[0].path == ""
    assert "uv installs nothing: no variant fits" in alone.devices[0].verdict


def test_pip_takes_the_wheel_without_a_label(release: Path) -> None:
    found = fatpack.explain(release, "12.0", installer="pip")
    assert found.installed[0].path == str(release / file_name("demo", None))
    assert found.verdict == "runs"
    (release / file_name("demo", None)).unlink()
    assert fatpack.explain(release, "12.0", installer="pip").installed[0].reason == "there is no wheel without a label"


def test_a_driver_that_is_not_named_is_assumed(release: Path) -> None:
    (choice,) = fatpack.explain(release, "9.0", installer="uv").installed
    assert choice.notes[0].startswith("a driver of CUDA 13.")


def test_uv_refuses_a_description(release: Path) -> None:
    (release / "demo-1.0-variants.json").write_text("{}")
    (choice,) = fatpack.explain(release, "9.0", cuda="12.8", installer="uv").installed
    assert choice.reason == "it refuses the description of the variants: it has no key $schema"


def test_conda_takes_a_build_by_the_lowest_gpu(tmp_path: Path) -> None:
    for build, spec, code in [("sm80", "cuda-arch >=8.0", "80 p80"), ("sm90", "cuda-arch >=9.0", "90 p90")]:
        number = 1 if build == "sm90" else 0
        index = {"name": "demo", "version": "1", "build": build, "build_number": number, "depends": [spec]}
        data = tarred({"info/index.json": json.dumps(index).encode(), "lib/lib.so": library(code)})
        (tmp_path / f"demo-1-{build}.tar.bz2").write_bytes(data)
    found = fatpack.explain(tmp_path, ["8.6", "9.0"], installer="conda")
    assert Path(found.installed[0].path).name == "demo-1-sm80.tar.bz2"
    assert "conda looks at the lowest GPU alone, 8.6" in found.installed[0].notes
    assert found.verdict == "runs"
    assert Path(fatpack.explain(tmp_path, "9.0", installer="conda").installed[0].path).name == "demo-1-sm90.tar.bz2"
    assert fatpack.explain(tmp_path, "7.5", installer="conda").installed[0].path == ""


def kernel(folder: Path, archs: list[str], code: str) -> None:
    folder.mkdir(parents=True)
    folder.joinpath("metadata.json").write_text(json.dumps({"backend": {"type": "cuda", "archs": archs}}))
    folder.joinpath("_demo.abi3.so").write_bytes(library(code))


def test_the_loader_of_hugging_face_believes_what_is_declared(tmp_path: Path) -> None:
    kernel(tmp_path / "build" / "torch29-cxx11-cu128-x86_64-linux", ["8.0", "9.0a"], "80 90a")
    found = fatpack.explain(tmp_path, "B200", installer="hugging-face")
    (choice,) = found.installed
    assert (choice.path, choice.reason) == ("", "it declares 8.0, 9.0a, and the device is 10.0")
    assert fatpack.explain(tmp_path, "H100", installer="hugging-face").verdict == "runs"
    kernel(tmp_path / "wrong" / "build" / "torch29-cu128-x86_64-linux", ["8.0+PTX"], "80")
    wrong = fatpack.explain(tmp_path / "wrong", "H100", installer="hugging-face")
    assert wrong.installed[0].reason == "it declares 8.0+PTX"
    assert wrong.verdict == "fails"
    build = tmp_path / "wrong" / "build" / "torch29-cu128-x86_64-linux"
    (build / "metadata.json").write_text('{"backend": {"type": "cuda", "archs": [1]}}')
    with pytest.raises(UsageError, match="archs of backend is no list of texts"):
        fatpack.explain(build, "H100", installer="hugging-face")


def test_there_must_be_builds(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no wheel is at"):
        fatpack.explain(tmp_path, "9.0", installer="uv")
    with pytest.raises(UsageError, match="'brew' is no installer that is known"):
        fatpack.explain(tmp_path, "9.0", installer="brew")
    (tmp_path / "x.so").write_bytes(b"")
    with pytest.raises(UsageError, match=r"x\.so is no file of a release"):
        fatpack.explain(tmp_path / "x.so", "9.0", installer="uv")


#: a fat wheel by families: each device gets a variant, and 11.0 ``null``
FAMILIES = {
    "sm75": (nvidia("75_real"), "75"),
    "sm80": (nvidia("80_real"), "80 86 89"),
    "sm90": (nvidia("90_real"), "90"),
    "sm100": (nvidia("100_real"), "100"),
    "sm120": (nvidia("120_real"), "120 p120"),
}
FAT = "75 80 86 89 90 100 120 p90 p120"


@pytest.mark.reference
def test_every_device_gets_a_wheel_of_uv_that_runs(tmp_path: Path) -> None:
    files: dict[str | None, dict[str, bytes]] = {
        label: {"demo/lib.so": library(code)} for label, (_, code) in FAMILIES.items()
    }
    files |= {label: {"demo/lib.so": library(FAT)} for label in (None, "null")}
    write_release(tmp_path, "demo", {label: properties for label, (properties, _) in FAMILIES.items()}, files=files)
    expected = {"7.5": "sm75", "8.0": "sm80", "8.6": "sm80", "8.9": "sm80", "9.0": "sm90", "10.0": "sm100"}
    expected |= {"10.3": "sm100", "11.0": "null", "12.0": "sm120", "12.1": "sm120"}
    for device, label in expected.items():
        assert uv_choices(tmp_path, ["demo"], device, "13.0") == {"demo": label}
        found = fatpack.explain(tmp_path, device, cuda="13.0", installer="uv")
        assert (found.installed[0].label, found.verdict) == (label, "runs"), device
    assert fatpack.check(tmp_path, metadata=True).verdict == "passed"


@pytest.mark.reference
def test_uv_without_its_preview_and_pip_get_the_wheel_without_a_label(release: Path, tmp_path: Path) -> None:
    plain = file_name("demo", None)
    uv = [reference.variant_tool("uv"), "pip", "install", "--no-index", "--no-cache", "--no-config", "--no-deps"]
    uv += ["--dry-run", "--verbose", "--python", reference.variant_tool("python"), "--find-links", str(release), "demo"]
    done = subprocess.run([*uv, "--target", str(tmp_path / "t")], capture_output=True, text=True, check=True)
    assert f"({plain})" in done.stderr
    pip = [reference.variant_tool("python"), "-m", "pip", "download", "--no-index", "--no-deps", "--find-links"]
    subprocess.run([*pip, str(release), "-d", str(tmp_path / "pip"), "demo"], capture_output=True, check=True)
    assert [path.name for path in (tmp_path / "pip").iterdir()] == [plain]
    assert Path(fatpack.explain(release, "9.0", installer="pip").installed[0].path).name == plain


def test_a_release_without_a_wheel_for_all_machines(tmp_path: Path) -> None:
    write_release(tmp_path, "demo", {"sm90": nvidia("90_real")}, files={"sm90": {"demo/lib.so": library("90")}})
    (tmp_path / file_name("demo", None)).unlink(missing_ok=True)
    (tmp_path / file_name("demo", "null")).unlink(missing_ok=True)
    (choice,) = fatpack.explain(tmp_path, "8.0", cuda="13.0", installer="uv").installed
    assert choice.reason == "no variant fits, and there is no wheel without a label"


def test_a_question_about_an_environment_needs_a_device(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "--environment", "venv"]) == 2
    assert "fatpack explain --environment DIR --device" in capsys.readouterr().err
