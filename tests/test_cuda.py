"""Output of nvcc and clang for CUDA sources is read as cuobjdump reads it: every option, linked and in archives."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest
from tests import cuobjdump, reference

import fatpack
from fatpack import images
from fatpack.io.source import BytesSource

pytestmark = pytest.mark.reference

KERNEL = 'extern "C" __global__ void one(int *p) { *p = 1; }\n'
HELPER = "extern __device__ int counter;\n__device__ int helper(int x) { counter += x; return 3 * x; }\n"
USER = """
extern __device__ int helper(int);
__device__ int counter;
__global__ void user(int *p) { __shared__ int s[32]; s[threadIdx.x & 31] = helper(*p); __syncthreads(); *p = s[0]; }
"""
TILE = f"__tile_global__ void tile(int *p) {{}}\n{KERNEL}"
#: CUDA without a header of the toolkit, for clang
PLAIN = """
#define __global__ __attribute__((global))
#define __host__ __attribute__((host))
struct dim3 { unsigned x, y, z; };
extern "C" int cudaLaunchKernel(const void *, dim3, dim3, void **, __SIZE_TYPE__, void *);
extern "C" int __cudaPushCallConfiguration(dim3, dim3, __SIZE_TYPE__, void *);
extern "C" int __cudaPopCallConfiguration(dim3 *, dim3 *, __SIZE_TYPE__ *, void *);
__global__ void kernel(int *data) { *data = 1; }
"""

#: nvcc takes seconds for a source, so that every input is made once.
Made = Callable[..., Path]


def maker(folder: Path, tool: str) -> Made:
    """Return what runs a compiler in a folder and returns its output."""

    def make(output: str, *arguments: str) -> Path:
        reference.run(tool, *arguments, "-o", output, cwd=folder)
        return folder / output

    return make


@pytest.fixture(scope="module")
def nvcc(tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder = tmp_path_factory.mktemp("nvcc")
    for name, text in (("one.cu", KERNEL), ("helper.cu", HELPER), ("user.cu", USER), ("tile.cu", TILE)):
        (folder / name).write_text(text)
    return maker(folder, "nvcc")


def archs_and_forms(path: Path, folder: Path) -> list[tuple[str, str]]:
    """Compare all that cuobjdump says and extracts with what fatpack does; return what the images are."""
    found = cuobjdump.check(path, folder / path.name)
    written = fatpack.extract(path, folder / "ours", fatpack.Selector(form=("cubin", "ptx")))
    assert [Path(name).read_bytes() for name in written] == [data for _, data in in_file_order(path)]
    return [(item.target.arch, item.form) for item in found]


def in_file_order(path: Path) -> list[tuple[str, bytes]]:
    with fatpack.open(path) as file:
        return [(found.form, found.data.tobytes()) for found in file.images() if found.form in ("cubin", "ptx")]


def test_one_source_for_many_architectures(nvcc: Made, tmp_path: Path) -> None:
    codes = {"80": "[sm_80,compute_80]", "90a": "sm_90a", "100f": "[sm_100f,compute_100f]"}
    options = [f"-gencode=arch=compute_{arch},code={code}" for arch, code in codes.items()]
    path = nvcc("multi.o", *options, "-c", "one.cu")
    assert cuobjdump.check_resources(path, cuobjdump.device_images(path)) == 3
    assert archs_and_forms(path, tmp_path) == [
        ("sm_80", "cubin"),
        ("sm_80", "ptx"),
        ("sm_90a", "cubin"),
        ("sm_100f", "cubin"),
        ("sm_100f", "ptx"),
    ]


@pytest.mark.sweep(3)
@pytest.mark.parametrize("mode", ["default", "speed", "balance", "size", "none"])
def test_every_mode_of_compression(nvcc: Made, tmp_path: Path, mode: str) -> None:
    path = nvcc(f"{mode}.fatbin", "-arch=sm_80", f"--compress-mode={mode}", "-fatbin", "one.cu")
    assert archs_and_forms(path, tmp_path) == [("sm_80", "cubin"), ("sm_80", "ptx")]


@pytest.mark.parametrize(
    ("option", "attrs", "options"),
    [
        ("-lineinfo", {}, " --generate-line-info "),
        ("-G", {"debug": "yes"}, " -g --dont-merge-basicblocks --return-at-end "),
    ],
)
def test_sources_are_named_with_lines_and_for_debugging(
    nvcc: Made, tmp_path: Path, option: str, attrs: Mapping[str, str], options: str
) -> None:
    path = nvcc(f"{option[1:]}.fatbin", "-arch=sm_80", option, "-fatbin", "one.cu")
    assert archs_and_forms(path, tmp_path) == [("sm_80", "cubin"), ("sm_80", "ptx")]
    with fatpack.open(path) as file:
        cubin, text = (found.attrs for found in file.images())
    assert cubin == {"identifier": "one.cu", **attrs}
    assert text == {**cubin, "options": options}


@pytest.fixture(scope="module")
def relocatable(nvcc: Made) -> Path:
    """Return the folder of helper.o and user.o, for sm_80 and sm_90."""
    options = ["-gencode=arch=compute_80,code=[sm_80,compute_80]", "-gencode=arch=compute_80,code=sm_90"]
    for name in ("helper", "user"):
        nvcc(f"{name}.o", *options, "-Xcompiler=-fPIC", "-dc", f"{name}.cu")
    options = ["-gencode=arch=compute_80,code=sm_80", "-gencode=arch=compute_90,code=sm_90"]
    return nvcc("dlink.o", *options, "-Xcompiler=-fPIC", "-dlink", "helper.o", "user.o").parent


#: what -dc makes for one source, and -dlink of all of them
UNIT = [("sm_90", "cubin"), ("sm_80", "cubin"), ("sm_80", "ptx")]
LINKED = [("sm_80", "cubin"), ("sm_90", "cubin")]


def test_relocatable_and_linked_device_code(relocatable: Path, tmp_path: Path) -> None:
    for number, (name, expected) in enumerate([("helper.o", UNIT), ("user.o", UNIT), ("dlink.o", LINKED)]):
        assert archs_and_forms(relocatable / name, tmp_path / str(number)) == expected
    linked = relocatable / "dlink.o"
    assert cuobjdump.check_resources(linked, cuobjdump.device_images(linked)) == 2


def test_an_archive_of_relocatable_code(nvcc: Made, relocatable: Path, tmp_path: Path) -> None:
    path = nvcc("lib.a", "-lib", "helper.o", "user.o", "dlink.o")
    assert archs_and_forms(path, tmp_path) == [*UNIT, *UNIT, *LINKED]


def test_a_shared_library_of_linked_and_relocatable_code(nvcc: Made, relocatable: Path, tmp_path: Path) -> None:
    path = nvcc("both.so", "-shared", "-cudart=none", "helper.o", "user.o", "dlink.o")
    assert archs_and_forms(path, tmp_path) == [*LINKED, *UNIT, *UNIT]
    reference.run("strip", "-s", path, "-o", tmp_path / "stripped.so")
    assert archs_and_forms(tmp_path / "stripped.so", tmp_path / "again") == [*LINKED, *UNIT, *UNIT]


@pytest.mark.sweep(3)
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["-gencode=arch=compute_80,code=compute_80"], [("sm_80", "ptx")]),
        (
            [
                "-gencode=arch=compute_100f,code=[sm_100f,sm_103f]",
                "-gencode=arch=compute_120a,code=[sm_120a,compute_120a]",
            ],
            [("sm_100f", "cubin"), ("sm_103f", "cubin"), ("sm_120a", "ptx"), ("sm_120a", "cubin")],
        ),
        (["-arch=sm_80", "-Xfatbin=-compress-all", "-lineinfo", "-G"], [("sm_80", "cubin"), ("sm_80", "ptx")]),
        (["-arch=sm_80", "-no-compress"], [("sm_80", "cubin"), ("sm_80", "ptx")]),
        (["-gencode=arch=compute_80,code=lto_80", "-rdc=true"], [("sm_80", "ltoir")]),
    ],
    ids=["text", "variants", "all", "none", "lto"],
)
def test_other_ways_to_say_what_is_wanted(
    nvcc: Made, tmp_path: Path, options: Sequence[str], expected: Sequence[tuple[str, str]]
) -> None:
    path = nvcc("ways.fatbin", *options, "-fatbin", "one.cu")
    assert sorted(archs_and_forms(path, tmp_path)) == sorted(expected)


@pytest.mark.slow  # six architectures
def test_every_major_architecture_at_once(nvcc: Made, tmp_path: Path) -> None:
    found = archs_and_forms(nvcc("major.fatbin", "-arch=all-major", "-fatbin", "one.cu"), tmp_path)
    assert {form for _, form in found} == {"cubin", "ptx"}
    assert {"sm_80", "sm_90", "sm_100", "sm_120"} <= {arch for arch, _ in found}


def test_tile_code_is_a_fat_binary_of_its_own(nvcc: Made, tmp_path: Path) -> None:
    reference.tool("tileiras")  # which nvcc runs: not every toolkit compiles tile code
    path = nvcc("tile.o", "-std=c++20", "--enable-tile", "-arch=sm_100", "-c", "tile.cu")
    # That every fat binary has its record, and every cubin the architecture it is stored for, is checked too.
    assert sorted(archs_and_forms(path, tmp_path)) == [
        ("sm_100", "cubin"),
        ("sm_100", "cubin"),
        ("sm_100", "ptx"),
        ("sm_100", "tileir"),
    ]


#: code that nvlink compiles
LTO = ("-gencode=arch=compute_80,code=lto_80", "-rdc=true")


def test_code_for_the_link_time_optimizer(nvcc: Made, tmp_path: Path) -> None:
    path = nvcc("lto.o", "-gencode=arch=compute_80,code=[lto_80,sm_80,compute_80]", "-dc", "user.cu")
    assert sorted(archs_and_forms(path, tmp_path)) == [("sm_80", "cubin"), ("sm_80", "ltoir"), ("sm_80", "ptx")]
    with fatpack.open(path) as file:
        assert [item.code for item in file.findings] == ["FP1408"]
        hidden = [item for item in file.images() if item.form == "ltoir"]
        with pytest.raises(fatpack.Unsupported, match="obfuscated by its producer"):
            hidden[0].data.tobytes()


def test_lto_ir_that_is_packed_is_linked_like_that_of_the_original(nvcc: Made, tmp_path: Path) -> None:
    names = ("helper", "user")
    folder = nvcc("user.ltoir", *LTO, "-ltoir", "user.cu").parent
    nvcc("helper.ltoir", *LTO, "-ltoir", "helper.cu")
    (tmp_path / "nvvm" / "lib64").mkdir(parents=True)
    (tmp_path / "nvvm" / "lib64" / "libnvvm.so").symlink_to(reference.nvvm_library())
    for name in names:
        image = f"--image3=kind=nvvm,sm=80,file={folder / name}.ltoir"
        reference.run("fatbinary", f"--create=theirs.{name}.fatbin", image, cwd=tmp_path)
        for mode in ("none", "default"):
            path = tmp_path / f"{mode}.{name}.fatbin"
            file = fatpack.ImageFile(folder / f"{name}.ltoir", arch="sm_80")
            fatpack.pack([file], path, options=fatpack.FatbinOptions(compress_mode=mode))
            (found,) = cuobjdump.check(path, tmp_path / f"{mode}.{name}")
            # Nothing but the compressed form says where it ends.
            stored = (folder / f"{name}.ltoir").read_bytes()
            assert found.data.tobytes() == stored + bytes(-len(stored) % 8 if mode == "none" else 0)
    linked = []
    for mode in ("theirs", "none", "default"):
        inputs = [f"{mode}.{name}.fatbin" for name in names]
        reference.run("nvlink", "-dlto", "-arch=sm_80", "-nvvmpath=nvvm", *inputs, "-o", "x.cubin", cwd=tmp_path)
        linked.append((tmp_path / "x.cubin").read_bytes())
    assert linked[1:] == linked[:1] * 2
    assert images.kernels(BytesSource(linked[0]).view(), "cubin") == ("_Z4userPi",)


@pytest.fixture(scope="module")
def clang(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Return what compiles with a folder that clang takes for a CUDA toolkit."""
    folder = tmp_path_factory.mktemp("clang")
    (folder / "plain.cu").write_text(PLAIN)
    (folder / "include").mkdir()
    (folder / "include" / "cuda.h").write_text("#define CUDA_VERSION 12080\n")
    (folder / "bin").mkdir()
    for name in ("ptxas", "fatbinary", "nvlink"):
        (folder / "bin" / name).symlink_to(reference.tool(name))
    return maker(folder, "clang")


