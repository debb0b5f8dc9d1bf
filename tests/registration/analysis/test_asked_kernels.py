"""Kernels that host code does more with than launch them, in libraries that nvcc makes at several levels."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests import reference

import fatpack as library
from fatpack.io.open import open_source
from fatpack.main import main
from fatpack.registration.analysis.analyze import read_evidence
from fatpack.registration.analysis.asked_kernels import asked_kernels

SOURCE = """
#include <cuda_runtime.h>
template <class T> __global__ void plain(T *p) { p[0] += 1; }
__global__ void asked(int *p) { p[0] += 2; }
__global__ void set_then_launched(int *p) { p[0] += 3; }
__global__ void occupied(int *p) { p[0] += 4; }
__global__ void stored(int *p) { p[0] += 5; }
__global__ void kept_in_a_register(int *p) { p[0] += 6; }
static const void *table[] = {(const void *)stored, 0};
extern "C" const void *get(int i) { return table[i]; }
extern "C" void run(int *p) {
  plain<int><<<1, 1>>>(p);
  plain<float><<<1, 1>>>((float *)p);
  cudaFuncSetAttribute(set_then_launched, cudaFuncAttributeMaxDynamicSharedMemorySize, 65536);
  set_then_launched<<<1, 1>>>(p);
  cudaFuncAttributes a;
  cudaFuncGetAttributes(&a, asked);
  int n;
  cudaOccupancyMaxActiveBlocksPerMultiprocessor(&n, occupied, 128, 0);
  if (n) occupied<<<n, 128>>>(p);
  const void *handle = (const void *)kept_in_a_register;
  void *arguments[] = {&p};
  cudaLaunchKernel(handle, dim3(1), dim3(1), arguments, 0, 0);
  cudaFuncGetAttributes(&a, handle);
}
"""
ASKED = {
    "_Z17set_then_launchedPi",
    "_Z5askedPi",
    "_Z6storedPi",
    "_Z8occupiedPi",
    "_Z18kept_in_a_registerPi",
}
LAUNCHED = {"_Z5plainIiEvPT_", "_Z5plainIfEvPT_"}


def linked(folder: Path, *options: str, **sources: str) -> Path:
    """Return a library of some sources, each for sm_80 alone."""
    for name, text in sources.items():
        (folder / f"{name}.cu").write_text(text)
    names = [f"{name}.cu" for name in sources]
    # PyPI's toolkit has the shared runtime by its version alone.
    (folder / "libcudart.so").symlink_to(reference.nvidia_library("libcudart.so"))
    fixed = [
        f"-L{folder}",
        "-gencode=arch=compute_80,code=sm_80",
        "-shared",
        "-Xcompiler=-fPIC",
        *names,
        "-o",
        "libmade.so",
    ]
    reference.run("nvcc", *options, *fixed, cwd=folder)
    return folder / "libmade.so"


@pytest.mark.parametrize("runtime", ["static", "shared"])
@pytest.mark.parametrize("level", ["-O0", "-O2"])
def test_a_kernel_that_is_only_launched_is_told_from_one_that_is_asked_about(
    level: str, runtime: str, tmp_path: Path
) -> None:
    path = linked(tmp_path, level, f"-cudart={runtime}", unit=SOURCE)
    with open_source(path) as source:
        evidence, _ = read_evidence(source.view(), "elf")
        assert evidence is not None and evidence.kernels.keys() == ASKED | LAUNCHED
        assert asked_kernels(evidence) == ASKED


def test_a_unit_whose_stubs_are_inlined_is_never_taken_for_one_that_only_launches(tmp_path: Path) -> None:
    path = linked(tmp_path, "-O3", "-Xcompiler=-fvisibility=hidden", unit=SOURCE)
    with open_source(path) as source:
        evidence, _ = read_evidence(source.view(), "elf")
        assert evidence is not None and asked_kernels(evidence) >= ASKED


def test_a_container_that_is_asked_about_stays_where_an_unused_one_is_emptied(tmp_path: Path) -> None:
    unit = '__global__ void {0}(int *p) {{ *p += {1}; }} extern "C" void run_{0}(int *p) {{ {0}<<<1, 1>>>(p); }}'
    asks = '__global__ void asked(int *p) { *p += 3; }\nextern "C" void ask() { cudaFuncAttributes a; '
    asks += "cudaFuncGetAttributes(&a, asked); }"
    path = linked(tmp_path, used=unit.format("used", 1), unused=unit.format("unused", 2), asks=asks)
    (tmp_path / "names.txt").write_text("used\n")
    words = ["--used", str(tmp_path / "names.txt"), "--drop-unused", "--accept-missing", "1"]
    out = tmp_path / "slim.so"
    assert main(["slim", str(path), "--for", "sm_80", *words, "-o", str(out)]) == 0
    with library.open(out) as file:
        assert {name for one in file.containers for image in one.images for name in image.kernel_names} == {
            "_Z4usedPi",
            "_Z5askedPi",
        }
    assert main(["slim", "--verify", str(path), str(out)]) == 0
