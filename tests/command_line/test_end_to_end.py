"""From images to a linked library and back, with LLVM's own tools in between."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.conftest import Ran
from tests.reference import run, tool

Fatpack = Callable[..., Ran]
pytestmark = pytest.mark.reference

TRIPLE = "nvptx64-nvidia-cuda"
A = f"--image=file=a.cubin,triple={TRIPLE},arch=sm_80,kind=cuda"
B = f"--image=file=b.cubin,triple={TRIPLE},arch=sm_90,kind=cuda"


def wrap(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run clang-linker-wrapper, which needs its neighbours on PATH."""
    program = tool("clang-linker-wrapper")
    environment = {**os.environ, "PATH": f"{Path(program).parent}:{os.environ['PATH']}"}
    command = [program, "--host-triple=x86_64-unknown-linux-gnu", f"--linker-path={tool('ld')}", *arguments]
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True)


def test_llvm_lists_what_was_packed_into_a_host(folder: Path, fatpack: Fatpack) -> None:
    assert fatpack("pack", A, B, "--host=host.o", "-o", "fat.o").code == 0
    listed = run("llvm-objdump", "--offloading", "fat.o", cwd=folder).stdout.decode()
    assert [line.split()[-1] for line in listed.splitlines() if line.startswith("arch")] == ["sm_80", "sm_90"]
    assert [line.split()[-1] for line in listed.splitlines() if line.startswith("kind")] == ["cubin", "cubin"]


def test_llvm_extracts_from_a_host_what_was_packed_into_it(folder: Path, fatpack: Fatpack) -> None:
    assert fatpack("pack", A, B, "--host=host.o", "-o", "fat.o").code == 0
    run("llvm-offload-binary", "fat.o", "--image=", cwd=folder)
    assert (folder / f"fat-{TRIPLE}-sm_80.0.cubin").read_bytes() == (folder / "a.cubin").read_bytes()
    assert (folder / f"fat-{TRIPLE}-sm_90.1.cubin").read_bytes() == (folder / "b.cubin").read_bytes()


def test_the_linker_wrapper_takes_out_what_was_packed(folder: Path, fatpack: Fatpack) -> None:
    """The wrapper extracts before it links; its temporary files are our images, whatever the device link says."""
    assert fatpack("pack", A, B, "--host=host.o", "-o", "fat.o").code == 0
    wrap("--save-temps", "-r", "-o", "out.o", "fat.o", cwd=folder)
    assert (folder / f"fat-{TRIPLE}-sm_80.o").read_bytes() == (folder / "a.cubin").read_bytes()
    assert (folder / f"fat-{TRIPLE}-sm_90.o").read_bytes() == (folder / "b.cubin").read_bytes()


def test_an_object_taken_apart_and_packed_again_links_to_the_same_library(folder: Path, fatpack: Fatpack) -> None:
    """clang's OpenMP object: images out, device code removed, packed in again, linked for device and host."""
    (folder / "omp.c").write_text(
        "int run(int *a) {\n#pragma omp target map(tofrom: a[0:4])\n  a[0] = 1;\n  return a[0];\n}\n"
    )
    flags = ["-O1", "-fopenmp", "--offload-arch=gfx90a", "-nogpulib", "-nogpuinc"]
    run("clang", "-c", *flags, "omp.c", "-o", "omp.o", cwd=folder)
    assert fatpack("extract", "omp.o", "-o", "device.bc").code == 0
    assert fatpack("remove", "omp.o", "-o", "bare.o").code == 0
    option = "--image=file=device.bc,triple=amdgcn-amd-amdhsa,arch=gfx90a,kind=openmp"
    assert fatpack("pack", option, "--host=bare.o", "-o", "again.o").code == 0
    linked = []
    for name in ("omp.o", "again.o"):
        place = folder / f"link-{name}"
        place.mkdir()
        (folder / name).rename(place / "x.o")
        done = wrap("--device-linker=--unresolved-symbols=ignore-all", "-shared", "-o", "x.so", "x.o", cwd=place)
        assert done.returncode == 0, done.stderr
        linked.append((place / "x.so").read_bytes())
    assert linked[0] == linked[1]
    ran = fatpack("inspect", folder / "link-again.o" / "x.so")
    assert ran.code == 0
    assert "code-object" in ran.out
    assert "1 kernel: __omp_offloading_" in ran.out


@pytest.mark.parametrize("linker", ["bfd", "gold", "lld"])
def test_an_ordinary_link_drops_the_device_code_and_nothing_else(folder: Path, fatpack: Fatpack, linker: str) -> None:
    assert fatpack("pack", A, "--host=host.o", "-o", "fat.o").code == 0
    program = {"bfd": "ld.bfd", "gold": "ld.gold", "lld": "ld.lld"}[linker]
    for name in ("host", "fat"):
        run(program, "-e", "kernel_name", "--build-id=none", "-o", f"{name}.exe", f"{name}.o", cwd=folder)
    assert (folder / "fat.exe").read_bytes() == (folder / "host.exe").read_bytes()


def test_ld_r_keeps_the_images_of_all_inputs(folder: Path, fatpack: Fatpack) -> None:
    assert fatpack("pack", A, "--host=host.o", "-o", "one.o").code == 0
    (folder / "other.c").write_text("int other;\n")
    run("gcc", "-c", "other.c", "-o", "other.o", cwd=folder)
    assert fatpack("pack", B, "--host=other.o", "-o", "two.o").code == 0
    run("ld", "-r", "one.o", "two.o", "-o", "both.o", cwd=folder)
    assert fatpack("extract", "both.o", "-d", "out", "-q").code == 0
    images = sorted(path.read_bytes() for path in (folder / "out").iterdir())
    assert images == sorted((folder / name).read_bytes() for name in ("a.cubin", "b.cubin"))
