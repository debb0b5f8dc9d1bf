"""Images that can be registered together, the result, and refusals with their hints."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from tests.laws.rooms import FIXTURES

import fatpack
from fatpack import ImageFile, UsageError

CUBIN = FIXTURES / "cuda" / "cubin" / "k1.cuda13.0.sm_80.cubin"
OTHER_CUBIN = FIXTURES / "cuda" / "cubin" / "k1.cuda13.0.sm_90.cubin"
FATBIN = FIXTURES / "cuda_fatbin" / "v130_size.fatbin"
BUNDLE = FIXTURES / "clang_bundle" / "llvm-22-hip.bundle"
TEXT = FIXTURES / "clang_bundle" / "llvm-22-text-zstd.bundle"
RELOCATABLE = FIXTURES / "cuda" / "cubin" / "dev.cuda13.0.rdc.sm_90.cubin"
RELOCATABLE_AMD = FIXTURES / "kernels" / "exact.v5.gfx1030.o"
BITCODE = FIXTURES / "bitcode" / "clang-22.bc"
HOST_OBJECT = FIXTURES / "elf" / "clang-22-hip.o"
GFX90A, GFX1100 = (FIXTURES / "kernels" / f"needs.{name}.hsaco" for name in ("v6.gfx90a", "v5.gfx1100"))
SPIRV = FIXTURES / "kernels" / "add_one.llvm22.spv"


def wrapped(*images: object, kind: str, **arguments: object) -> bytes:
    output = io.BytesIO()
    assert fatpack.wrap(images, output, kind=kind, **arguments) == len(output.getvalue())  # type: ignore[arg-type]
    return output.getvalue()


def listed(data: bytes) -> list[tuple[str, str, str]]:
    """Return format, model and architecture of all images for devices."""
    with fatpack.open(data) as file:
        return [
            (found.format, image.target.offload, image.target.arch)
            for found in file.containers
            for image in found.images
            if image.target.offload != "host"
        ]


def offload_binary(*images: ImageFile, version: int = 1) -> bytes:
    output = io.BytesIO()
    fatpack.pack(images, output, options=fatpack.OffloadBinaryOptions(version=version))
    return output.getvalue()


def device(kind: str, data: object = b"image", **arguments: str) -> ImageFile:
    return ImageFile(data, **{"triple": "t", "arch": "a", "name": "i.o", "offload": kind} | arguments)  # type: ignore[arg-type]


def test_cubins_become_the_fat_binary_that_fatbinary_makes() -> None:
    data, expected = wrapped(CUBIN, OTHER_CUBIN, kind="cuda"), io.BytesIO()
    fatpack.pack([ImageFile(CUBIN), ImageFile(OTHER_CUBIN)], expected, format="fatbin")
    assert listed(data) == [("cuda-fatbin", "cuda", "sm_80"), ("cuda-fatbin", "cuda", "sm_90")]
    assert expected.getvalue() in data


def test_code_objects_become_the_bundle_that_clang_linker_wrapper_asks_for() -> None:
    data, expected = wrapped(GFX90A, GFX1100, kind="hip"), io.BytesIO()
    ids = ["host-x86_64-unknown-linux-gnu", "hip-amdgcn-amd-amdhsa--gfx90a", "hip-amdgcn-amd-amdhsa--gfx1100"]
    images = [ImageFile(file, id=id) for file, id in zip((b"", GFX90A, GFX1100), ids, strict=True)]
    fatpack.pack(images, expected, options=fatpack.BundleOptions(type="o", align=4096))
    assert expected.getvalue() in data
    assert listed(data) == [("clang-offload-bundle", "hip", "gfx90a"), ("clang-offload-bundle", "hip", "gfx1100")]


@pytest.mark.parametrize(("kind", "file"), [("cuda", FATBIN), ("hip", BUNDLE)])
def test_a_container_is_registered_as_it_is(kind: str, file: Path) -> None:
    assert file.read_bytes() in wrapped(file, kind=kind)


def test_images_of_offload_binaries_become_what_the_runtime_takes() -> None:
    cuda = offload_binary(device("cuda", CUBIN, triple="nvptx64-nvidia-cuda", arch="sm_80"))
    assert listed(wrapped(cuda, kind="cuda")) == [("cuda-fatbin", "cuda", "sm_80")]
    hip = offload_binary(device("hip", GFX90A, triple="amdgcn-amd-amdhsa", arch="gfx90a"))
    assert listed(wrapped(hip, GFX1100, kind="hip")) == [
        ("clang-offload-bundle", "hip", "gfx90a"),
        ("clang-offload-bundle", "hip", "gfx1100"),
    ]


def test_offload_binaries_for_openmp_stay_and_others_are_made() -> None:
    given = offload_binary(device("openmp"), device("openmp", b"second"))
    data = wrapped(given, GFX90A, kind="openmp")
    assert given[:64] in data
    assert [arch for _, _, arch in listed(data)] == ["a", "a", "gfx90a"]


def test_compressed_offload_binaries_are_made_anew() -> None:
    output = io.BytesIO()
    fatpack.pack([device("openmp", b"a" * 999)], output,
                 options=fatpack.OffloadBinaryOptions(version=3, compression="zlib"))  # fmt: skip
    assert b"a" * 999 in wrapped(output.getvalue(), kind="openmp")


def test_several_sycl_images_are_one_binary_for_llvm_23() -> None:
    one, two = offload_binary(device("sycl")), offload_binary(device("sycl", b"second", arch="b"))
    data = wrapped(one, two, kind="sycl", llvm=23)
    with fatpack.open(data) as file:
        (found,) = file.containers
        assert found.version == 2 and [image.target.arch for image in found.images] == ["a", "b"]
    assert one in wrapped(one, kind="sycl", llvm=23)


def test_what_a_user_states_of_an_image_is_stored() -> None:
    image = ImageFile(b"raw", triple="spirv64-intel", arch="bmg", name="x.spv")
    assert listed(wrapped(image, kind="openmp")) == [("llvm-offload-binary", "openmp", "bmg")]
    assert listed(wrapped(ImageFile(b"raw", arch="gfx90a"), kind="hip"))[0][2] == "gfx90a"


@pytest.mark.parametrize(
    ("images", "kind", "problem", "advice"),
    [
        ([], "cuda", "nothing to wrap", "name images"),
        ([FATBIN], "hip", "cuda-fatbin, and hip takes a clang-offload-bundle", "kind='cuda'"),
        ([BUNDLE], "openmp", "clang-offload-bundle, and openmp takes", "kind='hip'"),
        ([TEXT], "cuda", "clang-offload-bundle, and cuda takes", "kind='hip'"),
        ([TEXT], "hip", "is a bundle that is text", "fatpack convert"),
        ([FATBIN, CUBIN], "cuda", "a program registers one", "fatpack extract"),
        ([FATBIN, FATBIN], "cuda", "a program registers one", "fatpack extract"),
        ([b"nothing known"], "openmp", "", "ImageFile"),
        ([b"nothing known"], "hip", "", "ImageFile"),
        ([BITCODE], "openmp", "does not say for which architecture", "ImageFile"),
        ([b"nothing known"], "cuda", "no image of a fat binary", "kind=elf"),
        ([ImageFile(GFX90A, triple="amdgcn-amd-amdhsa")], "hip", "name the processor", "arch"),
        ([ImageFile(GFX90A, arch="gfx90a", offload="openmp")], "hip", "it is for openmp, and hip", "leave out kind"),
        ([GFX90A], "opencl", "kind 'opencl'", "choose from openmp, cuda, hip, sycl"),
    ],
)
def test_what_cannot_be_registered_is_refused_with_advice(
    images: list[object], kind: str, problem: str, advice: str
) -> None:
    with pytest.raises(UsageError) as error:
        wrapped(*images, kind=kind)
    assert problem in error.value.problem and advice in error.value.hint


@pytest.mark.parametrize(
    ("image", "kind", "problem", "advice"),
    [
        (CUBIN, "hip", "which hip's runtime does not load", "kind='cuda'"),
        (b".version 8.0\n.target sm_80\n.address_size 64\n", "hip", "does not load", "kind='cuda'"),
        (GFX90A, "cuda", "which cuda's runtime does not load", "kind='hip'"),
        (SPIRV, "cuda", "which cuda's runtime does not load", "give an image for cuda's devices"),
        (RELOCATABLE, "cuda", "a relocatable", "link it for the device first (nvlink or clang-nvlink-wrapper)"),
        (RELOCATABLE_AMD, "hip", "a relocatable", "link it for the device first (ld.lld"),
        (BITCODE, "cuda", "LLVM bitcode", "link it for the device first"),
        (HOST_OBJECT, "cuda", "x86_64", "fatpack extract takes device images out of an object"),
        (HOST_OBJECT, "hip", "x86_64", "fatpack extract takes device images out of an object"),
    ],
)
def test_images_that_the_runtime_never_loads_are_refused(image: object, kind: str, problem: str, advice: str) -> None:
    for given in (image, ImageFile(image, arch="gfx90a" if kind == "hip" else "sm_90")):  # type: ignore[arg-type]
        with pytest.raises(UsageError) as error:
            wrapped(given, kind=kind)
        assert problem in error.value.problem and advice in error.value.hint


def test_images_of_an_offload_binary_are_looked_at_too() -> None:
    given = offload_binary(device("cuda", RELOCATABLE, triple="nvptx64-nvidia-cuda", arch="sm_90"))
    with pytest.raises(UsageError, match=r"image 0: .*relocatable"):
        wrapped(given, kind="cuda")


def test_the_same_image_twice_is_refused() -> None:
    for given, kind in (([CUBIN] * 2, "cuda"), ([GFX90A, GFX1100, GFX90A], "hip"), ([GFX90A] * 2, "openmp")):
        with pytest.raises(UsageError, match="given twice; give each image once"):
            wrapped(*given, kind=kind)
    with pytest.raises(UsageError, match="are the same image"):
        wrapped(GFX90A, GFX90A.read_bytes(), kind="openmp")
    stated = [ImageFile(GFX90A, triple="amdgcn-amd-amdhsa", arch=arch) for arch in ("gfx90a", "gfx90a:xnack-")]
    assert [arch for _, _, arch in listed(wrapped(*stated, kind="openmp"))] == ["gfx90a", "gfx90a:xnack-"]


def test_images_for_another_runtime_are_refused() -> None:
    with pytest.raises(UsageError, match="image 1 is for openmp, not for sycl"):
        wrapped(offload_binary(device("sycl"), device("openmp"), version=2), kind="sycl")


def test_arguments_that_mean_nothing_are_refused() -> None:
    for arguments, problem in (
        ({"emit": "exe"}, "output 'exe'"),
        ({"llvm": 21}, "LLVM version 21"),
        ({"kind": "sycl", "llvm": 19}, "registers no SYCL"),
        ({"relocatable": True}, "for OpenMP alone"),
        ({"host_triple": ""}, "no triple of a host"),
        ({"host_triple": "x86_64-pc-linux\n"}, "no triple of a host"),
        ({"host_triple": "riscv64-unknown-linux-gnu"}, "no object can be made"),
        ({"host_triple": "x86_64-linux-gnux32"}, "no object can be made"),
        ({"host_triple": "aarch64-linux-gnu_ilp32"}, "no object can be made"),
        ({"host_triple": "aarch64-pc-windows-msvc"}, "no object can be made"),
        ({"host_triple": "arm64-apple-macosx"}, "no object can be made"),
    ):
        with pytest.raises(UsageError, match=problem):
            wrapped(FATBIN, **({"kind": "cuda"} | arguments))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="several files in a list"):
        fatpack.wrap(FATBIN.read_bytes(), io.BytesIO(), kind="cuda")


def test_damage_is_not_wrapped(tmp_path: Path) -> None:
    for file, kind in ((FATBIN, "cuda"), (BUNDLE, "hip")):
        with pytest.raises(fatpack.FormatError):
            wrapped(file.read_bytes()[:-20], kind=kind)
    data = offload_binary(device("openmp"))
    with pytest.raises(fatpack.FormatError):
        wrapped(data[:-20], kind="openmp")
    with pytest.raises(fatpack.FatpackError, match="empty"):
        wrapped(b"", kind="openmp")
