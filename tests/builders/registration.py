"""Host files of CUDA and HIP sources by clang, whole and with one thing broken in the host's IR."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from tests import reference

import fatpack

SOURCE = """
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __host__ __attribute__((host))
struct dim3 { unsigned x, y, z; };
#ifdef IS_HIP
typedef int hipError_t; typedef struct stream *hipStream_t;
extern "C" hipError_t hipLaunchKernel(const void *, dim3, dim3, void **, __SIZE_TYPE__, hipStream_t);
extern "C" hipError_t __hipPushCallConfiguration(dim3, dim3, __SIZE_TYPE__ = 0, hipStream_t = 0);
extern "C" hipError_t __hipPopCallConfiguration(dim3 *, dim3 *, __SIZE_TYPE__ *, hipStream_t *);
#else
extern "C" int cudaLaunchKernel(const void *, dim3, dim3, void **, __SIZE_TYPE__, void *);
extern "C" int cudaConfigureCall(dim3, dim3, __SIZE_TYPE__ = 0, void * = 0);
extern "C" int __cudaPushCallConfiguration(dim3, dim3, __SIZE_TYPE__ = 0, void * = 0);
extern "C" int __cudaPopCallConfiguration(dim3 *, dim3 *, __SIZE_TYPE__ *, void *);
#endif
__device__ int counter;
__global__ void first(int *p) { *p += 1; }
extern "C" __global__ void plain(int *p) { *p = counter; }
namespace { __global__ void hidden(int *p, float q) { *p = 3 * q; } }
static __global__ void local(int *p) { *p = 5; }
template <class T> __global__ void many(T *p) { *p = 7; }
void launch(int *p) {
  dim3 a{1, 1, 1};
  first<<<a, a>>>(p); plain<<<a, a>>>(p); hidden<<<a, a>>>(p, 1); local<<<a, a>>>(p);
  many<<<a, a>>>(p); many<<<a, a>>>((float *)p);
}
"""

#: what the device calls the kernels of the source
KERNELS = {"_Z5firstPi", "plain", "_ZN12_GLOBAL__N_16hiddenEPif", "_ZL5localPi", "_Z4manyIiEvPT_", "_Z4manyIfEvPT_"}
OTHER = '#define __global__ __attribute__((global))\nextern "C" __global__ void other(int *p) { *p = 1; }\n'

MODELS = ("cuda", "hip")
#: which interface launches kernels depends on it, and clang finds the toolkit for some targets only
_VERSION = ["-Wno-unknown-cuda-version", "-Xclang", "-target-sdk-version=12.8"]
OPTIONS = {
    "cuda": ["-x", "cuda", "-nocudainc", "-nocudalib", "--cuda-gpu-arch=sm_80", *_VERSION],
    "hip": ["-x", "hip", "-DIS_HIP", "-nogpulib", "-nogpuinc", "--offload-arch=gfx90a"],
}
TARGETS = (
    "x86_64-linux-gnu",
    "aarch64-linux-gnu",
    "x86_64-pc-windows-msvc",
    "aarch64-pc-windows-msvc",
    "x86_64-w64-windows-gnu",
)


def image(folder: Path, model: str, source: str = SOURCE, name: str = "image", version: str = "22") -> Path:
    """Return the container that host code embeds: a fat binary of PTX, or a bundle of a code object."""
    clang = reference.llvm_tool("clang", version)
    path, out = folder / f"{name}.{model}", folder / f"{name}.{model}.fatbin"
    if out.exists():
        return out
    path.write_text(source)
    if model == "hip":
        reference.run(clang, *OPTIONS[model], "--offload-device-only", "-O1", "-c", path, "-o", out)
        return out
    text = folder / f"{name}.ptx"
    reference.run(clang, *OPTIONS[model], "--cuda-device-only", "-O1", "-S", path, "-o", text)
    fatpack.pack([fatpack.ImageFile(text, arch="sm_80")], out, options=fatpack.FatbinOptions())
    return out


def host_ir(
    folder: Path,
    model: str,
    target: str,
    *options: str,
    embedded: Path | None = None,
    version: str = "22",
    source: str = SOURCE,
) -> str:
    """Return the IR of the host side for a target; ``embedded`` is the container in it."""
    path, out = folder / f"host.{model}", folder / "host.ll"
    path.write_text(source)
    embed = ["-Xclang", "-fcuda-include-gpubinary", "-Xclang", str(embedded)] if embedded else []
    host = ["--offload-host-only", f"--target={target}", "-S", "-emit-llvm", *embed, *options]
    reference.run(reference.llvm_tool("clang", version), *OPTIONS[model], *host, path, "-o", out)
    return out.read_text()


def compiled(folder: Path, text: str, target: str, name: str, *options: str, version: str = "22") -> Path:
    """Return the object that clang makes of IR."""
    source, out = folder / f"{name}.ll", folder / f"{name}.o"
    source.write_text(text)
    machine = [f"--target={target}", "-Wno-override-module", *options]
    reference.run(reference.llvm_tool("clang", version), *machine, "-c", source, "-o", out)
    return out


def _without_lines(*words: str) -> Callable[[str], str]:
    def edit(text: str) -> str:
        kept = [line for line in text.splitlines() if not any(re.search(word, line) for word in words)]
        assert len(kept) < len(text.splitlines()), words
        return "\n".join(kept) + "\n"

    return edit


def _without_first(word: str) -> Callable[[str], str]:
    def edit(text: str) -> str:
        lines = text.splitlines()
        del lines[next(index for index, line in enumerate(lines) if re.search(word, line))]
        return "\n".join(lines) + "\n"

    return edit


def _renamed(text: str) -> str:
    assert 'c"plain\\00"' in text
    return text.replace('c"plain\\00"', 'c"plaim\\00"')


def _bad_magic(text: str) -> str:
    changed = re.sub(r"(fatbin_wrapper = .*\{ i32 )\d+", r"\g<1>7", text)
    assert changed != text
    return changed


def _null(text: str) -> str:
    changed = re.sub(r"(fatbin_wrapper = .*\{ i32 \d+, i32 \d+, ptr )[^,]+", r"\g<1>null", text)
    assert changed != text
    return changed


#: what is broken → the edit of IR, and the code of the finding that says it
BROKEN: dict[str, tuple[Callable[[str], str], str]] = {
    "no constructor": (_without_lines(r"^@llvm.global_ctors"), "FP3043"),
    "no RegisterFunction": (_without_lines(r"call .*RegisterFunction\("), "FP3042"),
    "one dropped": (_without_first(r"call .*RegisterFunction\("), "FP3045"),
    "wrong name": (_renamed, "FP3046"),
    "bad magic": (_bad_magic, "FP30.1"),
    "null pointer": (_null, "FP30.3"),
}
#: the same of what only code that was not optimised has
BROKEN_PLAIN: dict[str, tuple[Callable[[str], str], str]] = {
    "register function not called": (_without_lines(r"call .*@__(cuda|hip)_register_globals\("), "FP3044"),
}
