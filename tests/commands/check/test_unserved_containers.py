"""Containers of programs without an image, or without a record, in ``check``, ``explain`` and ``doctor``."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests import reference
from tests.builders import elf
from tests.laws.rooms import FIXTURES

import fatpack
from fatpack.main import main

SOURCE = """
#define __global__ __attribute__((global))
struct dim3 { unsigned x, y, z; };
typedef int hipError_t; typedef struct stream *hipStream_t;
extern "C" hipError_t hipLaunchKernel(const void *, dim3, dim3, void **, __SIZE_TYPE__, hipStream_t);
extern "C" hipError_t __hipPushCallConfiguration(dim3, dim3, __SIZE_TYPE__ = 0, hipStream_t = 0);
extern "C" hipError_t __hipPopCallConfiguration(dim3 *, dim3 *, __SIZE_TYPE__ *, hipStream_t *);
__global__ void NAME(int *p) { *p = 1; }
void launch_NAME(int *p) { NAME<<<dim3{1, 1, 1}, dim3{1, 1, 1}>>>(p); }
"""


def library(folder: Path) -> Path:
    """Return a library of two units, each for a device of its own."""
    for name, arch in (("one", "gfx90a"), ("two", "gfx1030")):
        (folder / f"{name}.hip").write_text(SOURCE.replace("NAME", name))
        options = ["-nogpulib", "-nogpuinc", "--no-offload-new-driver", f"--offload-arch={arch}", "-O1", "-fPIC"]
        reference.run("clang", "-x", "hip", *options, "-c", f"{name}.hip", "-o", f"{name}.o", cwd=folder)
    link = ["-shared", "--eh-frame-hdr", "--unresolved-symbols=ignore-all", "one.o", "two.o", "-o", "whole.so"]
    reference.run("ld.lld", *link, cwd=folder)
    return folder / "whole.so"


@pytest.mark.reference
def test_a_container_that_slim_empties_fails_everywhere(tmp_path: Path) -> None:
    reference.package("capstone")
    whole, slim = library(tmp_path), tmp_path / "slim.so"
    assert main(["slim", "--quiet", str(whole), "--for", "gfx1030", "-o", str(slim)]) == 0
    with fatpack.open(slim) as file:
        assert [item.code for item in file.findings] == ["FP3061"]
        assert len(file.containers) == 2
    for path in (whole, slim):
        made = fatpack.check(path, require=["gfx1030"])
        assert [item.code for item in made.violations if item.is_broken] == ["FP3303"], path
        assert [hole.position for item in made.violations for hole in item.holes] == ["0"]
        (device,) = fatpack.explain(path, device="gfx1030").devices
        assert (device.runs, device.fails) == (1, 1), path
    assert "_Z3onePi" in made.violations[0].message
    assert any("it is registered, and has no image" in unit.reason for unit in device.units)
    assert "FP3046" in {item.code for item in fatpack.doctor(slim).findings}
    assert fatpack.check(slim, registered=True).verdict == "failed"
    assert fatpack.check(slim, require=["gfx1030"], per="library").verdict == "passed"


def test_a_container_that_nothing_registers_is_not_vouched_for(tmp_path: Path) -> None:
    host, made = tmp_path / "host.o", tmp_path / "made.o"
    unit = elf.Elf(machine=62)
    unit.add(".text", b"\xc3" * 16, flags=elf.ALLOC)
    host.write_bytes(unit.build())
    container = FIXTURES / "cuda_fatbin" / "v130_size.fatbin"
    assert main(["embed", "--quiet", str(host), str(container), "-o", str(made)]) == 0
    with fatpack.open(made) as file:
        arch = next(image.target.arch for image in file.images())
    found = fatpack.check(made, require=[arch])
    assert found.verdict == "passed"
    assert [each.unchecked for each in found.libraries] == [
        ("that its device code is registered, because no record in it does that",)
    ]
    (device,) = fatpack.explain(made, device=arch).devices
    assert any(note.startswith("not checked in 1 file: that the device code is registered") for note in device.notes)
    assert fatpack.check(made, registered=True).verdict == fatpack.doctor(made).verdict == "not judged"
