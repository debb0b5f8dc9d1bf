"""PoCL runs SPIR-V on the processor: modules that were extracted, replaced and slimmed compute what they did before.

PoCL 6 of Debian 13 takes SPIR-V 1.0 to 1.2; that of Debian 12, 3.1, takes none (its CL_DEVICE_IL_VERSION is empty).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
from tests import reference
from tests.builders.debian import Debian

import fatpack

pytestmark = [pytest.mark.reference, pytest.mark.slow]

TRIPLE = "spirv64-unknown-unknown"

#: Builds a module for the first device, runs a kernel over the numbers 0 to 7, and prints them.
PROGRAM = """
import ctypes, sys
cl = ctypes.CDLL("libOpenCL.so.1")
pointer, size, word = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint
for name in ("Context", "CommandQueueWithProperties", "ProgramWithIL", "Kernel", "Buffer"):
    getattr(cl, "clCreate" + name).restype = pointer
code, platform, device = ctypes.c_int(), pointer(), pointer()
def checked(made=0):
    if code.value or (isinstance(made, int) and made < 0):
        sys.exit(f"error {code.value or made}")
    return pointer(made) if made else None
def call(name, *arguments):
    code.value = getattr(cl, "cl" + name)(*arguments)
    checked()
call("GetPlatformIDs", word(1), ctypes.byref(platform), None)
call("GetDeviceIDs", platform, ctypes.c_ulong(0xFFFFFFFF), word(1), ctypes.byref(device), None)
by = ctypes.byref(code)
context = checked(cl.clCreateContext(None, word(1), ctypes.byref(device), None, None, by))
queue = checked(cl.clCreateCommandQueueWithProperties(context, device, None, by))
module = open(sys.argv[1], "rb").read()
program = checked(cl.clCreateProgramWithIL(context, module, size(len(module)), by))
call("BuildProgram", program, word(1), ctypes.byref(device), None, None, None)
kernel = checked(cl.clCreateKernel(program, sys.argv[2].encode(), by))
numbers = (ctypes.c_int * 8)(*range(8))
buffer = checked(cl.clCreateBuffer(context, ctypes.c_ulong(1 | 32), size(32), numbers, by))
call("SetKernelArg", kernel, word(0), size(8), ctypes.byref(buffer))
call("EnqueueNDRangeKernel", queue, kernel, word(1), None, ctypes.byref(size(8)), None, word(0), None, None)
call("EnqueueReadBuffer", queue, buffer, word(1), size(0), size(32), numbers, word(0), None, None)
print(*numbers)
"""

SOURCE = "__kernel void work(__global int *p) {{ size_t i = get_global_id(0); p[i] = {}; }}\n"


@pytest.fixture
def run(tmp_path: Path) -> Callable[[Path], str]:
    """Return a function that runs the kernel ``work`` of a module in Debian 13 and returns what it printed."""
    debian = Debian(tmp_path)
    if "libpocl" not in debian("ls /usr/lib/*-linux-gnu"):
        reference.missing("PoCL in Debian 13 (tools/reference/get_debian.sh)")
    (tmp_path / "run.py").write_text(PROGRAM)
    return lambda module: debian(f"python3 run.py {module.relative_to(tmp_path)} work 2>&1 || true")


def compiled(path: Path, expression: str) -> Path:
    """Return a module that clang compiles of a kernel with this result."""
    source = path.with_suffix(".cl")
    source.write_text(SOURCE.format(expression))
    options = ("--target=spirv64v1.2", "-cl-std=CL2.0", "-Xclang", "-finclude-default-header", "-x", "cl", "-O1")
    reference.run("clang-22", *options, "-c", source, "-o", path)
    return path


def test_extracted_replaced_and_slimmed_modules_run(run: Callable[[Path], str], tmp_path: Path) -> None:
    module = compiled(tmp_path / "module.spv", "3 * p[i] + 1")
    other = compiled(tmp_path / "other.spv", "-p[i]")
    container, replaced = tmp_path / "container.bin", tmp_path / "replaced.bin"
    fatpack.pack([fatpack.ImageFile(module, triple=TRIPLE, offload="sycl")], container, format="offload-binary")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fatpack.replace(container, other.read_bytes(), replaced, selector=fatpack.Selector(triple=TRIPLE))
        fatpack.slim(replaced, tmp_path / "slim.bin", devices="pvc")
    assert run(taken(container, tmp_path / "extracted.spv")) == "1 4 7 10 13 16 19 22\n"
    for name in ("replaced", "slim"):
        assert run(taken(tmp_path / f"{name}.bin", tmp_path / f"{name}.spv")) == "0 -1 -2 -3 -4 -5 -6 -7\n"


def taken(container: Path, module: Path) -> Path:
    """Return the only image of a container, in a file."""
    with fatpack.open(container) as file:
        (image,) = file.images()
        module.write_bytes(image.data.tobytes())
    return module


def test_a_damaged_module_is_refused(run: Callable[[Path], str], tmp_path: Path) -> None:
    """The judge can fail."""
    module = compiled(tmp_path / "module.spv", "3 * p[i] + 1")
    module.write_bytes(module.read_bytes()[:200])
    assert "22" not in run(module).split()
