"""The stand-in for cir-offload-merge: checks in the tool's order, its sentences, and what comes out.

No build of the original can be installed, so the sentences are those of its source; what is written is parsed by
mlir-opt where its syntax allows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from tests import reference

from fatpack.cli import main

HOST, SM80, SM90 = (
    "host-x86_64-unknown-linux-gnu",
    "cuda-nvptx64-nvidia-cuda--sm_80",
    "cuda-nvptx64-nvidia-cuda--sm_90",
)

Merge = Callable[..., tuple[int, str, str]]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "h.mlir").write_text('!t = i32\nmodule attributes {cir.triple = "h"} {\n  "t.h"() : () -> !t\n}\n')
    (tmp_path / "d.mlir").write_text('!t = i64\nmodule attributes {cir.triple = "d"} {\n  "t.d"() : () -> !t\n}\n')
    (tmp_path / "bad.mlir").write_text("module {\n")
    return tmp_path


@pytest.fixture
def merge(capfd: pytest.CaptureFixture[str]) -> Merge:
    def run(*arguments: str) -> tuple[int, str, str]:
        capfd.readouterr()
        code = main(["tool", "cir-offload-merge", *arguments])
        return (code, *capfd.readouterr())

    return run


def combine(*targets: str, inputs: Sequence[str] = ("h.mlir", "d.mlir"), output: str = "c.cir") -> list[str]:
    return ["-combine", f"-targets={','.join(targets)}", *[f"-input={name}" for name in inputs], f"-output={output}"]


REFUSED: dict[str, tuple[list[str], str]] = {
    "no mode": (["-input=h.mlir"], "expected exactly one of -combine or -split"),
    "both modes": (["-combine", "-split"], "expected exactly one of -combine or -split"),
    "no input": (["-combine", "-targets=x"], "missing required -input"),
    "no targets": (["-combine", "-input=h.mlir"], "missing required -targets"),
    "no output": (["-combine", "-input=h.mlir", "-targets=x"], "missing required -output"),
    "two outputs": ([*combine(HOST, SM80), "-output=y"], "combine mode expects exactly one output"),
    "counts": (combine(HOST), "number of input files and targets should match in combine mode"),
    "a target twice": (combine(SM80, SM80), f"duplicate target '{SM80}'"),
    "a target that is none": (combine(HOST, "sycl-spir64-a-b-c"), "invalid target 'sycl-spir64-a-b-c'"),
    "no host": (combine(SM80, SM90), "expected exactly one host target"),
    "no device": (combine(HOST, inputs=["h.mlir"]), "expected at least one device target"),
    "a missing file": (combine(HOST, SM80, inputs=["h.mlir", "none"]), "failed to parse input file"),
    "a damaged file": (combine(HOST, SM80, inputs=["h.mlir", "bad.mlir"]), "failed to parse input file"),
    "two inputs to split": (["-split", "-input=h.mlir", "-input=d.mlir"], "split mode expects exactly one input"),
    "counts to split": (
        ["-split", "-input=h.mlir", f"-targets={HOST}", "-output=a", "-output=b"],
        "number of output files and targets should match in split mode",
    ),
    "an output twice": (
        ["-split", "-input=h.mlir", f"-targets={HOST},{SM80}", "-output=a", "-output=a"],
        "duplicate output 'a'",
    ),
    "no container": (
        ["-split", "-input=h.mlir", f"-targets={HOST}", "-output=a"],
        "expected exactly one direct top-level offload container",
    ),
}


@pytest.mark.parametrize(("arguments", "sentence"), REFUSED.values(), ids=REFUSED)
def test_every_refusal_has_the_tools_sentence(folder: Path, merge: Merge, arguments: list[str], sentence: str) -> None:
    before = sorted(folder.iterdir())
    code, out, err = merge(*arguments)
    assert (code, out) == (1, "")
    assert err.splitlines()[-1] == f"error: {sentence}"
    assert sorted(folder.iterdir()) == before


def test_what_is_combined_is_parsed_by_mlir_and_split_again(folder: Path, merge: Merge) -> None:
    assert merge(*combine(SM80, HOST, SM90, inputs=["d.mlir", "h.mlir", "d.mlir"])) == (0, "", "")
    reference.run("mlir-opt", "--allow-unregistered-dialect", "c.cir", cwd=folder)
    text = (folder / "c.cir").read_text()
    assert text.index("@host") < text.index("@device_cuda_nvptx64_nvidia_cuda__sm_80") < text.index("sm_90")
    outputs = ["-output=h2", "-output=d2"]
    assert merge("-split", "-input=c.cir", f"-targets={HOST},{SM90}", *outputs) == (0, "", "")
    for name, operation in (("h2", '"t.h"() : () -> i32'), ("d2", '"t.d"() : () -> i64')):
        expanded = reference.run("mlir-opt", "--allow-unregistered-dialect", name, cwd=folder).stdout.decode()
        assert operation in expanded
    assert "t.d" not in (folder / "h2").read_text()


def test_a_missing_module_leaves_no_output(folder: Path, merge: Merge) -> None:
    """The original writes while it looks, and leaves the outputs before the failure behind."""
    merge(*combine(HOST, SM80))
    code, _, err = merge("-split", "-input=c.cir", f"-targets={HOST},{SM90}", "-output=h2", "-output=d2")
    assert (code, err) == (1, f"error: can't find module for target '{SM90}'\n")
    assert not (folder / "h2").exists()


def test_two_requests_for_one_module_are_ambiguous(folder: Path, merge: Merge) -> None:
    one, other = "hip-amdgcn-amd-amdhsa--gfx90a:xnack+", "hipv4-amdgcn-amd-amdhsa--gfx90a:xnack+"
    merge(*combine(HOST, "hip-amdgcn-amd-amdhsa--gfx90a"))
    code, _, err = merge("-split", "-input=c.cir", f"-targets={one},{other}", "-output=a", "-output=b")
    assert code == 1
    assert "matches multiple requested targets" in err


def test_standard_streams(folder: Path, merge: Merge) -> None:
    code, out, _ = merge(*combine(HOST, SM80, output="-"))
    assert code == 0
    assert out.endswith("}\n\n")
    assert "cir.offload.container" in out


def test_help_and_version(merge: Merge) -> None:
    assert "-combine" in merge("--help")[1]
    assert "standing in for cir-offload-merge" in merge("--version")[1]
    code, _, err = merge("-combin")
    assert (code, "Unknown command line argument" in err) == (1, True)
