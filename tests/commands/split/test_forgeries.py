"""Folders that install something else than what ``split`` wrote: the proof finds each of them."""

from __future__ import annotations

import io
import json
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.builders import releases, wheels
from tests.builders.fat_conda import fat_package
from tests.builders.releases import NAME

import fatpack
from fatpack.commands.split.model import SplitVerdict

INDEX = "demo-1.5-variants.json"
INFO = "demo-1.5.dist-info/"
VARIANT = f"{INFO}variant.json"


@pytest.fixture
def done(tmp_path: Path) -> tuple[Path, Path]:
    """Return a fat wheel, and the folder with what it was split into."""
    fat, out = tmp_path / f"{NAME}.whl", tmp_path / "out"
    fat.write_bytes(releases.wheel("80 90 p90"))
    fatpack.split(fat, out)
    return fat, out


@pytest.fixture
def condas(tmp_path: Path) -> tuple[Path, Path]:
    """Return a fat conda package, and the folder with what it was split into."""
    fat = fat_package(tmp_path, "80 90 p90")
    fatpack.split(fat, tmp_path / "out")
    return fat, tmp_path / "out"


def repacked(path: Path, change: Callable[[dict[str, bytes]], None], to: Path | None = None) -> None:
    """Pack a wheel anew with other files in their order, and a RECORD that is right about them."""
    with zipfile.ZipFile(path) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    change(files)
    record = f"{INFO}RECORD"
    lines = [f"{name},{wheels.digest(data)},{len(data)}\n" for name, data in files.items() if name != record]
    files[record] = "".join([*lines, f"{record},,\n"]).encode()
    (to or path).write_bytes(wheels.packed(files))


def problems(verdict: SplitVerdict) -> list[str]:
    """Return all problems of a verdict, which must not be proved."""
    assert verdict.exit_code == 1
    return [*verdict.problems, *(problem for one in verdict.variants for problem in one.problems)]


def edit(path: Path, change: Callable[[dict[str, object]], None]) -> None:
    document = json.loads(path.read_bytes())
    change(document)
    path.write_text(json.dumps(document, indent=2))


@pytest.mark.parametrize("kind", ["done", "condas"])
def test_the_fat_package_in_the_folder_is_the_one_given(kind: str, request: pytest.FixtureRequest) -> None:
    """Installers without labels take it, and so do devices without a label where there is no null."""
    fat, out = request.getfixturevalue(kind)
    assert fatpack.verify_split(fat, out).is_proved
    copy = out / fat.name
    data = bytearray(copy.read_bytes())
    data[100] ^= 1
    copy.write_bytes(data)
    (found,) = problems(fatpack.verify_split(fat, out))
    assert f"{copy} is not {fat} at 0x64" in found
    copy.write_bytes(fat.read_bytes() + b"\0")
    (found,) = problems(fatpack.verify_split(fat, out))
    assert f"{fat.stat().st_size + 1} bytes, not {fat.stat().st_size}" in found
    copy.unlink()
    (found,) = problems(fatpack.verify_split(fat, out))
    assert f"{copy} is missing" in found
    copy.mkdir()
    (found,) = problems(fatpack.verify_split(fat, out))
    assert f"{copy} is no regular file" in found


@pytest.mark.parametrize(
    "name",
    [
        "demo-1.5-1-py3-none-any-sm80.whl",
        "demo-1.5-1-py3-none-any.whl",
        "demo-1.5-py3-none-linux_x86_64.whl",
        "Demo-1.5.0-py3-none-any.whl",
    ],
)
def test_a_wheel_that_shadows_a_proved_one_is_named(name: str, done: tuple[Path, Path]) -> None:
    fat, out = done
    shutil.copy(out / f"{NAME}-sm80.whl", out / name)
    (found,) = problems(fatpack.verify_split(fat, out))
    assert f"{out / name} is of the same release, and of none of the fat packages given" in found


def test_packages_of_other_releases_are_nobodys_business(done: tuple[Path, Path]) -> None:
    fat, out = done
    for name in ("demo-1.6-py3-none-any.whl", "other-1.5-py3-none-any-sm80.whl", "notes.txt"):
        (out / name).write_bytes(b"")
    assert fatpack.verify_split(fat, out).is_proved


