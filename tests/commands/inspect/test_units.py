"""The line that says what is registered where nothing is missing: per unit, and for many members together."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import jsonschema
import pytest
from tests import reference
from tests.laws.rooms import FIXTURES

from fatpack.binary.memory import HostMemory, MemorySection
from fatpack.commands.inspect.record import make_file_record
from fatpack.commands.inspect.text import has_registration, registration_lines
from fatpack.io.open import open_source
from fatpack.io.source import BytesSource
from fatpack.main import main
from fatpack.registration.analysis.analyze import names_in_strings
from fatpack.text.schemas import schema_text


def shown(path: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    main(["inspect", str(path)])
    return [
        line.strip()
        for line in capsys.readouterr().out.splitlines()
        if "registered: " in line or " containers; " in line
    ]


@pytest.mark.parametrize(
    ("host", "words"),
    [
        ("cuda_fatbin/hosts/single.o", ["registered: 3 kernels, 2 variables, by nvcc calls"]),
        ("elf/clang-22-hip.o", ["registered: 1 kernel, by clang calls"]),
        ("elf/clang-22-openmp-gfx90a.o", ["registered: 1 kernel, by clang ≥ 21 entries"]),
        ("cuda_fatbin/hosts/libtwo.so", ["2 records of CUDA register containers; --runtime follows the code"]),
        ("cuda_fatbin/hosts/clang_win.obj", []),  # a finding says what is wrong with it
        ("offload_binary/llvm-22-four.bin", []),
    ],
)
def test_a_line_says_what_a_file_registers(host: str, words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(FIXTURES / host, capsys) == words


def test_members_have_a_line_each_or_one_together(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    archive = tmp_path / "libx.a"
    unit = FIXTURES / "cuda_fatbin" / "hosts" / "single.o"
    reference.run("llvm-ar", "qcS", archive, *[unit] * 2)
    assert shown(archive, capsys) == ["single.o: registered: 3 kernels, 2 variables, by nvcc calls"] * 2
    reference.run("llvm-ar", "qcS", archive, *[unit] * 4, FIXTURES / "elf" / "clang-22-hip.o")
    assert shown(archive, capsys) == [
        "registered: 18 kernels, 12 variables, by nvcc calls, in 6 members",
        "registered: 1 kernel, by clang calls, in 1 member",
    ]


def test_the_record_has_the_same_in_numbers() -> None:
    with open_source(str(FIXTURES / "elf" / "clang-22-hip.o")) as source:
        record = make_file_record(source.view())
    jsonschema.validate(
        {"schema": "fatpack.inspect/1", "files": [json.loads(json.dumps(record))]}, json.loads(schema_text("inspect"))
    )
    (unit,) = record["registration"]
    assert unit == {
        "member": None,
        "models": ["hip"],
        "kernels": 1,
        "variables": 0,
        "records": 1,
        "by": "clang calls",
    }
    assert list(registration_lines([unit], "")) == ["registered: 1 kernel, by clang calls"]


def test_without_capstone_names_in_data_are_likely_registered(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "capstone", None)
    path = str(FIXTURES / "cuda_fatbin" / "hosts" / "libtwo.so")
    assert main(["inspect", "--runtime", "--json", path]) == 0
    document = json.loads(capsys.readouterr().out)
    jsonschema.validate(document, json.loads(schema_text("runtime")))
    (unit,) = document["files"][0]["units"]
    assert unit["read"] == "no capstone"
    assert unit["likely"] == ["_Z2lbPi", "_Z5scaleIdEvPT_S0_", "_Z5scaleIfEvPT_S0_", "_Z6stat_kPi", "add_one"]
    assert main(["inspect", "--runtime", path]) == 0
    assert "probably registered: 5 kernels, whose names are in the program's data: _Z2lbPi" in capsys.readouterr().out


def test_names_share_their_ends() -> None:
    view = BytesSource(b"\1\2x_kernel\0other\0").view()
    memory = HostMemory(
        view, "x86-64", 8, [MemorySection(1, ".rodata", 0, len(view), view, False)], [], is_windows=False
    )
    assert names_in_strings(memory, ["kernel", "x_kernel", "other", "kern"]) == ["kernel", "other", "x_kernel"]


def test_entries_that_nobody_registers_are_declared() -> None:
    record = {
        "member": None,
        "kernels": 2,
        "variables": 1,
        "records": 0,
        "models": ["cuda"],
        "by": "clang ≥ 21 entries",
    }
    is_registered = has_registration([{"code": "FP3049"}])
    assert not is_registered and has_registration([{"code": "FP3047"}])
    expected = "declared, but not registered: 2 kernels, 1 variable, by clang ≥ 21 entries"
    assert list(registration_lines([record], "", is_registered=is_registered)) == [expected]
    (line,) = registration_lines([record | {"by": "clang calls"}], "", is_registered=is_registered)
    assert line.startswith("registered: ")
