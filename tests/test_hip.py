"""Output of clang for HIP sources is read fully: every driver option, linked, merged and in archives."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests import reference

import fatpack
from fatpack import Selector
from fatpack.formats.clang_bundle.fat_object import is_host_marker

SOURCE = """
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
struct dim3 { unsigned x, y, z; };
typedef int hipError_t; typedef struct stream *hipStream_t;
extern "C" hipError_t hipLaunchKernel(const void *, dim3, dim3, void **, __SIZE_TYPE__, hipStream_t);
extern "C" hipError_t __hipPushCallConfiguration(dim3, dim3, __SIZE_TYPE__ = 0, hipStream_t = 0);
__global__ void NAME(int *p) { *p = 1; }
"""
ARCHS = ("gfx1030", "gfx90a")
DRIVER = ("-x", "hip", "-nogpulib", "-nogpuinc", "--no-offload-new-driver", "-O1", f"--offload-arch={','.join(ARCHS)}")


def compiled(folder: Path, name: str, *options: str) -> Path:
    """Return an object with the kernel ``name``."""
    source, path = folder / f"{name}.hip", folder / f"{name}.o"
    source.write_text(SOURCE.replace("NAME", name))
    reference.run("clang", *DRIVER, "-fPIC", *options, "-c", source, "-o", path)
    return path


def archs_and_kernels(path: Path) -> list[tuple[str, str, tuple[str, ...]]]:
    """Return (arch, form, kernels) of every device image of a file."""
    from fatpack import images

    with fatpack.open(path) as file:
        assert [item for item in file.findings if item.severity != "note"] == []
        return [
            (found.target.arch, found.form, images.kernels(found.data, found.form))  # type: ignore[arg-type]
            for found in file.images()
            if found.target.offload != "host"
        ]


@pytest.mark.parametrize("options", [(), ("--offload-compress",)], ids=lambda options: " ".join(options) or "plain")
def test_a_compiled_object_and_what_is_linked_of_two(tmp_path: Path, options: tuple[str, ...]) -> None:
    objects = [compiled(tmp_path, name, *options) for name in ("one", "two")]
    expected = [(arch, "code-object", (f"_Z3{name}Pi",)) for name in ("one", "two") for arch in ARCHS]
    assert archs_and_kernels(objects[0]) == expected[:2]
    reference.run("ld", "-r", *objects, "-o", tmp_path / "merged.o")
    reference.run("ld", "-shared", *objects, "-o", tmp_path / "linked.so")
    reference.run("llvm-ar", "rcs", tmp_path / "both.a", *objects)
    for name in ("merged.o", "linked.so", "both.a"):
        assert archs_and_kernels(tmp_path / name) == expected, name


def names_in_bitcode(path: Path) -> list[tuple[str, str, list[str]]]:
    """Return (arch, form, names) of every device image, by the names that its bytes hold."""
    with fatpack.open(path) as file:
        assert [item for item in file.findings if item.severity == "error" or item.code == "FP1314"] == []
        return [
            (found.target.arch, found.form, [name for name in ("one", "two") if f"_Z3{name}Pi".encode() in data])
            for found in file.images()
            if found.target.offload != "host" and (data := found.data.tobytes())
        ]


def test_relocatable_device_code_apart_and_merged(tmp_path: Path) -> None:
    one, two = (compiled(tmp_path, name, "-fgpu-rdc") for name in ("one", "two"))
    assert names_in_bitcode(one) == [(arch, "bitcode", ["one"]) for arch in ARCHS]
    reference.run("ld", "-r", one, two, "-o", tmp_path / "merged.o")
    # The linker glues the images of one target together; clang-offload-bundler hands them out as one.
    expected = [(arch, "bitcode", [name]) for arch in ARCHS for name in ("one", "two")]
    assert names_in_bitcode(tmp_path / "merged.o") == expected


def test_images_are_those_that_the_original_unbundles(tmp_path: Path) -> None:
    path = compiled(tmp_path, "one", "-fgpu-rdc")
    with fatpack.open(path) as file:
        (found,) = file.containers
        ids = [image.attrs["id"] for image in found.images]
        outputs = [f"-output={tmp_path / str(number)}" for number in range(len(ids))]
        unbundle = ["-unbundle", "-type=o", f"-targets={','.join(ids)}", f"-input={path}", *outputs]
        reference.run("clang-offload-bundler", *unbundle)
        for number, image in enumerate(found.images):
            expected = (tmp_path / str(number)).read_bytes()
            if is_host_marker(image.as_stored):
                (written,) = fatpack.extract(path, tmp_path / "host", Selector(offload="host"))
                assert Path(written).read_bytes() == expected
            else:
                assert image.data.tobytes() == expected


def test_device_code_alone(tmp_path: Path) -> None:
    path = tmp_path / "device.hipfb"
    source = tmp_path / "one.hip"
    source.write_text(SOURCE.replace("NAME", "one"))
    reference.run("clang", *DRIVER, "--offload-device-only", "-c", source, "-o", path)
    assert archs_and_kernels(path) == [(arch, "code-object", ("_Z3onePi",)) for arch in ARCHS]
    text = tmp_path / "text.s"
    reference.run("clang", *DRIVER, "-S", source, "-o", text)
    with fatpack.open(text) as file:
        assert [image.target.arch for image in file.images()] == [*ARCHS, ""]


def test_a_fat_object_is_packed_as_the_driver_packs_it(tmp_path: Path) -> None:
    path = compiled(tmp_path, "one", "-fgpu-rdc")
    with fatpack.open(path) as file:
        images = [
            fatpack.ImageFile(image.data.tobytes(), id=image.attrs["id"])
            for image in file.images()
            if not is_host_marker(image.as_stored)
        ]
        (host,) = fatpack.extract(path, tmp_path, Selector(offload="host"))
        images.append(fatpack.ImageFile(host, id=file.images(offload="host")[0].attrs["id"]))
    again = tmp_path / "again.o"
    fatpack.pack(images, again, options=fatpack.BundleOptions(type="o"))
    assert again.read_bytes() == path.read_bytes()
