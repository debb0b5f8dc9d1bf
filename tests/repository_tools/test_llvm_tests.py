"""The runner of LLVM's tests: its choice of tests, and its table of results."""

from __future__ import annotations

from pathlib import Path

import pytest
from tools.llvm_tests.__main__ import find, report


def test_tests_are_those_whose_commands_run_a_tool(tmp_path: Path) -> None:
    folder = tmp_path / "clang/test/Driver"
    (folder / "Inputs").mkdir(parents=True)
    (folder / "takes.c").write_text("// RUN: not clang-offload-bundler -list 2>&1 | FileCheck %s\n")
    (folder / "names.c").write_text("// RUN: %clang -### %s\n// CHECK: clang-offload-bundler\n")
    (folder / "Inputs" / "input.c").write_text("// RUN: llvm-offload-binary -o x\n")
    elsewhere = tmp_path / "lld/test"
    elsewhere.mkdir(parents=True)
    (elsewhere / "other.s").write_text("# RUN: llvm-offload-binary x\n")
    assert list(find(tmp_path)) == [folder / "takes.c"]


@pytest.mark.parametrize(
    ("theirs", "ours", "code"), [("PASS", "PASS", 0), ("PASS", "FAIL", 1), ("FAIL", "FAIL", 0), ("FAIL", "PASS", 0)]
)
def test_what_passes_with_the_originals_only_is_a_failure(
    capsys: pytest.CaptureFixture[str], theirs: str, ours: str, code: int
) -> None:
    assert report(["a", "b"], {"a": "PASS", "b": theirs}, {"a": "PASS", "b": ours}) == code
    assert capsys.readouterr().out.splitlines()[2:] == ["| `a` | PASS | PASS |", f"| `b` | {theirs} | {ours} |"]
