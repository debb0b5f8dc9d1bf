"""clang with the stand-in in place of its bundler makes the same objects, and links them to the same library."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import zstandard
from tests.formats.clang_bundle.test_reference import libzstd_of_the_tool
from tests.reference import run, tool

import fatpack
from fatpack.scanner import FoundContainer

pytestmark = pytest.mark.reference

_SOURCE = """
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
struct dim3 { unsigned x, y, z; };
extern "C" int hipLaunchKernel(const void *, dim3, dim3, void **, __SIZE_TYPE__, void *);
extern "C" int __hipPushCallConfiguration(dim3, dim3, __SIZE_TYPE__, void *);
extern "C" int __hipPopCallConfiguration(dim3 *, dim3 *, __SIZE_TYPE__ *, void *);
__device__ static int counter;
__device__ int NAME_device(int left) { return left * 3 + counter; }
__global__ void NAME_kernel(int *data) { *data = NAME_device(*data); }
int NAME_host(int left) { return left + 1; }
"""

_LAUNCHER = """#!{python}
import sys

with open({log!r}, "a") as log:
    log.write(" ".join(sys.argv[1:]) + "\\n")
sys.path[:] = {path!r}
from fatpack.main import main

sys.exit(main(["tool", *sys.argv]))
"""

#: No ROCm is needed, and names that clang makes do not depend on the options.
_ALWAYS = ["-x", "hip", "-O1", "-nogpulib", "-nogpuinc"]
_TWO = "--offload-arch=gfx90a,gfx1030"
#: Without the flag clang stores the second in which it ran, and two runs may differ in it.
_WINDOWS = ["-target", "x86_64-pc-windows-msvc", "-mno-incremental-linker-compatible"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hip")
    for name in ("first", "second"):
        (folder / f"{name}.hip").write_text(_SOURCE.replace("NAME", name))
    launcher = folder / "bin" / "clang-offload-bundler"
    launcher.parent.mkdir()
    launcher.write_text(_LAUNCHER.format(log=str(folder / "log"), python=sys.executable, path=sys.path))
    launcher.chmod(0o755)
    return folder


def compiled(folder: Path, *arguments: str, output: str) -> tuple[bytes, bytes]:
    """Run clang with its own bundler and with ours; return what each of them made."""
    made = []
    for flags in ([], [f"-B{folder / 'bin'}"]):
        subprocess.run([tool("clang"), *flags, *arguments, "-o", output], cwd=folder, check=True)
        made.append((folder / output).read_bytes())
        (folder / output).unlink()
    return made[0], made[1]


def calls(folder: Path) -> list[str]:
    """Return the command lines that the stand-in got since the last time."""
    log = folder / "log"
    lines = log.read_text().splitlines() if log.exists() else []
    log.unlink(missing_ok=True)
    return lines


@pytest.mark.sweep(4)
@pytest.mark.parametrize(
    "options",
    [
        ["-c"],
        ["-c", "--offload-compress"],
        ["-c", "--offload-compress", "-v"],
        ["-c", "--no-offload-new-driver"],
        ["-c", "--no-offload-new-driver", "--offload-compress", "--offload-compression-level=9"],
        ["-c", "--no-offload-new-driver", "-fgpu-rdc"],
        ["-c", "--no-offload-new-driver", "-fgpu-rdc", *_WINDOWS],
        ["-c", "--no-offload-new-driver", "-fgpu-rdc", "-target", "aarch64-unknown-linux-gnu", "-g"],
        ["-c", "--offload-device-only", "--gpu-bundle-output"],
        ["-E", "--no-offload-new-driver"],
        ["-S", "--no-offload-new-driver"],
        ["-S", "-emit-llvm", "--no-offload-new-driver", "-fgpu-rdc"],
    ],
    ids=" ".join,
)
def test_objects_are_byte_identical(options: list[str], folder: Path) -> None:
    calls(folder)
    theirs, ours = compiled(folder, *_ALWAYS, "-cuid=first", _TWO, *options, "first.hip", output="made")
    assert calls(folder)
    if "--offload-compress" in options and libzstd_of_the_tool() != zstandard.ZSTD_VERSION:
        # Another zstd library makes another stream of the same bytes; nothing else differs.
        assert inflated(ours) == inflated(theirs)
    else:
        assert ours == theirs


def inflated(data: bytes) -> tuple[bytes, list[tuple[str, bytes]]]:
    """Return an object without its compressed bundle, which must be its last section but one, and what is in that."""
    (found,) = (item for item in fatpack.scan(data) if isinstance(item, FoundContainer))
    images = [(image.attrs["id"], image.data.tobytes()) for image in found.images]
    return data[0x40 : found.container.span.start], images


def test_relocatable_device_code_links_to_the_same_library(folder: Path) -> None:
    """Fat objects and archives of them are taken apart by the driver, in every link."""
    old = ["--no-offload-new-driver", "-fgpu-rdc"]
    for name in ("first", "second"):
        options = [*_ALWAYS, f"-cuid={name}", _TWO, *old, "-fPIC", "-c", f"{name}.hip"]
        theirs, ours = compiled(folder, *options, output=f"{name}.o")
        assert ours == theirs
        (folder / f"{name}.o").write_bytes(ours)
    run("llvm-ar", "rcD", "libsecond.a", "second.o", cwd=folder)
    link = ["--hip-link", *old, _TWO, "-shared", "-nostdlib", "-no-hip-rt", "-fuse-ld=lld", "first.o"]
    calls(folder)
    theirs, ours = compiled(folder, *link, "second.o", output="lib.so")
    assert ours == theirs
    assert sum("-unbundle" in line for line in calls(folder)) >= 2
    theirs, ours = compiled(folder, *link, "-L.", "-lsecond", output="lib.so")
    assert ours == theirs
    assert any("-type=a" in line for line in calls(folder))