TOOLKIT = "--cuda-path=."
DRIVER = ("-x", "cuda", TOOLKIT, "-nocudainc", "-nocudalib", "--no-cuda-version-check", "-O1", "-fPIC")
ARCHS = ("--cuda-gpu-arch=sm_80", "--cuda-gpu-arch=sm_90")


@pytest.mark.parametrize(
    ("option", "expected"),
    [
        ("--no-offload-new-driver", [("sm_80", "cubin"), ("sm_80", "ptx"), ("sm_90", "cubin"), ("sm_90", "ptx")]),
        ("--offload-new-driver", [("sm_80", "cubin"), ("sm_90", "cubin")]),
    ],
)
def test_objects_of_both_drivers_of_clang(
    clang: Made, tmp_path: Path, option: str, expected: Sequence[tuple[str, str]]
) -> None:
    path = clang(f"{option}.o", *DRIVER, *ARCHS, option, "-c", "plain.cu")
    assert archs_and_forms(path, tmp_path) == expected


def test_what_clang_links_of_offload_binaries(clang: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = clang("rdc.o", *DRIVER, *ARCHS, "--offload-new-driver", "-fgpu-rdc", "-c", "plain.cu")
    with fatpack.open(path) as file:
        assert {found.container.format for found in file.containers} == {"llvm-offload-binary"}
        assert [(item.target.arch, item.form) for item in file.images()] == LINKED
    # The link takes nvlink from the path; that of an older toolkit refuses what this ptxas makes.
    monkeypatch.setenv("PATH", os.pathsep.join((str(path.parent / "bin"), os.environ["PATH"])))
    linked = clang("linked.so", TOOLKIT, "--offload-link", "-shared", "-nostdlib", "rdc.o")
    assert sorted(archs_and_forms(linked, tmp_path)) == LINKED
    with fatpack.open(linked) as file:
        kernels = {images.kernels(BytesSource(item.data.tobytes()).view(), item.form) for item in file.images()}
    assert kernels == {("_Z6kernelPi",)}
