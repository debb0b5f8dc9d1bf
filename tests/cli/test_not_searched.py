"""What `inspect` says about bytes it did not search, and files that it does not read."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.builders import elf
from tests.cli.conftest import Ran
from tests.laws.rooms import FIXTURES

from fatpack.io import limits

Fatpack = Callable[..., Ran]

FATBIN = (FIXTURES / "cuda_fatbin" / "recorded" / "v130_none.fatbin").read_bytes()
LINE = "  not searched for containers: .rodata, .text (36 B); --deep searches them\n"


@pytest.fixture
def file(folder: Path) -> Path:
    path = folder / "lib.so"
    path.write_bytes(elf.with_contents(nv_fatbin=FATBIN, text=b"code", rodata=bytes(32)))
    return path


def test_the_sections_that_were_left_are_named_on_request(file: Path, fatpack: Fatpack) -> None:
    assert "not searched" not in fatpack("inspect", str(file)).out
    assert LINE in fatpack("inspect", "-v", str(file)).out
    assert "not searched" not in fatpack("inspect", "-v", "--deep", str(file)).out
    (record,) = json.loads(fatpack("inspect", "--json", str(file)).out)["files"]
    assert record["not_searched"] == [
        {"section": ".rodata", "count": 1, "size": 32},
        {"section": ".text", "count": 1, "size": 4},
    ]
    assert record["found_outside"] is False


def test_they_are_named_in_any_case_where_containers_lie_outside_the_usual_sections(
    folder: Path, fatpack: Fatpack
) -> None:
    (folder / "lib.so").write_bytes(elf.with_contents(cask_resource=FATBIN, text=b"code", rodata=bytes(32)))
    ran = fatpack("inspect", "lib.so")
    assert ran.code == 0
    assert LINE in ran.out


def test_a_file_without_device_code_was_searched_to_its_last_byte(folder: Path, fatpack: Fatpack) -> None:
    (folder / "plain.so").write_bytes(elf.with_contents(text=b"code", rodata=bytes(32)))
    ran = fatpack("inspect", "-v", "plain.so")
    assert (ran.code, ran.out.splitlines()[1:]) == (0, ["  no device code found"])
    (record,) = json.loads(fatpack("inspect", "--json", "plain.so").out)["files"]
    assert "not_searched" not in record


def test_what_is_not_read_is_no_success(folder: Path, fatpack: Fatpack) -> None:
    (folder / "layer.tar").write_bytes(bytes(257) + b"ustar\x0000" + bytes(256))
    ran = fatpack("inspect", "layer.tar")
    assert ran.code == 1
    assert "no device code found" not in ran.out
    assert "FP1006 at 0x0: a tar archive: not read, only searched for containers; tar -xf unpacks it" in ran.out


def test_containers_beyond_a_limit_are_an_error(
    folder: Path, fatpack: Fatpack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "CONTAINERS", 2)
    (folder / "many.o").write_bytes(elf.with_contents(nv_fatbin=FATBIN * 3))
    ran = fatpack("inspect", "many.o")
    assert ran.code == 3
    assert "error FP1005" in ran.out


def test_thousands_of_findings_hide_no_container(folder: Path, fatpack: Fatpack) -> None:
    (folder / "many.o").write_bytes(elf.with_contents(nv_fatbin=(FATBIN + b"rubbish!") * 2500))
    (record,) = json.loads(fatpack("inspect", "--json", "many.o").out)["files"]
    assert len(record["containers"]) == 2500
    listed = [item for item in record["findings"] if item["code"] == "FP1002"]
    assert len(listed) + sum(item["count"] for item in record["unlisted_findings"]) == 2500
    assert {item["section"] for item in listed} == {".nv_fatbin"}
    assert "FP1002, 2500 times, first at" in fatpack("inspect", "many.o").out


def test_images_that_a_limit_leaves_out_are_one_error_of_extract(
    folder: Path, fatpack: Fatpack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "CONTAINERS", 2)
    (folder / "many.o").write_bytes(elf.with_contents(nv_fatbin=FATBIN * 3))
    ran = fatpack("extract", "many.o", "-d", "out")
    assert ran.code == 3
    assert ran.err.count("FP1005") == 1
    assert len(list((folder / "out").iterdir())) == 4
