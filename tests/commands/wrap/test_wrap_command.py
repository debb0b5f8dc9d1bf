"""``fatpack wrap``: names of outputs, what is said, and exit codes."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import Ran
from tests.laws.rooms import FIXTURES
from tests.reference import llvm_tool

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
def test_what_is_missing_is_reported(folder: Path, fatpack: Fatpack, arguments: list[object], said: str) -> None:
    ran = fatpack("wrap", *arguments, "-o", "w.o")
    assert ran.code == 2 and said in ran.err
    assert not Path("w.o").exists()


LINUX = "x86_64-unknown-linux-gnu"
INPUTS = {
    "cuda": FATBIN,
    "hip": FIXTURES / "clang_bundle" / "llvm-22-hip.bundle",
    "openmp": CODE_OBJECT,
    "sycl": FIXTURES / "kernels" / "add_one.llvm22.spv",
}
REGISTER = {
    "cuda": (".cuda.fatbin_reg", 101, "__cudaRegisterFatBinary"),
    "hip": (".hip.fatbin_reg", 101, "__hipRegisterFatBinary"),
    "openmp": (".omp_offloading.descriptor_reg", 101, "__tgt_register_lib"),
    "sycl": ("sycl.descriptor_reg", 1, "__sycl_register_lib"),
}

#: Where something lies differs from object to object.
_PLACES = {"address", "offset", "target_offset", "data_offset", "target", "registers", "path", "size"}


def without_places(record: object) -> object:
    """Return what ``inspect --runtime`` says, without where things lie."""
    if isinstance(record, dict):
        return {key: without_places(value) for key, value in record.items() if key not in _PLACES}
    return [without_places(item) for item in record] if isinstance(record, list) else record


def runtime_unit(fatpack: Fatpack, file: str) -> dict[str, Any]:
    """Return the record of the one unit in a file."""
    ran = fatpack("inspect", "--runtime", "--json", file)
    (unit,) = json.loads(ran.out)["files"][0]["units"]
    return dict(unit)


@pytest.mark.parametrize("host", [LINUX, "aarch64-linux-gnu"])
@pytest.mark.parametrize("kind", INPUTS)
def test_the_runtime_view_leads_from_the_constructor_to_the_images(
    folder: Path, fatpack: Fatpack, kind: str, host: str
) -> None:
    assert fatpack("wrap", f"--kind={kind}", INPUTS[kind], f"--host-triple={host}", "-o", "w.o").code == 0
    unit = runtime_unit(fatpack, "w.o")
    function, priority, call = REGISTER[kind]
    (constructor,) = unit["constructors"]
    assert (constructor["function"], constructor["priority"]) == (function, priority)
    assert unit["called"][call] == 1
    records = [*unit["wrappers"], *unit["descriptors"]]
    assert [record["model"] for record in records] == [kind]
    assert constructor["registers"] == [record["address"] for record in records]
    data, image = Path("w.o").read_bytes(), INPUTS[kind].read_bytes()
    at = records[0]["target_offset"] if unit["wrappers"] else records[0]["images"][0]["data_offset"]
    assert data[at : at + len(image)] == image


@pytest.mark.parametrize("version", ["22", "23"])
@pytest.mark.parametrize("kind", ["cuda", "hip", "openmp"])
def test_the_runtime_view_of_llvms_wrapper_is_the_same(folder: Path, fatpack: Fatpack, kind: str, version: str) -> None:
    given = INPUTS[kind]
    if kind == "openmp":
        image = f"--image=file={given},triple=amdgcn-amd-amdhsa,arch=gfx90a,kind=openmp"
        assert fatpack("pack", image, f"--container-version={int(version) - 21}", "-o", "given.bin").code == 0
        given = Path("given.bin")
    assert fatpack("wrap", f"--kind={kind}", given, f"--as={version}", "-o", "ours.o").code == 0
    wrapper = [llvm_tool("llvm-offload-wrapper", version), f"--kind={kind}", f"--triple={LINUX}", given]
    subprocess.run([*wrapper, "-o", "w.bc"], check=True)
    command = [llvm_tool("llc", version), "-O2", "--relocation-model=pic", "-filetype=obj", "w.bc", "-o", "theirs.o"]
    subprocess.run(command, check=True)
    ours, theirs = (without_places(runtime_unit(fatpack, file)) for file in ("ours.o", "theirs.o"))
    assert ours == theirs
