"""``fatpack targets``: what it prints for people and for programs."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from click.testing import CliRunner, Result

from fatpack.commands.targets.command import SCHEMA, WIDTH, command
from fatpack.errors import TargetError, UsageError
from fatpack.targets.vocabulary import load_vocabulary


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(command, list(arguments))


def output_of(*arguments: str) -> str:
    result = invoke(*arguments)
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    return result.stdout


def record_of(*arguments: str) -> dict[str, Any]:
    record: dict[str, Any] = json.loads(output_of("--json", *arguments))
    return record


def test_without_a_name_all_names_are_listed_in_tables() -> None:
    lines = output_of().splitlines()
    assert lines[0] == "NVIDIA architectures"
    assert "AMD generic processors" in lines
    words = set(" ".join(lines).replace("(", " ").replace(")", " ").split())
    assert set(load_vocabulary().names()) <= words


@pytest.mark.parametrize("arguments", [(), ("sm_100f", "gfx11-generic", "sm_101a"), ("--runs-on", "sm_30")])
def test_no_line_is_wider_than_the_terminal_that_we_assume(arguments: tuple[str, ...]) -> None:
    assert max(map(len, output_of(*arguments).splitlines())) <= WIDTH


def test_columns_are_aligned() -> None:
    lines = output_of().splitlines()
    header, *rows = lines[1 : lines.index("")]
    column = header.index("clang 22")
    assert {row[column:] for row in rows} == {"yes", "no"}


def test_a_name_is_explained_line_by_line() -> None:
    lines = output_of("sm_90a").splitlines()
    assert lines[0] == "sm_90a  (NVIDIA architecture)"
    assert "  since CUDA          12.0" in lines
    assert any(line.startswith("  source: ") for line in lines)


def test_a_name_that_means_another_shows_both() -> None:
    assert output_of("tahiti").startswith("tahiti → gfx600  (AMD alias)\n")
    assert output_of("8.0").startswith("8.0 → sm_80  (NVIDIA architecture)\n")


def test_several_names_are_explained_in_the_order_given() -> None:
    blocks = output_of("pvc", "gfx90a:xnack+").split("\n\n")
    assert [block.split()[0] for block in blocks] == ["pvc", "gfx90a:xnack+"]


def test_runs_on_shows_the_names_for_each_form_of_image() -> None:
    assert output_of("--runs-on", "sm_120").splitlines() == [
        "sm_120 runs on",
        "  cubin  compute capability 12.0 and newer 12.x",
        "         sm_120 sm_121",
        "  PTX    every compute capability from 12.0 on",
        "         sm_120 sm_121",
    ]
    assert "doubtful: sm_87" in output_of("--runs-on", "sm_80")


def test_runs_on_says_so_when_a_name_is_no_single_target() -> None:
    assert "not a single target" in output_of("--runs-on", "nvptx64-nvidia-cuda")


def test_runs_on_without_a_name_is_a_usage_error() -> None:
    assert isinstance(invoke("--runs-on").exception, UsageError)


def test_json_of_a_name_holds_values_and_where_it_runs() -> None:
    record = record_of("gfx9-4-generic")
    assert record["schema"] == SCHEMA == "fatpack.targets/1"
    (target,) = record["targets"]
    assert list(target) == ["name", "given", "vendor", "kind", "values", "runs_on", "facts", "notes", "sources"]
    assert target["values"]["covers"] == ["gfx942", "gfx950"]
    assert target["values"]["clang22"] is True
    assert target["runs_on"] == [
        {"form": "image", "rule": "the processors that it covers", "names": ["gfx942", "gfx950"], "doubtful": []}
    ]


def test_json_without_a_name_holds_every_name() -> None:
    assert [target["given"] for target in record_of()["targets"]] == load_vocabulary().names()


@pytest.mark.parametrize("arguments", [(), ("sm_90a", "tahiti", "amdgcn-amd-amdhsa", "pvc")])
def test_json_fits_its_schema(arguments: tuple[str, ...]) -> None:
    jsonschema.validate(record_of(*arguments), json.loads(output_of("--schema")))


def test_json_of_a_name_without_vendor_has_null() -> None:
    assert record_of("generic")["targets"][0]["vendor"] is None


def test_an_unknown_name_raises_and_prints_nothing() -> None:
    result = invoke("sm_80", "gfx90b")
    assert isinstance(result.exception, TargetError)
    assert "gfx90c" in result.exception.nearest
    assert result.stdout == ""


def test_boards_are_listed_with_architecture_and_source() -> None:
    lines = output_of("--boards").splitlines()
    assert {"NVIDIA devices", "AMD devices", "Intel devices"} <= set(lines)
    row = next(line for line in lines if line.startswith("  GeForce RTX 3080 Ti "))
    assert row.split()[4:] == ["sm_86", "gpus"]
    assert any(line.startswith("  gpus ") and "developer.nvidia.com" in line for line in lines)
    assert isinstance(invoke("--boards", "sm_90").exception, UsageError)
