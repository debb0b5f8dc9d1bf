"""Compilers with stand-ins in the place of their tools: what they make is the same, byte for byte.

nvcc 13.0 and 13.5, clang 22 and 23; each test says which stand-in was called, so that none passes without.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import zstandard
from tests import reference
from tests.clients import in_place
from tests.clients.in_place import StandIns, run
from tests.formats.clang_bundle.test_reference import libzstd_of_the_tool

import fatpack
from fatpack.scanner import FoundContainer

pytestmark = [pytest.mark.reference, pytest.mark.slow]

_HIP = """
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
_CUDA = """
#define __global__ __attribute__((global))
struct dim3 { unsigned x, y, z; };
extern "C" int cudaLaunchKernel(const void *, dim3, dim3, void **, __SIZE_TYPE__, void *);
extern "C" unsigned __cudaPushCallConfiguration(dim3, dim3, __SIZE_TYPE__, void *);
extern "C" int __cudaPopCallConfiguration(dim3 *, dim3 *, __SIZE_TYPE__ *, void *);
__global__ void kernel(int *data) { *data = 1; }
"""
_OPENMP = "int scaled(int n) { int s = 0;\n#pragma omp target map(tofrom : s)\n s += n;\n return s; }\n"
_NVCC = """
template <typename T> __global__ void scale(T *data, T by) { data[threadIdx.x] *= by; }
__device__ int twice(int x) { return 2 * x; }
__global__ void add_two(int *data) { *data += twice(*data); }
void launch(float *data) { scale<<<1, 32>>>(data, 2.0f); }
"""

_ALWAYS = ["-O1", "-nogpulib", "-nogpuinc"]
_TWO = "--offload-arch=gfx90a,gfx1030"

