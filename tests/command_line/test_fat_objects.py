"""Fat objects as users make, read, merge and slim them, compared with clang-offload-bundler."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests import reference
from tests.conftest import Ran

import fatpack as library

Fatpack = Callable[..., Ran]

DEVICES = ("hip-amdgcn-amd-amdhsa--gfx90a", "hip-amdgcn-amd-amdhsa--gfx1030")
HOSTS = ("x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu", "x86_64-pc-windows-msvc")


@pytest.fixture(params=HOSTS)
def target(request: pytest.FixtureRequest, folder: Path) -> str:
    """A target; host.obj is an object for it, fat.obj the original's bundle of it with one image and an empty one."""
    triple: str = request.param
    (folder / "host.c").write_text("int value = 42; int work(int x) { return x * value; }\n")
    reference.run("clang", f"--target={triple}", "-O1", "-g", "-c", "host.c", "-o", "host.obj", cwd=folder)
    targets = f"-targets={','.join(DEVICES)},host-{triple}"
    inputs = ("-input=a.cubin", "-input=/dev/null", "-input=host.obj", "-output=fat.obj")
    reference.run("clang-offload-bundler", "-type=o", targets, *inputs, cwd=folder)
    return triple


def images(path: Path) -> list[tuple[str, int]]:
    with library.open(path) as file:
        return [(image.attrs["id"], image.size) for image in file.images()]


def test_a_packed_fat_object_is_the_one_of_the_original(folder: Path, fatpack: Fatpack, target: str) -> None:
    options = [f"--image=file=a.cubin,id={DEVICES[0]}", f"--image=file=/dev/null,id={DEVICES[1]}"]
    host = f"--image=file=host.obj,id=host-{target}"
    assert fatpack("pack", "--format=bundle", "--type=o", *options, host, "-o", "our.obj").code == 1
    assert (folder / "our.obj").read_bytes() == (folder / "fat.obj").read_bytes()


def test_every_image_is_listed_and_extracted(folder: Path, fatpack: Fatpack, target: str) -> None:
    size = (folder / "a.cubin").stat().st_size
    assert images(folder / "fat.obj") == [(DEVICES[0], size), (DEVICES[1], 0), (f"host-{target}-".rstrip("-") + "-", 1)]
    assert "clang-offload-bundle (fat object), 3 images" in fatpack("inspect", "fat.obj").out
    assert fatpack("extract", "fat.obj", "--id", DEVICES[0], "-o", "device").code == 0
    assert (folder / "device").read_bytes() == (folder / "a.cubin").read_bytes()


def test_the_host_is_the_object_that_the_original_unbundles(folder: Path, fatpack: Fatpack, target: str) -> None:
    assert fatpack("extract", "fat.obj", "--offload=host", "-o", "our.obj").code == 0
    unbundle = ["-type=o", "-unbundle", f"-targets=host-{target}", "-input=fat.obj", "-output=their.obj"]
    reference.run("clang-offload-bundler", *unbundle, cwd=folder)
    assert (folder / "our.obj").read_bytes() == (folder / "their.obj").read_bytes()


def test_images_are_removed_one_by_one_or_all(folder: Path, fatpack: Fatpack, target: str) -> None:
    assert fatpack("remove", "fat.obj", "--arch=gfx90a", "-o", "slim.obj").code == 0
    assert [id for id, size in images(folder / "slim.obj") if size] == [f"host-{target}-"]
    assert fatpack("remove", "fat.obj", "-o", "none.obj").code == 0
    assert "no device code found" in fatpack("inspect", "none.obj").out


def test_without_a_host_object_a_binary_bundle_is_made(folder: Path, fatpack: Fatpack) -> None:
    """clang-offload-bundler 22 crashes on device images that are ELF files alone."""
    option = f"--image=file=a.cubin,id={DEVICES[0]}"
    assert fatpack("pack", "--format=bundle", "--type=o", option, "-o", "b").code == 1
    assert (folder / "b").read_bytes().startswith(b"__CLANG_OFFLOAD_BUNDLE__")
    assert images(folder / "b") == [(DEVICES[0], (folder / "a.cubin").stat().st_size)]


