"""Several wheels of a release, settings, the proof of what was written, and the index file."""

from __future__ import annotations

import json
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest
from tests.builders import releases, wheels
from tests.builders.releases import NAME

import fatpack
from fatpack import FatpackError, HostError, UsageError
from fatpack.commands.split.model import SplitRefused
from fatpack.main import main
from fatpack.text.schemas import schema_text

INDEX = "demo-1.5-variants.json"
OTHER = "demo-1.5-cp312-cp312-win_amd64"


@pytest.fixture
def done(tmp_path: Path) -> tuple[Path, Path]:
    """Return a fat wheel, and the folder with what it was split into."""
    fat, out = tmp_path / f"{NAME}.whl", tmp_path / "out"
    fat.write_bytes(releases.wheel("80 90 p90"))
    fatpack.split(fat, out)
    return fat, out


def repacked(path: Path, change: Callable[[dict[str, bytes]], None]) -> None:
    """Pack a wheel anew with other files, and a RECORD that is right about them."""
    with zipfile.ZipFile(path) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    change(files)
    record = next(name for name in files if name.endswith("RECORD"))
    lines = [f"{name},{wheels.digest(data)},{len(data)}\n" for name, data in files.items() if name != record]
    files[record] = "".join([*lines, f"{record},,\n"]).encode()
    path.write_bytes(wheels.packed(files))


def test_wheels_of_a_release_have_one_map_of_labels(tmp_path: Path) -> None:
    """The second wheel has no code for 9.0 and 12.0: it gets no such package, and the index has all labels."""
    first, second = tmp_path / f"{NAME}.whl", tmp_path / f"{OTHER}.whl"
    first.write_bytes(releases.wheel("80 90 120", toolkit=12))
    second.write_bytes(releases.wheel("80", toolkit=13))
    result = fatpack.split([first, second], tmp_path / "out")
    (release,) = result.releases
    names = {path.name for path in (tmp_path / "out").glob("*.whl")}
    assert names == {
        *(f"{NAME}{label}.whl" for label in ("", "-sm80", "-sm90", "-sm120", "-null")),
        *(f"{OTHER}{label}.whl" for label in ("", "-sm80", "-null")),
    }
    assert release.packages[1].notes == (
        "sm90: nothing in it is for this label",
        "sm120: nothing in it is for this label",
    )
    index = json.loads((tmp_path / "out" / INDEX).read_bytes())
    assert list(index["variants"]) == ["sm80", "sm90", "sm120", "null"]
    for name in names:
        if "-sm80" in name:
            with zipfile.ZipFile(tmp_path / "out" / name) as archive:
                own = json.loads(archive.read("demo-1.5.dist-info/variant.json"))
            assert own["variants"] == {"sm80": index["variants"]["sm80"]}
    assert index["variants"]["sm80"]["nvidia"]["cuda_version_lower_bound"] == ["13.0"], "the highest floor is for all"
    assert fatpack.verify_split([first, second], tmp_path / "out").is_proved


def test_different_releases_have_an_index_each(tmp_path: Path) -> None:
    path = tmp_path / f"{NAME}.whl"
    path.write_bytes(releases.wheel("80 90"))
    other = tmp_path / "demo-1.6-py3-none-any.whl"
    files = wheels.files_of(
        {"lib.so": releases.library("80 100")}, info="demo-1.6.dist-info", metadata=b"Version: 1.6\n\n"
    )
    other.write_bytes(wheels.packed(files))
    result = fatpack.split([path, other], tmp_path / "out")
    assert [one.index for one in result.releases] == ["demo-1.5-variants.json", "demo-1.6-variants.json"]
    assert all((tmp_path / "out" / one.index).is_file() for one in result.releases)


