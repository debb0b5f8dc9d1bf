"""The walk of docs/how-to/cir-multi-arch.md, with clang's own front end where ClangIR would be."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest
from tests import reference
from tests.laws.rooms import FIXTURES

import fatpack
from fatpack.cli import main

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "cir-multi-arch.md"

MODULE = """module attributes {{cir.triple = "{triple}"}} {{
  "cir.func"() <{{sym_name = "{name}"}}> ({{
    "cir.return"() : () -> ()
  }}) : () -> ()
}}
"""
HOST = """
#define __global__ __attribute__((global))
struct dim3 { unsigned x, y, z; };
typedef int cudaError_t; typedef struct stream *cudaStream_t;
extern "C" cudaError_t cudaLaunchKernel(const void *, dim3, dim3, void **, __SIZE_TYPE__, cudaStream_t);
extern "C" unsigned __cudaPushCallConfiguration(dim3, dim3, __SIZE_TYPE__ = 0, cudaStream_t = 0);
__global__ void add_one(int *p) { *p += 1; }
void launch(int *p) { dim3 one{1, 1, 1}; add_one<<<one, one>>>(p); }
"""


HIP_HOST = """
#define __global__ __attribute__((global))
struct dim3 { unsigned x, y, z; };
typedef int hipError_t; typedef struct stream *hipStream_t;
extern "C" hipError_t hipLaunchKernel(const void *, dim3, dim3, void **, __SIZE_TYPE__, hipStream_t);
extern "C" hipError_t __hipPushCallConfiguration(dim3, dim3, __SIZE_TYPE__ = 0, hipStream_t = 0);
extern "C" hipError_t __hipPopCallConfiguration(dim3 *, dim3 *, __SIZE_TYPE__ *, hipStream_t *);
__global__ void add_one(int *p) { *p += 1; }
void launch(int *p) { dim3 one{1, 1, 1}; add_one<<<one, one>>>(p); }
"""


def commands(part: int = 0) -> list[list[str]]:
    """Return the arguments of all commands of fatpack on the page, for CUDA (0) or for HIP (1), in order."""
    page = PAGE.read_text().split("## The same for HIP")[part]
    blocks = re.findall(r"```console\n(.*?)```", page, re.DOTALL)
    lines = "".join(blocks).replace("\\\n", " ").splitlines()
    return [shlex.split(line)[2:] for line in lines if line.startswith("$ fatpack ")]


def test_the_walk_from_modules_to_a_host_object(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, triple in (("host", "x86_64-unknown-linux-gnu"), ("sm_80", "nvptx64-nvidia-cuda")):
        (tmp_path / f"{name}.cir").write_text(MODULE.format(triple=triple, name=f"of_{name}"))
    (tmp_path / "sm_90.cir").write_text(MODULE.format(triple="nvptx64-nvidia-cuda", name="of_sm_90"))
    for name, arch in (("a", "sm_80"), ("b", "sm_90")):
        shutil.copy(FIXTURES / "cuda" / "cubin" / f"k1.cuda13.0.{arch}.cubin", f"{name}.cubin")
    steps = commands()
    assert [step[0] for step in steps] == ["pack", "extract", "extract", "extract", "pack", "inspect"]
    for step in steps[:-1]:
        assert main(step) == 0, step
    for name in ("d80", "d90", "h"):
        reference.run("mlir-opt", "--allow-unregistered-dialect", f"{name}.cir", cwd=tmp_path)
    assert "of_sm_90" in (tmp_path / "d90.cir").read_text()
    assert "of_sm_80" not in (tmp_path / "d90.cir").read_text()
    (tmp_path / "host.cu").write_text(HOST)
    compile_host = ["-x", "cuda", "--cuda-host-only", "-nocudainc", "-nocudalib", "-Wno-unknown-cuda-version"]
    attach = ["-Xclang", "-fcuda-include-gpubinary", "-Xclang", "k.fatbin"]
    reference.run("clang", *compile_host, *attach, "-c", "host.cu", "-o", "host.o", cwd=tmp_path)
    with fatpack.open("host.o") as file:
        assert [found.section for found in file.containers] == [".nv_fatbin"]
        images = [(image.image.target.arch, image.image.data.tobytes()) for image in file.images()]
    assert images == [("sm_80", (tmp_path / "a.cubin").read_bytes()), ("sm_90", (tmp_path / "b.cubin").read_bytes())]
    capsys.readouterr()
    assert main(steps[-1]) == 0
    assert ".nv_fatbin" in capsys.readouterr().out
    reference.run("clang", *compile_host, "-c", "host.cu", "-o", "host.o", cwd=tmp_path)
    assert main(steps[-1]) == 0
    assert "no device code found" in capsys.readouterr().out


def test_the_walk_for_hip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    modules = {"host": "x86_64-unknown-linux-gnu", "gfx90a": "amdgcn-amd-amdhsa", "gfx942": "amdgcn-amd-amdhsa"}
    for name, triple in modules.items():
        (tmp_path / f"{name}.cir").write_text(MODULE.format(triple=triple, name=f"of_{name}"))
    for name in "ab":
        (tmp_path / f"{name}.hsaco").write_bytes(b"code object " + name.encode())
    steps = commands(1)
    assert [step[0] for step in steps] == ["pack", "extract", "extract", "extract", "pack", "inspect"]
    for step in steps[:-1]:
        assert main(step) == 0, step
    for name in ("d90a", "d942", "h"):
        reference.run("mlir-opt", "--allow-unregistered-dialect", f"{name}.cir", cwd=tmp_path)
    assert "of_gfx942" in (tmp_path / "d942.cir").read_text()
    (tmp_path / "host.hip").write_text(HIP_HOST)
    compile_host = ["-x", "hip", "--cuda-host-only", "-nogpuinc", "-nogpulib"]
    attach = ["-Xclang", "-fcuda-include-gpubinary", "-Xclang", "k.hipfb"]
    reference.run("clang", *compile_host, *attach, "-c", "host.hip", "-o", "host.o", cwd=tmp_path)
    with fatpack.open("host.o") as file:
        images = {image.image.target.arch: image.image.data.tobytes() for image in file.images() if image.image.size}
        assert {found.section for found in file.containers} == {".hip_fatbin"}
    assert images == {"gfx90a": b"code object a", "gfx942": b"code object b"}
    capsys.readouterr()
    main(steps[-1])
    assert ".hip_fatbin" in capsys.readouterr().out


def test_vendors_are_not_mixed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(FIXTURES / "cuda" / "cubin" / "k1.cuda13.0.sm_80.cubin", "a.cubin")
    code_object = next((FIXTURES).rglob("*.hsaco"), None) or next((FIXTURES).rglob("*gfx*.o"))
    shutil.copy(code_object, "a.hsaco")
    assert main(["pack", "--format=fatbin", "--image=file=a.cubin", "--image=file=a.hsaco", "-o", "x"]) == 2
    mixed = ["--image=file=a.cubin,kind=cuda,triple=nvptx64-nvidia-cuda,arch=sm_80"]
    assert main(["pack", "--format=bundle", *mixed, "-o", "x"]) == 2
    (tmp_path / "m.cir").write_text("module {\n}\n")
    ids = ("host-x86_64-unknown-linux-gnu", "cuda-nvptx64-nvidia-cuda--sm_80", "hip-amdgcn-amd-amdhsa--gfx90a")
    assert main(["pack", "--format=cir", *(f"--image=file=m.cir,id={id}" for id in ids), "-o", "x"]) == 2
    assert "CUDA and for HIP" in capsys.readouterr().err
    assert not (tmp_path / "x").exists()
