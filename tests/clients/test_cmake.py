"""CMake projects of each language, built with the originals and with stand-ins in their place: the same files.

Both builds have the same command lines and folders, for names of files and options get into what compilers make: the
folder that they look into first is empty for the first build, and has the stand-ins for the second.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from pathlib import Path

import pytest
from tests import reference
from tests.clients import in_place
from tests.clients.in_place import StandIns

pytestmark = [pytest.mark.reference, pytest.mark.slow]

_PROJECTS = Path(__file__).parent / "projects"

#: variables of CMake, as -D sets them
Settings = dict[str, str | Path]


class Build:
    """A project that is built twice, in the same folder."""

    def __init__(self, top: Path, language: str, **environment: str) -> None:
        self.top = top
        self.stand_ins = StandIns(top)
        self._project = top / "project"
        self._build = top / "build"
        self._environment = environment
        shutil.copytree(_PROJECTS / language, self._project)

    def made(self, settings: Settings) -> dict[str, bytes]:
        """Configure and build; return the contents of objects, archives and programs by their names."""
        options = [f"-D{name}={value}" for name, value in settings.items()]
        cmake = reference.tool("cmake")
        in_place.run(cmake, "-S", self._project, "-B", self._build, *options, environment=self._environment)
        in_place.run(cmake, "--build", self._build, environment=self._environment)
        paths = [*self._build.glob("CMakeFiles/p*.dir/*.o"), *self._build.glob("*.a"), self._build / "program"]
        made = {str(path.relative_to(self._build)): path.read_bytes() for path in paths}
        shutil.rmtree(self._build)
        return made

    def compared(self, settings: Settings, objects: int) -> Counter[str]:
        """Build with the originals and with stand-ins, of which there are ``objects``; return who was called."""
        theirs = self.made(settings)
        assert self.stand_ins.calls() == {}
        self.stand_ins.install()
        ours = self.made(settings)
        assert sum(name.endswith(".o") for name in ours) == objects
        assert set(ours) == set(theirs)
        assert [name for name in ours if ours[name] != theirs[name]] == []
        return self.stand_ins.calls()


@pytest.mark.parametrize("is_separable", [False, True])
@pytest.mark.parametrize("version", ["13.0", "13.5"])
def test_cuda_by_nvcc(tmp_path: Path, version: str, is_separable: bool) -> None:
    build = Build(tmp_path, "cuda", FATPACK_CUDA=version)
    nvcc = in_place.placed(in_place.nvcc(version), build.stand_ins.folder)
    settings = {"CMAKE_CUDA_COMPILER": nvcc, "CMAKE_CUDA_ARCHITECTURES": "80;90", "SEPARABLE": str(is_separable)}
    called = build.compared(settings, 3 if is_separable else 2)
    assert set(called) == {"fatbinary"}
    assert called["fatbinary"] >= (3 if is_separable else 2)


class ByClang(Build):
    """A project that clang 22 or 23 compiles."""

    def __init__(self, top: Path, language: str, version: str) -> None:
        self._clang = Path(reference.llvm_tool("clang", version))
        # Links are handed over to the clang-linker-wrapper that PATH finds: it has to be that of the compiler.
        path = f"{self._clang.parent}{os.pathsep}{os.environ['PATH']}"
        super().__init__(top, language, FATPACK_LLVM=version, PATH=path)

    def settings(self, language: str, *flags: str) -> Settings:
        """Return what tells CMake the compiler of a language and its options."""
        compiler = self._clang if language == "C" else self._clang.with_name("clang++")
        words = " ".join([f"-B{self.stand_ins.folder}", *flags])
        return {f"CMAKE_{language}_COMPILER": compiler, f"CMAKE_{language}_FLAGS": words}


@pytest.mark.parametrize("version", ["22", "23"])
def test_cuda_by_clang(tmp_path: Path, version: str) -> None:
    """clang wants a header of cuRAND that a small toolkit has not, and does not know CUDA 13 yet."""
    build = ByClang(tmp_path, "cuda", version)
    (tmp_path / "include").mkdir()
    (tmp_path / "include" / "curand_mtgp32_kernel.h").touch()
    flags = ["--no-cuda-version-check", "--offload-arch=sm_80", f"-I{tmp_path / 'include'}"]
    settings = build.settings("CUDA", *flags)
    settings |= {"CMAKE_CUDA_ARCHITECTURES": "80;90", "CUDAToolkit_ROOT": in_place.home(in_place.nvcc("13.0"))}
    called = build.compared(settings, 2)
    assert set(called) == {"clang-linker-wrapper", "fatbinary"}
    assert called["fatbinary"] >= 2


#: how device code is compiled: an option of clang, whether it is linked, and who is called
HIP = {
    "new driver": ("--offload-new-driver", False, {"llvm-offload-binary", "clang-linker-wrapper"}),
    "new driver, linked": ("--offload-new-driver", True, {"llvm-offload-binary", "clang-linker-wrapper"}),
    "old driver": ("--no-offload-new-driver", False, {"clang-offload-bundler"}),
    "old driver, linked": ("--no-offload-new-driver", True, {"clang-offload-bundler"}),
}


@pytest.mark.parametrize("version", ["22", "23"])
@pytest.mark.parametrize("way", HIP)
def test_hip(tmp_path: Path, version: str, way: str) -> None:
    """In a folder that has of ROCm what CMake and clang ask for: no library of devices, a runtime that does nothing."""
    option, is_linked, expected = HIP[way]
    build = ByClang(tmp_path, "hip", version)
    shutil.copytree(_PROJECTS / "rocm", tmp_path / "rocm")
    library = tmp_path / "rocm" / "lib" / "libamdhip64.so"
    in_place.run(reference.tool("cc"), "-shared", "-fPIC", tmp_path / "rocm" / "runtime.c", "-o", library)
    settings = build.settings("HIP", option, f"--rocm-path={tmp_path / 'rocm'}", "-nogpulib")
    settings |= {"CMAKE_HIP_COMPILER_ROCM_ROOT": tmp_path / "rocm", "CMAKE_HIP_ARCHITECTURES": "gfx90a;gfx1030"}
    called = build.compared(settings | {"SEPARABLE": str(is_linked)}, 2)
    assert set(called) == expected
    assert min(called.values()) >= 2


@pytest.mark.parametrize("version", ["22", "23"])
def test_c_and_cpp_with_openmp(tmp_path: Path, version: str) -> None:
    build = ByClang(tmp_path, "openmp", version)
    called = build.compared(build.settings("C") | build.settings("CXX"), 3)
    assert set(called) == {"llvm-offload-binary", "clang-linker-wrapper"}
    assert called["llvm-offload-binary"] >= 3
