"""``fatpack split`` through the command and the library: what is written, what is said, what is refused."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import jsonschema
import pytest
from tests.builders import releases
from tests.builders import wheels as build
from tests.builders.releases import NAME

import fatpack
from fatpack.commands.split.request import make_request
from fatpack.commands.split.run import split_packages
from fatpack.main import main
from fatpack.text.schemas import schema_text


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    """Return a wheel with code for 7.5 to 10.0 and PTX for 9.0, and a second container with less."""
    path = tmp_path / f"{NAME}.whl"
    path.write_bytes(releases.wheel("75 80 86 90 100 p90", "80 p90"))
    return path


def labels_of(folder: Path) -> list[str]:
    return sorted(path.stem.removeprefix(f"{NAME}-") for path in folder.glob(f"{NAME}-*.whl"))


def test_a_wheel_is_split_by_family_and_proved(wheel: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert main(["split", str(wheel), "-d", str(out)]) == 0
    assert labels_of(out) == ["null", "sm100", "sm75", "sm80", "sm90"]
    assert (out / wheel.name).read_bytes() == wheel.read_bytes()
    index = json.loads((out / "demo-1.5-variants.json").read_bytes())
    assert set(index["variants"]) == {"null", "sm100", "sm75", "sm80", "sm90"}
    assert index["variants"]["null"] == {}
    for label in labels_of(out):
        with zipfile.ZipFile(out / f"{NAME}-{label}.whl") as archive:
            own = json.loads(archive.read("demo-1.5.dist-info/variant.json"))
            rows = [line.split(",") for line in archive.read("demo-1.5.dist-info/RECORD").decode().splitlines()]
            assert archive.testzip() is None
            for path, stated, size in rows:
                data = archive.read(path)
                assert (stated, size) in (("", ""), (build.digest(data), str(len(data))))
        assert own == {**index, "variants": {label: index["variants"][label]}}
    capsys.readouterr()
    assert main(["split", "--verify", str(wheel), str(out)]) == 0
    assert "5 of 5 packages proved" in capsys.readouterr().out


def test_each_wheel_has_the_code_of_its_devices_alone(wheel: Path, tmp_path: Path) -> None:
    fatpack.split(wheel, tmp_path)
    archs = {}
    for label in labels_of(tmp_path):
        rows = fatpack.rows(tmp_path / f"{NAME}-{label}.whl")
        archs[label] = sorted({row.label for row in rows if row.row == "image" and row.label})
    assert archs == {
        "sm75": ["sm_75"],
        "sm80": ["sm_80", "sm_86"],
        "sm90": ["compute_90", "sm_90"],
        "sm100": ["compute_90", "sm_100"],  # the second container has nothing else that runs there
        "null": ["compute_90", "sm_100", "sm_75", "sm_80", "sm_86", "sm_90"],
    }


def test_a_dry_run_says_what_each_device_gets_and_writes_nothing(
    wheel: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["split", str(wheel), "--dry-run"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [path.name for path in tmp_path.iterdir()] == [wheel.name]
    assert next(line for line in lines if line.startswith("sm80 ")).split()[1:6] == [
        "8.0,",
        "8.6,",
        "8.7,",
        "8.8,",
        "8.9",
    ]
    row = next(line for line in lines if line.startswith("9.0 "))
    assert "runs" in row
    assert "sm90: runs" in row
    assert any("all others: the fat package" in line for line in lines)
    assert main(["split", str(wheel), "--dry-run", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    jsonschema.validate(document, json.loads(schema_text("split")))
    assert document == fatpack.split(wheel, dry_run=True).to_dict()
    (package,) = document["releases"][0]["packages"]
    found = {one["device"]: (one["today"], one["label"], one["then"]) for one in package["devices"]}
    assert found["8.6"] == ("runs", "sm80", "runs")
    assert found["7.0"] == ("nothing runs", "null", "nothing runs")
    assert found["12.0"] == ("runs", "null", "runs"), "PTX of an earlier major serves it, and the fat wheel has it"


def test_a_long_split_says_how_far_it_is(tmp_path: Path) -> None:
    """Planning thirty labels of a large wheel takes half a minute: each library is told."""
    path = tmp_path / f"{NAME}.whl"
    path.write_bytes(releases.wheel("80 90", more={"demo/other.so": releases.library("80")}))
    told: list[tuple[int, int]] = []
    request = make_request([str(path)], {}, dry_run=True).replace(planned=lambda done, of: told.append((done, of)))
    split_packages(request, lambda _: None)
    assert told == [(0, 2), (1, 2), (2, 2)]