def test_a_conda_build_that_shadows_a_proved_one_is_named(condas: tuple[Path, Path]) -> None:
    fat, out = condas
    shutil.copy(fat, out / "demo-1.5-h12_1.conda")
    (found,) = problems(fatpack.verify_split(fat, out))
    assert "demo-1.5-h12_1.conda is of the same release" in found


def test_a_conda_package_under_the_name_of_another_is_found(condas: tuple[Path, Path]) -> None:
    fat, out = condas
    shutil.copy(out / "demo-1.5-sm80_h12_0.conda", out / "demo-1.5-sm90_h12_0.conda")
    found = problems(fatpack.verify_split(fat, out))
    assert any("describes demo-1.5-sm80_h12_0, and the file name is demo-1.5-sm90_h12_0.conda" in one for one in found)


def forged(text: bytes) -> bytes:
    assert b"nvidia-variant-provider>=" in text
    return text.replace(b"nvidia-variant-provider>=", b"evil-variant-provider>=")


def test_a_provider_that_split_does_not_write_is_named(done: tuple[Path, Path]) -> None:
    """Installers run what a provider names; in the index and all wheels it is the same."""
    fat, out = done
    for path in (path for path in out.glob(f"{NAME}-*.whl")):
        repacked(path, lambda files: files.update({VARIANT: forged(files[VARIANT])}))
    (out / INDEX).write_bytes(forged((out / INDEX).read_bytes()))
    found = [one for one in problems(fatpack.verify_split(fat, out)) if "evil" in one]
    assert len(found) == 4  # the index and three wheels
    assert (
        "providers: nvidia: requires: expected nvidia-variant-provider>=0.0.1, found evil-variant-provider" in found[0]
    )


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda one: one.update({"$schema": "https://example.org/v9.json"}), "$schema: expected https://"),
        (lambda one: one["providers"]["nvidia"].update(optional=True), "optional: expected nothing, found True"),
        (lambda one: one["variants"].update(zz=one["variants"]["sm80"]), "it has the label zz, and no wheel beside"),
        (lambda one: one["variants"].pop("sm90"), "the index has no label sm90"),
    ],
)
def test_an_index_that_split_does_not_write_is_named_once(
    change: Callable[[dict[str, object]], None], says: str, done: tuple[Path, Path]
) -> None:
    fat, out = done
    edit(out / INDEX, change)
    (found,) = problems(fatpack.verify_split(fat, out))
    assert says in found


def test_a_label_of_the_index_without_a_wheel_is_named(done: tuple[Path, Path]) -> None:
    fat, out = done
    (out / f"{NAME}-sm90.whl").unlink()
    (found,) = problems(fatpack.verify_split(fat, out))
    assert "it has the label sm90, and no wheel beside it has" in found


@pytest.mark.parametrize(("name", "line"), [("WHEEL", b"Build: 1\n"), ("METADATA", b"Version: 1.5.1\n")])
def test_a_variant_wheel_has_the_tag_and_version_of_the_fat_one(
    name: str, line: bytes, done: tuple[Path, Path]
) -> None:
    fat, out = done

    def change(files: dict[str, bytes]) -> None:
        files[INFO + name] = line + files[INFO + name].replace(b"Version: 1.5\n", b"")

    repacked(out / f"{NAME}-sm90.whl", change)
    found = problems(fatpack.verify_split(fat, out))
    assert any(f"{INFO}{name}: lines that must not change" in one for one in found), found


def test_the_first_difference_of_a_library_is_shown_with_its_place(done: tuple[Path, Path]) -> None:
    fat, out = done

    def change(files: dict[str, bytes]) -> None:
        data = bytearray(files["demo/libdemo.so"])
        data[9] ^= 1  # padding of the file header
        files["demo/libdemo.so"] = bytes(data)

    repacked(out / f"{NAME}-sm90.whl", change)
    (found,) = (one for one in problems(fatpack.verify_split(fat, out)) if "libdemo.so: 1 difference: " in one)
    assert " at " in found
    assert "expected none" not in found
    assert "found nothing" not in found