#: source, options, and the stand-in that clang calls for them
CLANG = {
    "hip new driver": ("a.hip", ["-c", "--offload-new-driver", _TWO], "llvm-offload-binary"),
    "hip new driver rdc": ("a.hip", ["-c", "--offload-new-driver", "-fgpu-rdc", _TWO], "llvm-offload-binary"),
    "hip old driver": ("a.hip", ["-c", "--no-offload-new-driver", _TWO], "clang-offload-bundler"),
    "hip old driver rdc": ("a.hip", ["-c", "--no-offload-new-driver", "-fgpu-rdc", _TWO], "clang-offload-bundler"),
    "hip old driver compress": (
        "a.hip",
        ["-c", "--no-offload-new-driver", "--offload-compress", _TWO],
        "clang-offload-bundler",
    ),
    "hip device only": ("a.hip", ["-c", "--offload-device-only", "--gpu-bundle-output", _TWO], "clang-offload-bundler"),
    "openmp": ("a.c", ["-c", "-fopenmp", "--offload-arch=gfx90a"], "llvm-offload-binary"),
    "cuda new driver": ("a.cu", ["-c", "--offload-new-driver", "--cuda-gpu-arch=sm_80"], "fatbinary"),
    "cuda new driver rdc": (
        "a.cu",
        ["-c", "--offload-new-driver", "-fgpu-rdc", "--cuda-gpu-arch=sm_80", "--cuda-gpu-arch=sm_90"],
        "llvm-offload-binary",
    ),
    "cuda old driver": ("a.cu", ["-c", "--no-offload-new-driver", "--cuda-gpu-arch=sm_80"], "fatbinary"),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with sources."""
    for name, text in {"a.hip": _HIP.replace("NAME", "a"), "a.c": _OPENMP, "a.cu": _CUDA, "n.cu": _NVCC}.items():
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.fixture
def stand_ins(folder: Path) -> StandIns:
    """Return stand-ins that are in place."""
    placed = StandIns(folder)
    placed.install(["clang-offload-bundler", "llvm-offload-binary", "clang-offload-packager", "fatbinary", "cuobjdump"])
    return placed


def toolkit(folder: Path, fatbinary: str | Path) -> Path:
    """Make what clang takes for a CUDA toolkit, with NVIDIA's ptxas and a fatbinary."""
    made = folder / f"toolkit-{Path(fatbinary).parent.name}"
    (made / "bin").mkdir(parents=True)
    (made / "include").mkdir()
    (made / "include" / "cuda.h").write_text("#define CUDA_VERSION 12080\n")
    (made / "bin" / "ptxas").symlink_to(reference.tool("ptxas"))
    (made / "bin" / "fatbinary").symlink_to(fatbinary)
    return made


@pytest.mark.parametrize("version", ["22", "23"])
@pytest.mark.parametrize("case", CLANG)
def test_clang_makes_the_same_objects(case: str, version: str, folder: Path, stand_ins: StandIns) -> None:
    source, options, expected = CLANG[case]
    made = []
    for is_original in (True, False):
        flags = [] if is_original else [f"-B{stand_ins.folder}"]
        if source == "a.cu":
            flags += ["-nocudainc", "-nocudalib", "--no-cuda-version-check"]
            fatbinary = reference.tool("fatbinary") if is_original else stand_ins.folder / "fatbinary"
            flags += [f"--cuda-path={toolkit(folder, fatbinary)}"]
        else:
            flags += _ALWAYS
        flags += ["-cuid=first"] if source != "a.c" else []
        clang = reference.llvm_tool("clang", version)
        run(clang, *flags, *options, source, "-o", "made.o", cwd=folder, environment={"FATPACK_LLVM": version})
        made.append((folder / "made.o").read_bytes())
        (folder / "made.o").unlink()
    names = stand_ins.calls()
    assert expected in names or (expected == "llvm-offload-binary" and "clang-offload-packager" in names), names
    if "--offload-compress" in options and libzstd_of_the_tool() != zstandard.ZSTD_VERSION:
        assert images(made[0]) == images(made[1])  # docs/tools.md: another zstd library makes another stream
    else:
        assert made[0] == made[1]


def images(data: bytes) -> list[tuple[str, bytes]]:
    found = [item for item in fatpack.scan(data) if isinstance(item, FoundContainer)]
    return [(image.attrs.get("id", ""), image.data.tobytes()) for item in found for image in item.images]


#: what nvcc is asked for
NVCC = {
    "fatbin": ["-fatbin", "-gencode=arch=compute_80,code=[sm_80,compute_80]", "-gencode=arch=compute_90,code=sm_90"],
    "object": ["-c", "-arch=sm_90"],
    "relocatable": ["-dc", "-arch=sm_90"],
    "object uncompressed": ["-c", "-arch=sm_90", "--compress-mode=none"],
    "object all": ["-c", "-arch=all-major"],
    "debug": ["-c", "-G", "-arch=sm_90"],
    "object for the link-time optimizer": ["-dc", "-dlto", "-arch=sm_80", "--compress-mode=none"],
}


class Nvcc:
    """nvcc of a version in a folder, with its own fatbinary until stand-ins are in place."""

    def __init__(self, version: str, folder: Path) -> None:
        self._folder = folder
        self._environment = {"FATPACK_CUDA": version}
        self.stand_ins = StandIns(folder)
        self._program = in_place.placed(in_place.nvcc(version), self.stand_ins.folder)

    def made(self, options: list[str]) -> bytes:
        """Compile, and return what was made."""
        # Names of temporary files get into what is made; those that are kept have names without a process in them.
        (self._folder / "keep").mkdir(exist_ok=True)
        words = [self._program, "-keep", "-keep-dir", "keep", *options, "n.cu", "-o", "made"]
        run(*words, cwd=self._folder, environment=self._environment)
        data = (self._folder / "made").read_bytes()
        (self._folder / "made").unlink()
        return data


@pytest.mark.parametrize("version", ["13.0", "13.5"])
@pytest.mark.parametrize("case", NVCC)
def test_nvcc_makes_the_same_files(case: str, version: str, folder: Path) -> None:
    nvcc = Nvcc(version, folder)
    original = nvcc.made(NVCC[case])
    assert nvcc.stand_ins.calls() == {}
    nvcc.stand_ins.install()
    assert nvcc.made(NVCC[case]) == original
    assert set(nvcc.stand_ins.calls()) == {"fatbinary"}


@pytest.mark.parametrize("version", ["13.0", "13.5"])
def test_compressed_code_for_the_link_time_optimizer_is_not_obfuscated(version: str, folder: Path) -> None:
    """A row of docs/tools/fatbinary.md: objects of nvcc differ, and nvlink makes the same code of both."""
    nvcc = Nvcc(version, folder)
    options = ["-dc", "-dlto", "-arch=sm_80"]
    plain = nvcc.made([*options, "--compress-mode=none"])
    theirs = nvcc.made(options)
    nvcc.stand_ins.install()
    ours = nvcc.made(options)
    assert set(nvcc.stand_ins.calls()) == {"fatbinary"}
    assert theirs != ours

    (hidden,), (expected,), (found,) = (code_for_the_optimizer(data) for data in (theirs, plain, ours))
    with pytest.raises(fatpack.Unsupported, match="obfuscated by its producer"):
        hidden.data.tobytes()
    stored = found.data.tobytes()
    assert expected.data.tobytes() == stored + bytes(-len(stored) % 8)  # what is not compressed is padded

    (folder / "nvvm" / "lib64").mkdir(parents=True)
    (folder / "nvvm" / "lib64" / "libnvvm.so").symlink_to(reference.nvvm_library())
    libraries = f"-L{in_place.home(in_place.nvcc(version)) / 'lib'}"
    link = ["-dlto", "-arch=sm_80", "-nvvmpath=nvvm", "made.o", libraries, "-lcudadevrt", "-o", "x.cubin"]
    linked = []
    for data in (theirs, ours):
        (folder / "made.o").write_bytes(data)
        reference.run("nvlink", *link, cwd=folder)
        linked.append((folder / "x.cubin").read_bytes())
    assert linked[0] == linked[1]


def code_for_the_optimizer(data: bytes) -> list[fatpack.Image]:
    found = [item for item in fatpack.scan(data) if isinstance(item, FoundContainer)]
    return [image for item in found for image in item.images if image.form == "ltoir"]
