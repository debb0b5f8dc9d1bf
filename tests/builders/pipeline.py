"""The files of one unit at every stage, as clang makes them of a source: CUDA, HIP and OpenMP.

Every maker writes files into a folder and returns their names. What is left out makes a broken unit: an architecture, a
kernel of the device's source, the device code of the host's object.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.reference import run

import fatpack

CUDA = """
#define __global__ __attribute__((global))
struct dim3 { unsigned x, y, z; };
extern "C" int cudaLaunchKernel(const void *, dim3, dim3, void **, __SIZE_TYPE__, struct stream *);
extern "C" unsigned __cudaPushCallConfiguration(dim3, dim3, __SIZE_TYPE__ = 0, struct stream * = 0);
"""
HIP = CUDA.replace("cudaLaunchKernel", "hipLaunchKernel").replace("__cuda", "__hip")
KERNELS = {"one": "_Z3onePi", "two": "_Z3twoPi"}

_HOST = """module attributes {{cir.triple = "x86_64-unknown-linux-gnu"}} {{
{stubs}}}
"""
_STUB = """  "cir.func"() <{{sym_name = "_Z18__device_stub__{name}Pi"}}> ({{
    "cir.return"() : () -> ()
  }}) {{cu.kernel_name = #cir.cu.kernel_name<"{kernel}">}} : () -> ()
"""
_DEVICE = """module attributes {{cir.triple = "{triple}"}} {{
{kernels}}}
"""
_KERNEL = """  "cir.func"() <{{sym_name = "{kernel}"}}> ({{
    "cir.return"() : () -> ()
  }}) : () -> ()
"""
TRIPLES = {"cuda": "nvptx64-nvidia-cuda", "hip": "amdgcn-amd-amdhsa"}


class Unit:
    """A unit of a model (``cuda``, ``hip``) in a folder: two kernels, for some architectures."""

    def __init__(self, folder: Path, model: str, archs: Sequence[str]) -> None:
        self.folder, self.model, self.archs = folder, model, archs

    def source(self, name: str, kernels: Sequence[str] = ("one", "two")) -> Path:
        path = self.folder / f"{name}.{'cu' if self.model == 'cuda' else 'hip'}"
        text = CUDA if self.model == "cuda" else HIP
        path.write_text(text + "".join(f"__global__ void {kernel}(int *p) {{ *p = 1; }}\n" for kernel in kernels))
        return path

    def cir(self) -> str:
        """Write the CIR container of the unit."""
        triple = TRIPLES[self.model]
        stubs = "".join(_STUB.format(name=name, kernel=kernel) for name, kernel in KERNELS.items())
        device = _DEVICE.format(
            triple=triple, kernels="".join(_KERNEL.format(kernel=each) for each in KERNELS.values())
        )
        images = [fatpack.ImageFile(_HOST.format(stubs=stubs).encode(), id="host-x86_64-unknown-linux-gnu")]
        images += [fatpack.ImageFile(device.encode(), id=f"{self.model}-{triple}--{arch}") for arch in self.archs]
        path = self.folder / "k.cir"
        fatpack.pack(images, path, format="cir", overwrite=True)
        return str(path)

    def image(self, arch: str, name: str = "k", kernels: Sequence[str] = ("one", "two")) -> str:
        """Write a finished image: a cubin, or a code object."""
        source = self.source(name, kernels)
        path = self.folder / f"{name}.{arch}.{'cubin' if self.model == 'cuda' else 'hsaco'}"
        plain = ["-x", self.model, "-O1", "--cuda-device-only"]
        if self.model == "hip":
            options = ["-nogpuinc", "-nogpulib", f"--offload-arch={arch}", "--no-gpu-bundle-output"]
            run("clang", *plain, *options, source, "-o", path)
        else:
            options = ["-nocudainc", "-nocudalib", "-Wno-unknown-cuda-version", f"--cuda-gpu-arch={arch}", "-S"]
            run("clang", *plain, *options, source, "-o", f"{path}.ptx")
            run("ptxas", "--gpu-name", arch, f"{path}.ptx", "-o", path)
        return str(path)

    def container(self, images: Sequence[str], name: str = "k") -> str:
        """Write the container of finished images that the host's compilation takes."""
        path = self.folder / (f"{name}.fatbin" if self.model == "cuda" else f"{name}.hipfb")
        if self.model == "cuda":
            fatpack.pack([fatpack.ImageFile(each) for each in images], path, format="fatbin", overwrite=True)
            return str(path)
        files = [fatpack.ImageFile(b"", id="host-x86_64-unknown-linux-gnu")]
        for each in images:
            arch = Path(each).name.split(".")[1]
            files.append(fatpack.ImageFile(each, id=f"hipv4-amdgcn-amd-amdhsa--{arch}"))
        fatpack.pack(files, path, format="bundle", overwrite=True)
        return str(path)

    def host(self, container: str | None, name: str = "host", kernels: Sequence[str] = ("one", "two")) -> str:
        """Write the host's object with a container, or without one."""
        path = self.folder / f"{name}.o"
        options = ["-x", self.model, "--cuda-host-only", "-fPIC", "-O1", "--no-offload-new-driver"]
        options += ["-nogpuinc", "-nogpulib"] if self.model == "hip" else ["-nocudainc", "-nocudalib"]
        include = ["-Xclang", "-fcuda-include-gpubinary", "-Xclang", container] if container else []
        run("clang", *options, *include, "-Wno-unknown-cuda-version", "-c", self.source(name, kernels), "-o", path)
        return str(path)

    def program(self, *objects: str, name: str = "k") -> str:
        """Write a library of objects; the runtime's functions stay undefined."""
        path = self.folder / f"lib{name}.so"
        run("ld.lld", "-shared", *objects, "-o", path)
        return str(path)
