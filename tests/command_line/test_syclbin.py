"""SYCLBIN files on the command line and in the library: packed, converted, extracted, refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.builders.spirv import KERNEL, module
from tests.builders.syclbin import GEN, SPIR64, Image, Module, entries, of_runtime, sets, v1, v2
from tests.conftest import Ran

import fatpack as library
from fatpack.formats import syclbin
from fatpack.testing.helpers import make_view

Fatpack = Callable[..., Ran]

SPIRV = module([(KERNEL, "one"), (KERNEL, "two")])
NAMES = sets({"SYCL/kernel names": {"one": 1, "two": 1}})
OWN = sets({"SYCL/device requirements": {"aspects": b"\1\0\0\0"}})
MODULES = [Module([Image(SPIRV)], NAMES), Module([Image(b"native", GEN, "bmg-g21")], OWN)]

PACK = ("pack", "--format=syclbin", f"--image=file=k.spv,triple={SPIR64}")


@pytest.fixture
def files(folder: Path) -> Path:
    (folder / "k.spv").write_bytes(SPIRV)
    (folder / "n.bin").write_bytes(b"native")
    (folder / "n.prop").write_bytes(OWN)
    return folder


def test_what_is_packed_is_what_dpcpp_writes(files: Path, fatpack: Fatpack) -> None:
    native = f"--image=file=n.bin,triple={GEN},arch=bmg-g21,properties=n.prop"
    assert fatpack(*PACK, native).code == 0
    container = syclbin.parse(make_view((files / "k.syclbin").read_bytes()))
    expected = syclbin.parse(make_view(v2(entries(MODULES))))
    assert syclbin.describe(container) == syclbin.describe(expected)
    assert [image.target for image in container.images] == [image.target for image in expected.images]
    assert [image.data.tobytes() for image in container.images] == [SPIRV, b"native"]
    ran = fatpack(*PACK, native, "--syclbin-version=1", "--syclbin-state=input", "-o", "one.syclbin")
    assert (ran.code, "warning" in ran.err) == (0, False)
    stored = (files / "one.syclbin").read_bytes()
    assert stored.startswith(b"\x10\xff\x10\xad\1\0\0\0"), "in an offload binary, as DPC++ reads it"
    inner = v1(MODULES, 0)
    assert stored[stored.index(b"IBYS") :][: len(inner)] == inner


def test_images_of_one_module_share_it(files: Path, fatpack: Fatpack) -> None:
    native = f"--image=file=n.bin,triple={GEN},arch=bmg-g21,am_index=0"
    assert fatpack(*PACK[:-1], f"{PACK[-1]},am_index=0", native, "-o", "x").code == 0
    (described,) = syclbin.describe(syclbin.parse(make_view((files / "x").read_bytes())))["modules"]  # type: ignore[misc]
    assert described["properties"] == {"SYCL/kernel names": {"one": 1, "two": 1}}
    ran = fatpack(*PACK[:-1], f"{PACK[-1]},am_index=0", f"{native},properties=n.prop", "-o", "y")
    assert (ran.code, "module 0 with different property sets" in ran.err) == (2, True)


@pytest.mark.parametrize(
    ("option", "problem"),
    [
        ("file=k.spv", "does not say what it is for"),
        (f"file=k.spv,triple={SPIR64},kind=hip", "a SYCLBIN file holds code for SYCL alone"),
        (f"file=k.spv,triple={SPIR64},more=x", "cannot store the key 'more'"),
        (f"file=k.spv,triple={SPIR64},am_index=x", "am_index 'x'"),
        (f"file=k.spv,triple={SPIR64},properties=k.spv", "k.spv: line 1: "),
    ],
)
def test_what_cannot_be_packed_is_refused(files: Path, fatpack: Fatpack, option: str, problem: str) -> None:
    ran = fatpack("pack", "--format=syclbin", f"--image={option}", "-o", "x")
    assert (ran.code, problem in ran.err) == (2, True), ran.err
    assert not (files / "x").exists()


def test_options_of_other_formats_are_refused(files: Path, fatpack: Fatpack) -> None:
    ran = fatpack(*PACK, "--compress", "-o", "x")
    assert (ran.code, "SYCLBIN files are not compressed" in ran.err) == (2, True)
    ran = fatpack("pack", "--image=file=k.spv", "--syclbin-state=input", "-o", "x")
    assert (ran.code, "--syclbin-state is for --format=syclbin" in ran.err) == (2, True)


def test_the_library_packs_alike(files: Path, fatpack: Fatpack) -> None:
    assert fatpack(*PACK, "--syclbin-state=object").code == 0
    image = library.ImageFile("k.spv", triple=SPIR64)
    library.pack([image], "l.syclbin", options=library.SyclbinOptions(state="object"))
    assert (files / "l.syclbin").read_bytes() == (files / "k.syclbin").read_bytes()
    with pytest.raises(library.UsageError, match="version 3"):
        library.pack([image], "m.syclbin", options=library.SyclbinOptions(version=3))


@pytest.mark.parametrize(
    "data", [v1(MODULES), of_runtime(v1(MODULES)), v2(entries(MODULES))], ids=["v1", "runtime", "v2"]
)
def test_each_shape_becomes_the_same_file(files: Path, fatpack: Fatpack, data: bytes) -> None:
    (files / "in").write_bytes(data)
    assert fatpack("convert", "in", "--format=syclbin", "-o", "out.syclbin").code == 0
    again = syclbin.parse(make_view((files / "out.syclbin").read_bytes()))
    expected = syclbin.parse(make_view(v2(entries(MODULES))))
    assert syclbin.describe(again) == syclbin.describe(expected)
    assert [image.data.tobytes() for image in again.images] == [SPIRV, b"native"]
    assert again.findings == ()


@pytest.mark.parametrize("format", ["offload-binary", "bundle"])
def test_property_sets_are_a_loss_elsewhere(files: Path, fatpack: Fatpack, format: str) -> None:
    (files / "in").write_bytes(v2(entries(MODULES)))
    ran = fatpack("convert", "in", f"--format={format}", "-o", "out")
    assert (ran.code, "container 0: the property sets of its abstract modules" in ran.err) == (1, True)
    assert fatpack("convert", "in", f"--format={format}", "--lossy", "-o", "out").code == 0
    with library.open("out") as file:
        assert [image.data.tobytes() for image in file.images()] == [SPIRV, b"native"]
        keys = [set(image.attrs) - {"id"} for image in file.images()]
        assert keys == [set(), set()], "where an image stood in its file says nothing elsewhere"


def test_other_images_make_modules_of_their_own(files: Path, fatpack: Fatpack) -> None:
    options = [f"--image=file=k.spv,triple={SPIR64},kind=sycl", f"--image=file=n.bin,triple={GEN},arch=pvc,kind=sycl"]
    assert fatpack("pack", *options, "-o", "o").code == 0
    assert fatpack("convert", "o", "--format=syclbin", "-o", "out").code == 0
    container = syclbin.parse(make_view((files / "out").read_bytes()))
    assert [image.attrs["role"] for image in container.images] == ["ir", "native"]
    assert fatpack("pack", "--image=file=n.bin,kind=cuda", "-o", "c").code == 1
    ran = fatpack("convert", "c", "--format=syclbin", "-o", "no")
    assert (ran.code, "is no code for SYCL" in ran.err) == (4, True)


def test_images_and_the_whole_file_are_extracted(files: Path, fatpack: Fatpack) -> None:
    data = v2(entries(MODULES))
    (files / "x.syclbin").write_bytes(data)
    assert fatpack("extract", "x.syclbin", "-d", "images").code == 0
    assert sorted(path.read_bytes() for path in (files / "images").iterdir()) == sorted([SPIRV, b"native"])
    assert fatpack("extract", "x.syclbin", "--containers", "-d", "whole").code == 0
    assert [path.read_bytes() for path in (files / "whole").iterdir()] == [data]
    ran = fatpack("inspect", "--json", "x.syclbin")
    (file,) = json.loads(ran.out)["files"]
    assert file["format"] == "syclbin"
    assert file["containers"][0]["images"][0]["kernels"] == ["one", "two"]


@pytest.mark.parametrize("data", [v1(MODULES), v2(entries(MODULES))], ids=["v1", "v2"])
def test_a_file_of_its_own_is_not_embedded(files: Path, fatpack: Fatpack, data: bytes) -> None:
    from tests.builders import elf

    (files / "host.o").write_bytes(elf.device_object(b"").build())
    (files / "x.syclbin").write_bytes(data)
    ran = fatpack("embed", "host.o", "x.syclbin", "-o", "out.o")
    assert (ran.code, "a syclbin is a file of its own" in ran.err) == (4, True), ran.err
