"""Metadata beside an image that is a file of its own: when it is read, and what reports say of it."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from tests.laws.rooms import FIXTURES

from fatpack.commands.inspect.record import make_file_record
from fatpack.errors import BadValue, Unsupported
from fatpack.io.open import open_source
from fatpack.io.source import BytesSource, View
from fatpack.tabular.columns import RowOptions
from fatpack.tabular.read_file import read_rows
from fatpack.text.schemas import INSPECT as SCHEMA
from fatpack.text.schemas import schema_text

CACHE = FIXTURES / "triton"


@pytest.fixture
def cubin(tmp_path: Path) -> Path:
    shutil.copy(CACHE / "sm_90" / "sum_kernel.cubin", tmp_path)
    return tmp_path / "sum_kernel.cubin"


def record_of(path: Path) -> dict[str, Any]:
    with open_source(path) as source:
        return make_file_record(source.view())


def codes_of(record: dict[str, Any]) -> list[str]:
    return [item["code"] for item in record["findings"]]


def with_metadata(path: Path, **changes: object) -> Path:
    values = json.loads((CACHE / "sm_90" / "sum_kernel.json").read_bytes())
    path.with_suffix(".json").write_text(json.dumps({**values, **changes}))
    return path


def test_what_it_says_is_in_the_record_as_the_schema_has_it(cubin: Path) -> None:
    record = record_of(with_metadata(cubin))
    assert record["image"]["metadata"] == {
        "file": "sum_kernel.json",
        "producer": "Triton",
        "triple": "nvptx64-nvidia-cuda",
        "arch": "sm_90",
        "kernel": "sum_kernel",
        "warp_size": 32,
        "threads": 256,
        "shared": 32,
    }
    assert codes_of(record) == []
    Draft202012Validator(json.loads(schema_text("inspect"))).validate({"schema": SCHEMA, "files": [record]})


def test_without_it_nothing_is_reported(cubin: Path) -> None:
    assert "metadata" not in record_of(cubin)["image"]


@pytest.mark.parametrize(
    ("changes", "codes"),
    [
        ({"target": {"backend": "cuda", "arch": 80, "warp_size": 32}}, ["FP1111"]),
        ({"name": "other"}, ["FP1112"]),
        ({"num_warps": 4}, ["FP1113"]),
        # The launch of another target is another one: that is said once.
        ({"target": {"backend": "hip", "arch": "gfx942", "warp_size": 64}}, ["FP1111"]),
    ],
)
def test_what_the_image_contradicts_is_a_warning_in_reports_and_rows(
    cubin: Path, changes: dict[str, Any], codes: list[str]
) -> None:
    record = record_of(with_metadata(cubin, **changes))
    assert codes_of(record) == codes
    assert record["findings"][0]["message"].startswith("sum_kernel.json says ")
    with open_source(cubin) as source:
        image, file = read_rows(source.view(), RowOptions())
    assert image.findings == tuple(codes)
    assert file.exit_code == 1


def test_it_is_read_for_files_that_are_named_by_their_path_alone(cubin: Path) -> None:
    with_metadata(cubin, name="other")
    data = cubin.read_bytes()
    assert codes_of(make_file_record(BytesSource(data, str(cubin)).view())) == []
    with cubin.open("rb") as file, open_source(file) as source:
        assert codes_of(make_file_record(source.view())) == []


class Neighbours:
    """Files beside one, by their names."""

    def __init__(self, **files: bytes) -> None:
        self._files = {name.replace("__", "."): data for name, data in files.items()}

    def read(self, name: str, most: int) -> bytes | None:
        return self._files[name][:most] if name in self._files else None

    def names(self, suffix: str) -> list[str]:
        return [name for name in self._files if name.endswith(suffix)]


def test_who_takes_a_package_apart_says_what_is_beside_a_member() -> None:
    source = BytesSource((CACHE / "sm_90" / "sum_kernel.cubin").read_bytes(), "x.zip/sum_kernel.cubin")
    source.siblings = Neighbours(sum_kernel__json=b'{"num_warps": 8, "name": "other"}')
    assert codes_of(make_file_record(source.view())) == ["FP1112"]


def test_in_the_folder_of_a_model_the_metadata_of_the_package_is_taken() -> None:
    data = (CACHE / "sm_90" / "sum_kernel.cubin").read_bytes()
    metadata = b'{"AOTI_DEVICE_KEY": "cuda", "AOTI_COMPUTE_CAPABILITY": "80"}'
    for folder, codes in (("data/aotinductor/model", ["FP1111"]), ("data/other/model", [])):
        source = BytesSource(data, f"{folder}/c1.cubin")
        source.siblings = Neighbours(c0__wrapper_metadata__json=metadata)
        assert codes_of(make_file_record(source.view())) == codes


def test_a_part_of_a_file_has_nothing_beside_it(cubin: Path) -> None:
    with_metadata(cubin, name="other")
    with open_source(cubin) as source:
        part = View(source, 0, source.size, (source.name, "member"))
        assert codes_of(make_file_record(part)) == []


@pytest.mark.parametrize("content", [b"", b"{", b"\x7fELF", b" " * 300_000])
def test_metadata_that_cannot_be_read_is_a_finding(cubin: Path, content: bytes) -> None:
    cubin.with_suffix(".json").write_bytes(content)
    assert codes_of(record_of(cubin)) == ["FP1005" if len(content) > 100_000 else "FP1114"]


def test_what_is_no_file_is_not_waited_for(cubin: Path) -> None:
    os.mkfifo(cubin.with_suffix(".json"))
    assert "metadata" not in record_of(cubin)["image"]


def test_a_folder_is_no_metadata(cubin: Path) -> None:
    cubin.with_suffix(".json").mkdir()
    assert "metadata" not in record_of(cubin)["image"]


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (PermissionError(13, "Permission denied"), "Permission denied"),
        (BadValue("the checksum is wrong", format="zip", field="crc"), "crc: the checksum is wrong"),
        (Unsupported("it is encrypted"), "it is encrypted"),
    ],
)
def test_metadata_that_may_not_be_read_is_a_finding(error: Exception, text: str) -> None:
    class Failing(Neighbours):
        def read(self, name: str, most: int) -> bytes | None:
            raise error

    source = BytesSource((CACHE / "sm_90" / "sum_kernel.cubin").read_bytes(), "sum_kernel.cubin")
    source.siblings = Failing()
    record = make_file_record(source.view())
    assert codes_of(record) == ["FP1114"]
    assert record["findings"][0]["message"] == f"the metadata beside it: {text}"


def test_a_name_that_is_too_long_for_a_neighbour(tmp_path: Path) -> None:
    path = tmp_path / f"{'k' * 249}.cubin"
    shutil.copy(CACHE / "sm_90" / "sum_kernel.cubin", path)
    assert "metadata" not in record_of(path)["image"]
