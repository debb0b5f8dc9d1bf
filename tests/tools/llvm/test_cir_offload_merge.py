"""The stand-in for cir-offload-merge: checks in the tool's order, its sentences, and what comes out.

No build of the original can be installed, so the sentences are those of its source; what is written is parsed by
mlir-opt where its syntax allows.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from tests import reference

from fatpack.main import main

HOST, SM80, SM90 = (
    "host-x86_64-unknown-linux-gnu",
    "cuda-nvptx64-nvidia-cuda--sm_80",
    "cuda-nvptx64-nvidia-cuda--sm_90",
)

Merge = Callable[..., tuple[int, str, str]]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
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


def split(*targets: str, name: str = "c.mlir", outputs: Sequence[str] | None = None) -> list[str]:
    names = [f"o{number}" for number in range(len(targets))] if outputs is None else outputs
    return ["-split", f"-input={name}", f"-targets={','.join(targets)}", *[f"-output={output}" for output in names]]


def container(*modules: str) -> str:
    return "\n".join(["module attributes {cir.offload.container} {", *modules, "}", ""])


def module(kind: str, spelling: str | None = None, name: str = "") -> str:
    stored = f'cir.offload.bundle_id = "{spelling}", ' if spelling is not None else ""
    made = "".join(letter if letter.isalnum() else "_" for letter in f"d{spelling}")
    symbol = name or ("host" if kind == "host" else made)
    return f"module @{symbol} attributes {{{stored}cir.offload.kind = #cir.offload<{kind}>}} {{\n}}"


GFX = "hip-amdgcn-amd-amdhsa--gfx908"
#: file → text, all of them in the folder of a test
FILES = {
    "h.mlir": '!t = i32\nmodule attributes {cir.triple = "h"} {\n  "t.h"() : () -> !t\n}\n',
    "d.mlir": '!t = i64\nmodule attributes {cir.triple = "d"} {\n  "t.d"() : () -> !t\n}\n',
    "bad.mlir": "module {\n",
    "c.mlir": container(module("host", HOST), module("device", SM80), module("device", SM90)),
    "in.mlir": "module {\n" + container(module("host", HOST), module("device", SM80)) + "}\n",
    "two.mlir": "module {\n" + container(module("host", HOST), module("device", SM80)) * 2 + "}\n",
    "amd.mlir": 'module {\n  cir.offload.module @o attributes {target = "gfx90a"} {\n  }\n}\n',
    "nodevice.mlir": container(module("host", HOST)),
    "noid.mlir": container(module("host", HOST), module("device")),
    "sameid.mlir": container(module("host", HOST), module("device", SM80, "a"), module("device", SM80, "b")),
    "badid.mlir": container(module("host", HOST), module("device", "cuda-nvptx64-nvidia-cuda")),
    "badarch.mlir": container(module("host", HOST), module("device", "cuda-ptx-nvidia-cuda--sm_80")),
    "gfx.mlir": container(module("host", HOST), module("device", GFX)),
    "gfxs.mlir": container(module("host", HOST), module("device", GFX), module("device", f"{GFX}:xnack+")),
}

REFUSED: dict[str, tuple[list[str], str]] = {
    "no mode": (["-input=h.mlir"], "expected exactly one of -combine or -split"),
    "both modes": (["-combine", "-split"], "expected exactly one of -combine or -split"),
    "a mode that is taken back": (["-combine", "-combine=0"], "expected exactly one of -combine or -split"),
    "no input": (["-combine", "-targets=x"], "missing required -input"),
    "no targets": (["-combine", "-input=h.mlir"], "missing required -targets"),
    "no output": (["-combine", "-input=h.mlir", "-targets=x"], "missing required -output"),
    "two outputs": ([*combine(HOST, SM80, "x"), "-output=y"], "combine mode expects exactly one output"),
    "counts": (combine(HOST, HOST, "x"), "number of input files and targets should match in combine mode"),
    "a target twice, then one that is none": (combine("x", "x"), "invalid target 'x'"),
    "a target twice": (combine(SM80, SM80), f"duplicate target '{SM80}'"),
    "a kind that is none": (combine(HOST, "sycl-spir64-a-b-c"), "invalid target 'sycl-spir64-a-b-c'"),
    "an architecture that is none": (combine(HOST, "cuda-ptx-a-b-c"), "invalid target 'cuda-ptx-a-b-c'"),
    "an empty target": (combine(HOST, ""), "invalid target ''"),
    "no host": (combine(SM80, SM90), "expected exactly one host target"),
    "two hosts": (combine(HOST, "host-aarch64-unknown-linux-gnu"), "expected exactly one host target"),
    "no device": (combine(HOST, inputs=["h.mlir"]), "expected at least one device target"),
    "an output that cannot be": (
        combine(HOST, SM80, output="none/c"),
        "cannot open output file 'none/c': No such file or directory",
    ),
    "no input to split": (["-split", "-targets=x"], "missing required -input"),
    "two inputs to split": (["-split", "-input=h.mlir", "-input=d.mlir"], "split mode expects exactly one input"),
    "no targets to split": (["-split", "-input=c.mlir", "-output=a"], "missing required -targets"),
    "no output to split": (["-split", "-input=c.mlir", "-targets=x"], "missing required -output"),
    "counts to split": (
        split(HOST, HOST, outputs=["a", "a", "a"]),
        "number of output files and targets should match in split mode",
    ),
    "a target to split twice": (split(HOST, HOST, outputs=["a", "a"]), f"duplicate target '{HOST}'"),
    "an output twice": (split(HOST, "x", outputs=["a", "a"]), "duplicate output 'a'"),
    "a target to split that is none": (split(HOST, "x"), "invalid target 'x'"),
    "no container": (split(HOST, name="h.mlir"), "expected exactly one direct top-level offload container"),
    "AMD's representation": (split(HOST, name="amd.mlir"), "expected exactly one direct top-level offload container"),
    "several containers": (split(HOST, name="two.mlir"), "expected exactly one direct top-level offload container"),
    "no ID": (split(HOST, name="noid.mlir"), "nested module is missing 'cir.offload.bundle_id'"),
    "an ID twice": (split(HOST, name="sameid.mlir"), f"duplicate module bundle ID '{SM80}'"),
    "an ID that is none": (
        split(HOST, name="badid.mlir"),
        "invalid module bundle ID 'cuda-nvptx64-nvidia-cuda'",
    ),
    "an ID without an architecture": (
        split(HOST, name="badarch.mlir"),
        "invalid module bundle ID 'cuda-ptx-nvidia-cuda--sm_80'",
    ),
    "two targets for one module": (
        split(f"{GFX}:xnack+", f"{GFX}:sramecc+", name="gfx.mlir"),
        f"module bundle ID '{GFX}' matches multiple requested targets",
    ),
    "two modules for one target": (
        split(f"{GFX}:xnack+", name="gfxs.mlir"),
        f"multiple modules match target '{GFX}:xnack+'",
    ),
    "a module that is not there": (split(HOST, f"{GFX}"), f"can't find module for target '{GFX}'"),
    "a split that cannot be written": (
        split(HOST, SM80, outputs=["a", "none/b"]),
        "cannot open output file 'none/b': No such file or directory",
    ),
}


@pytest.mark.parametrize(("arguments", "sentence"), REFUSED.values(), ids=REFUSED)
def test_every_refusal_has_the_tools_sentence(folder: Path, merge: Merge, arguments: list[str], sentence: str) -> None:
    before = sorted(folder.iterdir())
    assert merge(*arguments) == (1, "", f"error: {sentence}\n")
    assert sorted(folder.iterdir()) == before


#: What goes before "failed to parse input file". The host's file and that to split are opened by MLIR.
UNREADABLE: dict[str, tuple[list[str], str]] = {
    "no host": (combine(HOST, SM80, inputs=["none", "gone"]), "error: could not open input file none"),
    "no device": (
        combine(SM80, HOST, inputs=["none", "h.mlir"]),
        "error: cannot open input file 'none': No such file or directory",
    ),
    "a folder": (combine(HOST, SM80, inputs=["h.mlir", "."]), "error: cannot open input file '.': Is a directory"),
    "a damaged host": (combine(SM80, HOST, inputs=["bad.mlir", "bad.mlir"]), "bad.mlir: "),
    "a damaged device before one that is missing": (
        combine(HOST, SM80, SM90, inputs=["h.mlir", "bad.mlir", "none"]),
        "bad.mlir: cir-offload-container at 0x9: line 2, column 1: the region opened at line 1, column 8 is not closed",
    ),
    "nothing to split": (split(HOST, name="none"), "error: could not open input file none"),
    "a damaged file to split": (split(HOST, name="bad.mlir"), "bad.mlir: cir-offload-container at 0x9: line 2"),
    "a container that MLIR refuses": (
        split(HOST, name="nodevice.mlir"),
        "nodevice.mlir: at 0x0: line 1, column 1: 'builtin.module' op expects at least one device module",
    ),
}


@pytest.mark.parametrize(("arguments", "detail"), UNREADABLE.values(), ids=UNREADABLE)
def test_what_cannot_be_read_is_reported_before_the_sentence(
    folder: Path, merge: Merge, arguments: list[str], detail: str
) -> None:
    before = sorted(folder.iterdir())
    code, out, err = merge(*arguments)
    first, last = err.splitlines()
    assert (code, out, last) == (1, "", "error: failed to parse input file")
    assert first.startswith(detail)
    assert sorted(folder.iterdir()) == before


def test_a_full_disk_has_the_words_of_llvm(folder: Path, merge: Merge) -> None:
    expected = "LLVM ERROR: IO failure on output stream: No space left on device\n"
    assert merge(*combine(HOST, SM80, output="/dev/full")) == (1, "", expected)
    (folder / "m").write_text("module {}")
    done = reference.run("mlir-opt", "m", "-o", "/dev/full", cwd=folder, check=False)
    assert (done.returncode, done.stderr.decode()) == (1, expected)


def test_an_output_that_cannot_be_created_has_the_words_of_mlir(folder: Path) -> None:
    done = reference.run("mlir-opt", "h.mlir", "--allow-unregistered-dialect", "-o", "none/c", cwd=folder, check=False)
    assert done.stderr.decode().startswith("cannot open output file 'none/c': No such file or directory")


def test_a_container_inside_a_module_is_split(folder: Path, merge: Merge) -> None:
    assert merge(*split(SM80, name="in.mlir")) == (0, "", "")
    assert (folder / "o0").read_text().startswith("module @d")


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


def test_standard_streams(folder: Path, merge: Merge, monkeypatch: pytest.MonkeyPatch) -> None:
    code, out, _ = merge(*combine(HOST, SM80, output="-"))
    assert code == 0
    assert out.endswith("}\n\n")
    with (folder / "c.mlir").open() as text:
        saved = os.dup(0)
        os.dup2(text.fileno(), 0)
        try:
            assert merge(*split(SM80, name="-", outputs=["-"])) == (
                0,
                module("device", SM80) + "\n",
                "",
            )
        finally:
            os.dup2(saved, 0)
            os.close(saved)


def test_the_command_line_is_llvms(folder: Path, merge: Merge) -> None:
    code, _, err = merge("-combin")
    assert code == 1
    assert err == (
        "cir-offload-merge: Unknown command line argument '-combin'.  Try: 'cir-offload-merge --help'\n"
        "cir-offload-merge: Did you mean '--combine'?\n"
    )
    assert merge("h.mlir")[2] == (
        "cir-offload-merge: Unknown command line argument 'h.mlir'.  Try: 'cir-offload-merge --help'\n"
    )
    assert merge("-split", "-input")[2] == "cir-offload-merge: for the --input option: requires a value!\n"
    assert merge("-split=2")[2].startswith(
        "cir-offload-merge: for the --split option: '2' is invalid value for boolean"
    )
    (folder / "words").write_text(" ".join(combine(HOST, SM80)))
    # A flag twice is no error to LLVM since version 15, though the notes on the tool say so.
    assert merge("@words", "--combine", "-disable-cir-infer-launch-bounds", "-disable-cir-prop-kernel-args") == (
        0,
        "",
        "",
    )
    text = (folder / "c.cir").read_text()
    spaced = ["-combine", "--input", "h.mlir", "-input", "d.mlir", "-targets", HOST, "--targets", SM80, "-output", "e"]
    assert merge(*spaced) == (0, "", "")
    assert (folder / "e").read_text() == text


PASS_OPTIONS = [
    "no-dead-kernel-elimination",
    "no-kernel-arg-const-prop",
    "no-module-opts",
    "no-offload-opts",
    "no-pointer-facts",
    "no-propagate-block-shape",
    "no-tighten-launch-bounds",
]


@pytest.mark.parametrize("option", PASS_OPTIONS)
def test_options_that_switch_passes_off_change_nothing(merge: Merge, folder: Path, option: str) -> None:
    assert merge(*combine(HOST, SM80)) == (0, "", "")
    text = (folder / "c.cir").read_text()
    assert merge(*combine(HOST, SM80), f"-{option}") == (0, "", "")
    assert (folder / "c.cir").read_text() == text


@pytest.mark.parametrize("option", ["--help", "-help", "-h", "--help-list"])
def test_help_names_every_option_in_order(merge: Merge, option: str) -> None:
    code, out, err = merge("--bogus", option)
    assert (code, err.splitlines()[0]) == (
        0,
        "cir-offload-merge: Unknown command line argument '--bogus'.  Try: 'cir-offload-merge --help'",
    )
    named = [line.split()[0].partition("=")[0] for line in out.splitlines() if line.startswith("  --")]
    own = [
        "combine",
        "disable-cir-infer-launch-bounds",
        "disable-cir-prop-kernel-args",
        "input",
        *PASS_OPTIONS,
        "output",
    ]
    assert named == [f"--{name}" for name in ("help", "help-list", "version", *own, "split", "targets")]


def test_version_says_that_this_is_a_stand_in(merge: Merge) -> None:
    assert "standing in for cir-offload-merge" in merge("--version")[1]