def test_settings_come_from_pyproject(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(f"{NAME}.whl").write_bytes(releases.wheel("80 86 90"))
    Path("pyproject.toml").write_text(
        '[tool.fatpack.split]\nby = ["sm_80", "hopper=sm_90"]\nnull = "none"\n'
        'directory = "variants"\nschema-version = "0.1.1"\n'
    )
    assert main(["split", f"{NAME}.whl"]) == 0
    assert "policy: " in capsys.readouterr().err
    index = json.loads(Path("variants", INDEX).read_bytes())
    assert list(index["variants"]) == ["sm80", "hopper"]
    assert "providers" not in index
    assert index["$schema"].endswith("/825/v0.1.1.json")
    assert main(["split", f"{NAME}.whl", "--by", "device", "-d", "other", "-q"]) == 0
    assert list(json.loads(Path("other", INDEX).read_bytes())["variants"]) == ["sm80", "sm86", "sm90"]
    assert main(["split", f"{NAME}.whl", "--no-config", "-d", "plain", "-q"]) == 0
    assert list(json.loads(Path("plain", INDEX).read_bytes())["variants"]) == ["sm80", "sm90", "null"]
    Path("wrong.toml").write_text('[tool.fatpack.split]\nbye = "family"\n')
    assert main(["split", f"{NAME}.whl", "--config", "wrong.toml", "--dry-run"]) == 2
    assert "there is no setting 'bye'" in capsys.readouterr().err
    Path("wrong.toml").write_text("[tool.fatpack.split]\nnull = 3\n")
    assert main(["split", f"{NAME}.whl", "--config", "wrong.toml", "--dry-run"]) == 2
    assert "null is not a text" in capsys.readouterr().err


def test_an_index_with_other_labels_is_not_replaced(done: tuple[Path, Path]) -> None:
    fat, out = done
    for path in out.glob("*.whl"):
        path.unlink()
    with pytest.raises(UsageError, match="a release has one map of labels"):
        fatpack.split(fat, out, by="sm_90")
    assert list(json.loads((out / INDEX).read_bytes())["variants"]) == ["sm80", "sm90", "null"]
    fatpack.split(fat, out, by="sm_90", overwrite=True)
    assert list(json.loads((out / INDEX).read_bytes())["variants"]) == ["sm90", "null"]


def test_wheels_that_cannot_be_split(tmp_path: Path, done: tuple[Path, Path]) -> None:
    fat, out = done
    with pytest.raises(UsageError, match="is the wheel of the label sm80"):
        fatpack.split(out / f"{NAME}-sm80.whl", dry_run=True)
    renamed = tmp_path / "again" / fat.name
    renamed.parent.mkdir()
    shutil.copy(out / f"{NAME}-sm80.whl", renamed)
    with pytest.raises(UsageError, match=r"variant\.json: it is a variant already"):
        fatpack.split(renamed, dry_run=True)
    renamed.write_bytes(releases.wheel())
    with pytest.raises(SplitRefused, match="it holds no device code"):
        fatpack.split(renamed, dry_run=True)
    renamed.write_bytes(fat.read_bytes())
    repacked(renamed, lambda files: files.update({"demo-1.5.dist-info/RECORD.jws": b"{}"}))
    with pytest.raises(HostError, match="the wheel is signed"):
        fatpack.split(renamed, dry_run=True)
    files = {**wheels.files_of({"demo.py": b"1", "lib.so": releases.library("80")}), "demo.py": b"2"}
    renamed.write_bytes(wheels.packed(files))
    with pytest.raises(FatpackError, match="RECORD has another value"):
        fatpack.split(renamed, dry_run=True)
    with pytest.raises(UsageError, match="say where to write"):
        fatpack.split(fat)


# The proof from the files alone.


def test_what_was_written_is_proved_as_json(done: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    fat, out = done
    assert main(["split", "--verify", str(fat), str(out), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    jsonschema.validate(document, json.loads(schema_text("split-proof")))
    assert document["proved"]
    assert [one["label"] for one in document["variants"]] == ["null", "sm80", "sm90"]
    assert document["questions"] > 200
    assert main(["split", "--verify", str(fat), str(out), "--by", "device"]) == 2


def test_a_schema_without_providers_is_proved_too(done: tuple[Path, Path], tmp_path: Path) -> None:
    fat, _ = done
    fatpack.split(fat, tmp_path / "old", schema_version="0.1.1")
    assert fatpack.verify_split(fat, tmp_path / "old").is_proved
    with pytest.raises(UsageError, match=r"schema version '0\.3'"):
        fatpack.split(fat, tmp_path / "new", schema_version="0.3")


def test_a_wheel_that_lost_more_is_not_proved(done: tuple[Path, Path]) -> None:
    fat, out = done
    repacked(out / f"{NAME}-sm90.whl", lambda files: files.update({"demo/__init__.py": b"value = 2\n"}))
    verdict = fatpack.verify_split(fat, out)
    assert not verdict
    (wrong,) = (one for one in verdict.variants if not one.is_proved)
    assert wrong.label == "sm90"
    assert any("demo/__init__.py" in problem for problem in wrong.problems)


def edited(files: dict[str, bytes], old: bytes, new: bytes) -> None:
    name = "demo-1.5.dist-info/variant.json"
    assert old in files[name]
    files[name] = files[name].replace(old, new)


def test_properties_that_promise_too_much_lose_a_device(done: tuple[Path, Path]) -> None:
    """The wheel of 9.0 with the properties of 8.0: it is proved by itself, and 8.x would get it."""
    fat, out = done
    index = out / INDEX
    document = json.loads(index.read_bytes())
    del document["variants"]["sm80"]
    document["variants"]["sm90"]["nvidia"]["sm_arch"] = ["80_real"]
    index.write_text(json.dumps(document, indent=2))
    (out / f"{NAME}-sm80.whl").unlink()
    path = out / f"{NAME}-sm90.whl"
    with zipfile.ZipFile(path) as archive:
        own = archive.read("demo-1.5.dist-info/variant.json")
    assert b"90_real" in own
    verdict = fatpack.verify_split(fat, out)
    assert {one.label for one in verdict.lost} == {"sm90"}
    assert {one.device for one in verdict.lost} >= {"8.0", "8.6", "8.9"}
    assert (verdict.lost[0].before, verdict.lost[0].after) == ("runs", "nothing runs")
    assert any("the index has other properties" in problem for one in verdict.variants for problem in one.problems)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda text: text.replace('"sm90": {', '"sm91": {'), "the index has no label sm90"),
        (lambda text: text.replace("90_real", "100_real"), "the index has other properties of sm90"),
        (lambda text: text.replace("0.0.1", "0.0.2"), "requires: expected nvidia-variant-provider>=0.0.1, found"),
        (lambda text: text.replace('"variants"', '"more": 1, "variants"'), "installers refuse it"),
        (lambda text: text[:40], "installers refuse it"),
    ],
)
def test_an_index_that_differs_is_a_problem(change: Callable[[str], str], says: str, done: tuple[Path, Path]) -> None:
    fat, out = done
    (out / INDEX).write_text(change((out / INDEX).read_text()))
    verdict = fatpack.verify_split(fat, out)
    assert verdict.exit_code == 1
    assert any(says in line for line in verdict.lines())


def test_a_missing_index_and_a_missing_folder_are_named(done: tuple[Path, Path], tmp_path: Path) -> None:
    fat, out = done
    (out / INDEX).unlink()
    assert any("installers know no label without it" in line for line in fatpack.verify_split(fat, out).lines())
    with pytest.raises(UsageError, match="no variant of"):
        fatpack.verify_split(fat, tmp_path)
    with pytest.raises(UsageError, match="is no folder"):
        fatpack.verify_split(fat, tmp_path / "gone")


def test_a_split_by_which_a_device_loses_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No device may get less than today: a plan that forgets one is found before anything is written."""
    from fatpack.commands.split import run
    from fatpack.targets.devices import Device

    kept = run.options_for_rest

    def forgetful(*arguments: object) -> object:
        options = kept(*arguments)  # type: ignore[arg-type]
        assert options is not None
        assert Device("nvidia", "sm_120") in options.devices
        return options.replace(devices=(Device("nvidia", "sm_75"),), keep_ptx="none")

    monkeypatch.setattr(run, "options_for_rest", forgetful)
    path = tmp_path / f"{NAME}.whl"
    path.write_bytes(releases.wheel("75 80 p80"))
    with pytest.raises(FatpackError, match="a device would get less than today") as caught:
        fatpack.split(path, tmp_path / "out", by="sm_80", null="rest")
    assert caught.value.exit_code == 1
    assert not (tmp_path / "out").exists()
