"""Slimming to a size: the steps in order, no device lost by steps 2 to 4, and nothing written where nothing fits."""

from __future__ import annotations

import io
import json
import shutil
import tarfile
import zipfile
from pathlib import Path

import jsonschema
import pytest
from tests.builders.fatbin import of_words
from tests.laws.rooms import FIXTURES

import fatpack as library
from fatpack.commands.slim import budget
from fatpack.commands.slim.keep_for_device import images_for_device
from fatpack.commands.slim.options import NameChange, SlimOptions
from fatpack.commands.slim.plan import plan_slim
from fatpack.errors import FatpackError, UsageError
from fatpack.io.source import BytesSource
from fatpack.main import main
from fatpack.targets.local_devices import parse_devices
from fatpack.targets.selection.model import CandidateImage
from fatpack.text.schemas import schema_text

LIBRARY = FIXTURES / "cuda_fatbin" / "hosts" / "libtwo.so"

FATBINS = [
    "60 70 75 80 86 89 90 p90",
    "80 86 87 90 90a p80 p90",
    "50 52 60 61 p50 p70 p90",
    "35 80 p35 p60 p80",
    "100 100a 100f 103 120 121 p100 p120",
    "80 80 L80 p80a",
    "p70 p80",
    "87 72 62",
]


def archs(path: Path) -> list[list[str]]:
    with library.open(path) as file:
        return [[image.label for image in found.images] for found in file.containers]


def planned(data: bytes, size: int, **more: object) -> budget.SizePlan:
    view = BytesSource(data, "x.fatbin").view()
    options = SlimOptions(size=budget.SizeRequest(size, **more))  # type: ignore[arg-type]
    return budget._Search(view, "x.fatbin", NameChange(), options.size).run(options)  # type: ignore[arg-type]


def left(data: bytes, options: SlimOptions) -> list[str]:
    return [row.image.label for row in plan_slim(BytesSource(data, "x.fatbin").view(), options).kept]


def served(labels: list[str]) -> set[str]:
    images = tuple(
        CandidateImage("ptx" if label.startswith("compute_") else "cubin", "sm_" + label.partition("_")[2], "")
        for label in labels
    )
    return {one.arch for one in budget._known_devices() if images_for_device(images, "cuda", one).needed}


@pytest.mark.parametrize("words", FATBINS)
def test_every_device_that_was_served_is_served(words: str) -> None:
    data = of_words(words)
    made = planned(data, 1)
    assert not made.fits
    before, after = left(data, SlimOptions(keep_ptx="all", drop=("none",))), left(data, made.options)
    assert served(before) <= served(after)
    newest = [label for label in before if label.startswith("compute_") and label[-1].isdigit()][-1:]
    assert set(newest) <= set(after)


@pytest.mark.parametrize(
    ("words", "after", "steps"),
    [
        ("60 80 86 89", ["sm_60", "sm_80"], [3]),
        ("80 80", ["sm_80"], []),
        ("80 86 87 90a 90", ["sm_80", "sm_87", "sm_90a"], [2, 3]),
        ("100 100f", ["sm_100", "sm_100f"], []),
    ],
)
def test_what_goes(words: str, after: list[str], steps: list[int]) -> None:
    made = planned(of_words(words), 1)
    if steps:
        assert [one.step for one in made.steps] == steps
        assert left(of_words(words), made.options) == after


def test_the_first_that_fits_is_the_last() -> None:
    data = of_words("80 86 89 90")
    one = planned(data, len(data) - 1)
    assert (one.fits, [step.what for step in one.steps]) == (True, ["sm_89 of 1 container"])
    assert left(data, one.options) == ["sm_80", "sm_86", "sm_90"]
    assert one.size == one.steps[-1].after < one.steps[-1].before == len(data)
    two = planned(data, one.size - 1)
    assert left(data, two.options) == ["sm_80", "sm_90"]
    assert planned(data, len(data)).steps == ()


