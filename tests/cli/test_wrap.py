"""``fatpack wrap``: names of outputs, what is said, and exit codes."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.conftest import Ran
from tests.laws.rooms import FIXTURES

Fatpack = Callable[..., Ran]

FATBIN = FIXTURES / "cuda_fatbin" / "v130_size.fatbin"
CODE_OBJECT = FIXTURES / "kernels" / "needs.v6.gfx90a.hsaco"


def test_the_output_is_named_after_the_first_input(folder: Path, fatpack: Fatpack) -> None:
    ran = fatpack("wrap", "--kind=cuda", FATBIN)
    assert ran.code == 0 and "wrote v130_size.wrapper.o: registers 2 images with cuda" in ran.err
    assert fatpack("wrap", "--kind=cuda", FATBIN).code == 2
    assert fatpack("wrap", "--kind=cuda", FATBIN, "-f", "-q").err == ""
    assert fatpack("wrap", "--kind=cuda", FATBIN, "--emit=llvm-ir").code == 0
    assert Path("v130_size.wrapper.ll").read_text().startswith("; ModuleID")


def test_inspect_reads_back_what_is_registered(folder: Path, fatpack: Fatpack) -> None:
    image = f"--image=file={CODE_OBJECT},triple=amdgcn-amd-amdhsa,arch=gfx90a"
    assert fatpack("wrap", "--kind=hip", image, "-o", "w.o", "-q").code == 0
    ran = fatpack("inspect", "--runtime", "w.o")
    assert ran.code == 0 and "wrapper hip v1" in ran.out and ".init_array.101" in ran.out
    assert "gfx90a" in fatpack("inspect", "w.o").out


def test_a_dry_run_writes_nothing(folder: Path, fatpack: Fatpack) -> None:
    ran = fatpack("wrap", "--kind=openmp", CODE_OBJECT, "--dry-run", "-o", "w.o")
    assert ran.code == 0 and "would register 1 image with openmp" in ran.err
    assert not Path("w.o").exists()


def test_the_object_can_go_to_a_pipe(folder: Path, fatpack: Fatpack) -> None:
    assert fatpack("wrap", "--kind=cuda", FATBIN, "-o", "w.o").code == 0
    with open("piped.o", "wb") as file:
        before = os.dup(1)
        os.dup2(file.fileno(), 1)
        try:
            code = fatpack("wrap", "--kind=cuda", FATBIN, "-o", "-").code
        finally:
            os.dup2(before, 1)
            os.close(before)
    assert code == 0 and Path("piped.o").read_bytes() == Path("w.o").read_bytes()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([FATBIN], "say which runtime gets the images; --kind=openmp|cuda|hip|sycl"),
        (["--kind=cuda"], "there is nothing to wrap"),
        (["--kind=hip", FATBIN], "hip takes a clang-offload-bundle or images; --kind=cuda"),
        (["--kind=cuda", "--image=arch=sm_80"], "has no file="),
        (["--kind=cuda", FATBIN, "--host-triple=riscv64-linux-gnu"], "--emit=llvm-ir"),
        (["--kind=cuda", FATBIN, "--as=22", "--emit=llvm-ir", "--host-triple=arm64-apple-macosx"], "add --as=23"),
    ],
)
def test_what_is_missing_is_said(folder: Path, fatpack: Fatpack, arguments: list[object], said: str) -> None:
    ran = fatpack("wrap", *arguments, "-o", "w.o")
    assert ran.code == 2 and said in ran.err
    assert not Path("w.o").exists()
