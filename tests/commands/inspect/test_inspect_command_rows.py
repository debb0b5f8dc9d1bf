"""`fatpack inspect --rows`: what goes where, and with which exit code."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests import reference
from tests.laws.rooms import FIXTURES

import fatpack
from fatpack.main import main

FOUR = str(FIXTURES / "offload_binary" / "llvm-22-four.bin")
FATBIN = str(FIXTURES / "cuda_fatbin" / "recorded" / "v130_default.fatbin")


def test_the_formats_hold_the_same_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pq = reference.package("pyarrow.parquet")
    rows = [row.to_dict() for path in (FOUR, FATBIN) for row in fatpack.rows(path)]
    assert main(["inspect", "--rows", "jsonl", FOUR, FATBIN]) == 0
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == rows
    assert main(["inspect", "--rows=parquet", "-o", str(tmp_path / "x"), FOUR, FATBIN]) == 0
    assert pq.read_table(tmp_path / "x").to_pylist() == rows
    assert main(["inspect", "--rows=csv", "-o", str(tmp_path / "y"), FOUR, FATBIN]) == 0
    with open(tmp_path / "y", newline="", encoding="utf-8") as file:
        cells = list(csv.DictReader(file))
    assert [(row["position"], row["arch"]) for row in cells] == [
        (row["position"] or "", row["arch"] or "") for row in rows
    ]


def test_options_choose_what_is_read(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", "--rows=jsonl", "--rows-of=kernels", FATBIN]) == 0
    kernels = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["kernel"] for row in kernels] == [row.to_dict()["kernel"] for row in fatpack.rows(FATBIN, of="kernels")]
    assert main(["inspect", "--rows=jsonl", "--kernels", "--digests", FATBIN]) == 0
    first = json.loads(capsys.readouterr().out.splitlines()[0])
    assert len(first["sha256"]) == 64
    assert first["kernel_count"] > 0 < first["registers_max"]


def test_an_unreadable_file_is_a_row_and_a_message(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    missing = str(tmp_path / "no.so")
    assert main(["inspect", "--rows=jsonl", missing, FOUR]) == 5
    printed = capsys.readouterr()
    rows = [json.loads(line) for line in printed.out.splitlines()]
    assert (rows[0]["path"], rows[0]["exit_code"], rows[-1]["count"]) == (missing, 5, 4)
    assert printed.err == f"fatpack: error: {missing}: No such file or directory\n"


def test_damage_decides_the_exit_code(tmp_path: Path) -> None:
    cut = tmp_path / "cut.fatbin"
    cut.write_bytes(Path(FATBIN).read_bytes()[:-40])
    expected = main(["inspect", str(cut)])
    assert expected == 3
    assert main(["inspect", "--rows=csv", str(cut)]) == expected


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--rows=parquet", FOUR], "--rows parquet writes no text; name a file with -o"),
        (["--digests", FOUR], "--digests is for rows alone"),
        (["-o", "x", FOUR], "-o is for rows alone; add --rows jsonl"),
        (["-o", "x.parquet", FOUR], "-o is for rows alone; add --rows parquet"),
        (["--rows=csv", "--verify", FOUR], "--rows and --verify exclude each other"),
        (["--rows=csv", "--by=arch", FOUR], "--by and --rows exclude each other"),
        (["--rows=csv", "--bytes", FOUR], "--bytes and --rows exclude each other"),
        (["--rows=csv", "-o", "", FOUR], "the output has no name"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["inspect", *arguments]) == 2
    printed = capsys.readouterr()
    assert message in printed.err
    assert printed.out == ""


def test_rows_and_a_document_exclude_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", "--rows=csv", "--json", FOUR]) == 2
    printed = capsys.readouterr()
    assert "--rows and --json exclude each other" in printed.err
    assert json.loads(printed.out)["exit_code"] == 2  # who asked for a document gets one: tests/laws/test_failures.py


def test_an_output_is_not_replaced_unless_asked_and_never_an_input(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "x.csv"
    output.write_text("mine")
    assert main(["inspect", "--rows=csv", "-o", str(output), FOUR]) == 2
    assert output.read_text() == "mine"
    assert main(["inspect", "--rows=csv", "-f", "-o", str(output), FOUR]) == 0
    assert output.read_text().startswith("row,path,")
    copy = tmp_path / "a.bin"
    copy.write_bytes(Path(FOUR).read_bytes())
    os.link(copy, tmp_path / "b.bin")
    assert main(["inspect", "--rows=csv", "-f", "-o", str(copy), str(tmp_path / "b.bin")]) == 2
    assert "is an input of this command" in capsys.readouterr().err
    assert copy.read_bytes() == Path(FOUR).read_bytes()
    assert sorted(os.listdir(tmp_path)) == ["a.bin", "b.bin", "x.csv"]


def test_the_schema_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", "--rows=jsonl", "--schema"]) == 0
    assert json.loads(capsys.readouterr().out)["title"] == "fatpack.rows/1"


@pytest.mark.parametrize(("rows", "allowed"), [("csv", {"csv", "_csv"}), ("jsonl", set())])
def test_only_parquet_takes_pyarrow_and_says_so(rows: str, allowed: set[str]) -> None:
    program = (
        "import sys\nsys.modules['pyarrow'] = None\nfrom fatpack.main import main\n"
        "code = main(sys.argv[1:])\nsys.stderr.write(' '.join(sys.modules))\nsys.exit(code)"
    )
    command = [sys.executable, "-c", program, "inspect"]
    done = subprocess.run([*command, f"--rows={rows}", FOUR], capture_output=True, text=True)
    assert done.returncode == 0
    loaded = set(done.stderr.split())
    assert not loaded & ({"csv", "duckdb", "polars", "pandas", "sqlite3"} - allowed)
    done = subprocess.run([*command, "--rows=parquet", "-o", "x", FOUR], capture_output=True, text=True)
    assert done.returncode == 4
    assert "pip install pyarrow" in done.stderr