def test_devices_go_from_the_end_of_the_priority() -> None:
    data = of_words("70 80 90 100")
    devices = parse_devices(["sm_90,sm_80,sm_100"])
    all_three = planned(data, len(data) - 1, priority=devices)
    assert left(data, all_three.options) == ["sm_80", "sm_90", "sm_100"]
    one = planned(data, len(of_words("90")), priority=devices)
    assert (one.fits, left(data, one.options)) == (True, ["sm_90"])
    assert {step.step for step in one.steps} == {6}
    assert not planned(data, 1, priority=devices).fits


@pytest.mark.parametrize(("words", "devices"), [("121a p121", ""), ("90 100 p120", "sm_90")])
def test_ptx_for_later_devices_goes_if_that_is_wanted(words: str, devices: str) -> None:
    data = of_words(words)
    view = BytesSource(data, "x.fatbin").view()

    def reached(size: int, *, drops_ptx: bool) -> budget.SizePlan:
        request = budget.SizeRequest(size, drops_ptx=drops_ptx)
        options = SlimOptions(devices=parse_devices([devices]) if devices else (), size=request)
        return budget._Search(view, "x.fatbin", NameChange(), request).run(options)

    smallest = reached(1, drops_ptx=False)
    assert any(label.startswith("compute_") for label in left(data, smallest.options))
    assert "keep_ptx='none' gives PTX up" in str(budget.SizeNotReached(smallest, ("x.fatbin",)).hint)
    wanted = reached(smallest.size - 1, drops_ptx=True)
    assert wanted.fits and wanted.steps[-1].step == 5
    assert not any(label.startswith("compute_") for label in left(data, wanted.options))


def test_ptx_that_a_known_device_needs_stays() -> None:
    data = of_words("80 p90")
    assert "compute_90" in left(data, planned(data, 1, drops_ptx=True).options)


def test_ptx_that_takes_the_place_of_cubins_stays() -> None:
    data = of_words("p80 80 90 100 120 p120")
    made = planned(data, 1, drops_ptx=True)
    assert served(left(data, SlimOptions(keep_ptx="all", drop=("none",)))) <= served(left(data, made.options))


def slim(lib: Path, *words: str) -> tuple[int, Path]:
    out = lib.with_name("out.so")
    return main(["slim", str(lib), *words, "-o", str(out), "--force"]), out


@pytest.fixture
def lib(tmp_path: Path) -> Path:
    return Path(shutil.copy(LIBRARY, tmp_path / "libtwo.so"))


def test_a_library_fits_by_ptx_that_serves(lib: Path, capsys: pytest.CaptureFixture[str]) -> None:
    certificate = lib.with_name("proof.json")
    code, out = slim(lib, "--max-size", "40kB", "--certificate", str(certificate))
    assert (code, archs(out)) == (0, [["sm_80", "compute_90"], ["compute_75", "sm_90a"]])
    assert out.stat().st_size <= 40_000
    assert json.loads(certificate.read_text())["proved"]
    said = capsys.readouterr().out
    assert "architecture  images   stored  share" in said
    assert "4     served by PTX, compiled at first use: sm_75 of 1 container, sm_90 of 1 container" in said
    assert "39.6 kB fits into 40 kB" in said


