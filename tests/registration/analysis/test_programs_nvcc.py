"""Programs of nvcc, with the runtime shared and inside, whole and stripped, and with the constructor gone."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests import reference
from tests.registration.analysis.test_programs import judged

import fatpack

pytestmark = [pytest.mark.reference, pytest.mark.slow]

SOURCE = """
__device__ int counter;
__global__ void first(int *p) { *p += 1; }
extern "C" __global__ void plain(int *p) { *p = counter; }
static __global__ void local(int *p) { *p = 5; }
template <class T> __global__ void many(T *p) { *p = 7; }
int main() {
  int *p = nullptr;
  first<<<1, 1>>>(p); plain<<<1, 1>>>(p); local<<<1, 1>>>(p); many<<<1, 1>>>(p); many<<<1, 1>>>((float *)p);
  return 0;
}
"""
KERNELS = {"_Z5firstPi", "plain", "_Z5localPi", "_Z4manyIiEvPT_", "_Z4manyIfEvPT_"}


def linked(folder: Path, library: str, *options: str) -> None:
    """Link the object with the runtime that lies beside nvcc."""
    runtime = Path(reference.tool("nvcc")).resolve().parent.parent / "lib" / library
    if not runtime.exists():
        pytest.skip(f"{library} is not beside nvcc")
    rest = [] if library.endswith(".13") else ["-ldl", "-lpthread", "-lrt"]
    reference.run("g++", *options, "unit.o", runtime, *rest, "-o", "program", cwd=folder)


@pytest.mark.parametrize("level", ["-O0", "-O2"])
@pytest.mark.parametrize(
    ("library", "options"),
    [("libcudart.so.13", ()), ("libcudart_static.a", ()), ("libcudart_static.a", ("-static",))],
    ids=["shared", "inside", "all inside"],
)
def test_what_nvcc_makes_is_read(tmp_path: Path, library: str, options: tuple[str, ...], level: str) -> None:
    reference.package("capstone")
    (tmp_path / "unit.cu").write_text(SOURCE)
    reference.run("nvcc", "-arch=sm_80", "-Xcompiler", level, "-c", "unit.cu", "-o", "whole.o", cwd=tmp_path)
    for is_broken in (False, True):
        lost = ["--remove-section=.init_array", "--remove-section=.rela.init_array"] if is_broken else []
        reference.run("objcopy", *lost, "whole.o", "unit.o", cwd=tmp_path)
        linked(tmp_path, library, *options)
        for is_stripped in (False, True):
            if is_stripped:
                reference.run("strip", "program", cwd=tmp_path)
            names, found = judged(tmp_path / "program")
            assert (names, found) == (KERNELS, ["FP3043"] if is_broken else []), (is_broken, is_stripped)


def test_the_empty_image_of_a_device_link_lacks_nothing(tmp_path: Path) -> None:
    """nvcc links for its default architecture, where no other is named, even if there is nothing to link."""
    reference.package("capstone")
    (tmp_path / "unit.cu").write_text(SOURCE)
    reference.run("nvcc", "-gencode", "arch=compute_90,code=sm_90", "-c", "unit.cu", "-o", "unit.o", cwd=tmp_path)
    reference.run("nvcc", "-dlink", "unit.o", "-o", "link.o", cwd=tmp_path)
    linked(tmp_path, "libcudart_static.a", "link.o")
    with fatpack.open(tmp_path / "program") as file:
        assert len({image.target.arch for image in file.images()}) > 1
    assert judged(tmp_path / "program") == (KERNELS, [])