def test_options_of_other_bundles_are_refused_for_a_fat_object(folder: Path, fatpack: Fatpack, target: str) -> None:
    options = [f"--image=file=a.cubin,id={DEVICES[0]}", "--host=host.obj", "-o", "x"]
    for option in ("--compress", "--bundle-align=8"):
        ran = fatpack("pack", "--format=bundle", "--type=o", option, *options)
        assert (ran.code, "means nothing for a fat object; its images are sections" in ran.err) == (2, True)
    assert fatpack("pack", "--format=bundle", "--type=o", *options).code == 1
    assert images(folder / "x")[0] == (DEVICES[0], (folder / "a.cubin").stat().st_size)


def test_images_that_ld_r_glued_together_are_apart_again(folder: Path, fatpack: Fatpack) -> None:
    for name, image in (("one", "a.cubin"), ("two", "b.cubin")):
        (folder / f"{name}.c").write_text(f"int {name};\n")
        reference.run("clang", "-c", f"{name}.c", "-o", f"{name}.o", cwd=folder)
        device = f"--image=file={image},id={DEVICES[0]}"
        assert (
            fatpack("pack", "--format=bundle", "--type=o", device, f"--host={name}.o", "-o", f"{name}.fat.o").code == 1
        )
    reference.run("ld", "-r", "one.fat.o", "two.fat.o", "-o", "merged.o", cwd=folder)
    with library.open(folder / "merged.o") as file:
        stored = [image.data.tobytes() for image in file.images(library.Selector(offload="hip"))]
    assert stored == [(folder / name).read_bytes() for name in ("a.cubin", "b.cubin")]
    assert fatpack("remove", "merged.o", "--container=0", "--index=0", "-o", "slim.o").code == 0
    with library.open(folder / "slim.o") as file:
        stored = [image.data.tobytes() for image in file.images(library.Selector(offload="hip"))]
    assert stored == [(folder / "b.cubin").read_bytes()]


def test_glued_images_that_do_not_tell_their_size_are_one_with_a_warning(folder: Path, fatpack: Fatpack) -> None:
    (folder / "text").write_text("no image that we know")
    for name in ("one", "two"):
        (folder / f"{name}.c").write_text(f"int {name};\n")
        reference.run("clang", "-c", f"{name}.c", "-o", f"{name}.o", cwd=folder)
        device = f"--image=file=text,id={DEVICES[0]}"
        fatpack("pack", "--format=bundle", "--type=o", device, f"--host={name}.o", "-o", f"{name}.fat.o")
    reference.run("ld", "-r", "one.fat.o", "two.fat.o", "-o", "merged.o", cwd=folder)
    ran = fatpack("inspect", "merged.o")
    assert ran.code == 1
    assert "FP1314" in ran.out
    assert images(folder / "merged.o")[0] == (DEVICES[0], 2 * len("no image that we know"))
    for options in (["-d", "out"], ["--offload=hip", "-o", "glued"]):
        ran = fatpack("extract", "merged.o", *options)
        assert (ran.code, ran.err.count("fatpack: warning FP1314: merged.o at 0x")) == (1, 1)
    assert (folder / "glued").read_bytes() == 2 * b"no image that we know"
    assert len(list((folder / "out").iterdir())) == 2
    assert fatpack("extract", "merged.o", "--offload=host", "--index=1", "-o", "host").code == 0
    ran = fatpack("convert", "merged.o", "-o", "merged.offload")
    assert (ran.code, (folder / "merged.offload").exists()) == (1, False)
    assert "not converted: image 0.0 hip amdgcn-amd-amdhsa gfx90a: that it is several images" in ran.err


def test_the_library_makes_the_fat_object_that_the_command_makes(folder: Path, fatpack: Fatpack) -> None:
    device = f"--image=file=a.cubin,id={DEVICES[0]}"
    assert fatpack("pack", "--format=bundle", "--type=o", device, "--host=host.o", "-o", "fat.o").code == 1
    library.pack(
        [library.ImageFile("a.cubin", id=DEVICES[0])], "own.o", options=library.BundleOptions(type="o"), host="host.o"
    )
    assert (folder / "own.o").read_bytes() == (folder / "fat.o").read_bytes()
    assert (folder / "own.o").stat().st_mode == (folder / "fat.o").stat().st_mode