@pytest.mark.parametrize(
    ("data", "says"), [(b"junk" * 9, "it is no zip archive"), (b"", "it is no zip archive"), (None, "not a zip file")]
)
def test_a_damaged_wheel_is_called_so(data: bytes | None, says: str, done: tuple[Path, Path]) -> None:
    fat, out = done
    path = out / f"{NAME}-sm90.whl"
    path.write_bytes(path.read_bytes()[:-100] if data is None else data)
    found = problems(fatpack.verify_split(fat, out))
    assert any(says in one and not one.endswith("found ") for one in found), found


def test_a_description_that_is_too_large_is_called_so(done: tuple[Path, Path]) -> None:
    fat, out = done
    path = out / f"{NAME}-sm90.whl"
    repacked(path, lambda files: files.update({VARIANT: files[VARIANT] + b" " * (4 << 20)}))
    found = problems(fatpack.verify_split(fat, out))
    assert any("variant.json is too large: at most 4194304 bytes are read" in one for one in found), found
    assert not any("is missing" in one for one in found)
    (out / INDEX).write_bytes((out / INDEX).read_bytes() + b" " * (4 << 20))
    assert any(f"{out / INDEX} is too large" in one for one in problems(fatpack.verify_split(fat, out)))


def test_losses_of_many_drivers_and_devices_are_one_line(done: tuple[Path, Path]) -> None:
    fat, out = done
    shutil.copy(out / f"{NAME}-sm80.whl", out / f"{NAME}-sm90.whl")
    verdict = fatpack.verify_split(fat, out)
    assert len(verdict.lost) > 5
    (line,) = (line for line in verdict.lines() if "of the fat package" in line)
    assert line.startswith("9.0 with a driver of CUDA 11.8 to ")


def test_an_added_file_is_named_in_words(done: tuple[Path, Path]) -> None:
    fat, out = done
    repacked(out / f"{NAME}-sm90.whl", lambda files: files.update({"demo/evil.py": b"1"}))
    found = problems(fatpack.verify_split(fat, out))
    assert any("expected none, found demo/evil.py" in one for one in found), found
    assert not any("[" in one for one in found), found


def test_a_line_of_record_without_a_digest_is_told_in_words(done: tuple[Path, Path]) -> None:
    fat, out = done
    path, record = out / f"{NAME}-sm90.whl", f"{INFO}RECORD"
    with zipfile.ZipFile(path) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    lines = files[record].splitlines(keepends=True)
    files[record] = b"".join(b"demo/__init__.py,,\n" if b"__init__" in line else line for line in lines)
    path.write_bytes(wheels.packed(files))
    (found,) = (one for one in problems(fatpack.verify_split(fat, out)) if "RECORD: files" in one)
    assert "expected demo/__init__.py with digest and size, found demo/__init__.py without digest and without" in found


def test_devices_that_take_another_image_than_before_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A wheel without the image that a device prefers is proved if another one runs, and says so."""
    from fatpack.main import main

    fat, out, library = tmp_path / f"{NAME}.whl", tmp_path / "out", "demo/libdemo.so"
    fat.write_bytes(releases.wheel("80 86 90"))
    fatpack.split(fat, out)
    assert fatpack.verify_split(fat, out).changed == ()
    assert main(["split", "--verify", str(fat), str(out)]) == 0
    assert "another image" not in capsys.readouterr().out

    def change(files: dict[str, bytes]) -> None:
        slim = io.BytesIO()
        fatpack.slim(io.BytesIO(files[library]), slim, drop="sm_86")
        files[library] = slim.getvalue()

    repacked(out / f"{NAME}-sm80.whl", change)
    verdict = fatpack.verify_split(fat, out)
    assert verdict.is_proved
    assert {one.device for one in verdict.changed} == {"8.6", "8.9"}
    sure = {(one.device, one.before, one.after) for one in verdict.changed if "perhaps" not in one.before}
    assert ("8.6", "sm_86", "sm_80") in sure
    assert main(["split", "--verify", str(fat), str(out)]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("another image runs: ")]
    assert lines[0].startswith("another image runs: 8.6 with a driver of CUDA 11.1 to ")
    assert lines[0].endswith(f"gets sm80: {library}: sm_80, and sm_86 of the fat package")