def test_what_does_not_fit_is_not_written(lib: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out = slim(lib, "--max-size", "20kB")
    assert (code, out.exists()) == (1, False)
    said = capsys.readouterr().err
    assert "architecture  images   stored  share" in said
    assert "the smallest size reached is 39.6 kB, more than 20 kB" in said
    assert "--priority DEVICE,…" in said


def test_kernels_that_did_not_run_are_the_last_to_go(lib: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = lib.with_name("used.txt")
    names.write_text("stat_k")
    words = ["--used", str(names), "--drop-unused"]
    code, out = slim(lib, "--max-size", "40kB", *words)
    assert (code, archs(out)) == (0, [["sm_80", "compute_90"], ["compute_75", "sm_90a"]])
    code, out = slim(lib, "--max-size", "33kB", *words)
    assert (code, archs(out)) == (1, [[], ["compute_75", "sm_90a"]])
    said = capsys.readouterr().out
    assert "7     kernels that did not run" in said
    assert "3 kernels of 5 cannot run any more" in said


def test_json_has_the_steps(lib: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["slim", str(lib), "--max-size", "40kB", "--dry-run", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    jsonschema.validate(document, json.loads(schema_text("slim")))
    size = document["size"]
    assert (size["max_size"], size["fits"], [one["step"] for one in size["steps"]]) == (40_000, True, [4])
    assert sum(one["images"] for one in size["archs"]) == 6
    lines = library.write_report(lib, io.BytesIO(), kind="markdown").to_dict()["worth"]["costs"]
    told = {one["label"]: (one["devices"], one["instead"]) for one in lines}
    assert {one["arch"]: (one["devices"], one["instead"]) for one in size["archs"]} == told
    assert any(one["instead"] for one in size["archs"])
    assert size["size"] == document["files"][0]["after"]


def test_a_wheel_is_measured_as_it_is_written(tmp_path: Path) -> None:
    wheel = tmp_path / "demo-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as made:
        made.write(LIBRARY, "demo/libtwo.so")
        made.writestr("demo-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n")
        made.writestr("demo-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        made.writestr("demo-1.0.dist-info/RECORD", "demo-1.0.dist-info/RECORD,,\n")
    limit = wheel.stat().st_size - 1000
    assert main(["slim", str(wheel), "--max-size", str(limit), "-d", str(tmp_path / "out")]) == 0
    (made_wheel,) = (tmp_path / "out").iterdir()
    assert made_wheel.stat().st_size <= limit
    assert f"max{limit}" in made_wheel.name
    done = library.slim(wheel, tmp_path / "by-library", max_size=limit)
    assert Path(done.path).read_bytes() == made_wheel.read_bytes()
    assert any("fits into" in note for note in done.notes)
    with pytest.raises(FatpackError, match="the smallest size reached"):
        library.slim(wheel, tmp_path / "none", max_size="1kB")
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--max-size", "big"], "--max-size: 'big' is no size"),
        (["--max-size", "0"], "--max-size is 0"),
        (["--priority", "sm_90", "--for", "sm_90"], "--priority goes with --max-size"),
        (["--lossless", "--max-size", "1kB"], "--lossless keeps every image"),
    ],
)
def test_options_that_contradict_are_refused(
    lib: Path, capsys: pytest.CaptureFixture[str], words: list[str], problem: str
) -> None:
    code, out = slim(lib, *words)
    assert (code, out.exists()) == (2, False)
    assert problem in capsys.readouterr().err


def test_folders_have_no_size(lib: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["slim", str(lib.parent), "--max-size", "1MB", "-d", str(lib.parent / "out")]) == 2
    assert "--max-size is about one file" in capsys.readouterr().err
    with pytest.raises(UsageError):
        library.slim(lib, lib.with_name("o.so"), max_size="much")


def test_images_have_no_size(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    image = tmp_path / "image.tar"
    with tarfile.open(image, "w") as made:
        for name, content in (("oci-layout", b'{"imageLayoutVersion":"1.0.0"}'), ("index.json", b'{"manifests":[]}')):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            made.addfile(member, io.BytesIO(content))
    assert main(["slim", str(image), "--max-size", "1MB", "-o", str(tmp_path / "out.tar")]) == 2
    assert "a size is reached for libraries and packages, and this is an image" in capsys.readouterr().err
    assert not (tmp_path / "out.tar").exists()


def test_a_lossless_step_comes_first(lib: Path) -> None:
    code, out = slim(lib, "--max-size", "36kB", "--driver", "550")
    assert (code, archs(out)) == (0, archs(lib))
