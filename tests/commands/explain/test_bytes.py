"""An image chosen by its label is also judged by its bytes; an unread image is reported, and is never "runs"."""

from __future__ import annotations

import io
import warnings
from pathlib import Path

import pytest
from tests.builders import fatbin, linked_elf, offered
from tests.builders.device_elf import device_elf
from tests.builders.packages import zipped
from tests.builders.policy_files import container, cubin

import fatpack
from fatpack import ImageFile
from fatpack.commands.explain.model import ImageSetAnswer

AMD, NVIDIA = "amdgcn-amd-amdhsa", "nvptx64-nvidia-cuda"

#: EF_AMDGPU_MACH of gfx942
GFX942 = 0x4C

FOREIGN = device_elf(224, GFX942, sections=[(1, bytes(64))], osabi=0x40, abi_version=4)

PTX = b".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k() { ret; }\n\0"


def unit_of(data: bytes, device: str, **known: str) -> ImageSetAnswer:
    explained = fatpack.explain(data, device, **known)  # type: ignore[arg-type]
    ((unit,),) = (one.units for one in explained.devices)
    assert (explained.exit_code == 0) is (unit.outcome in ("runs", "compiles"))
    return unit


def packed(data: bytes, triple: str, arch: str, offload: str, **how: str) -> bytes:
    output = io.BytesIO()
    attrs = {"binary": "lib/libx.so#0"} if how else {}
    with warnings.catch_warnings():  # that label and image disagree is what is wanted
        warnings.simplefilter("ignore", UserWarning)
        fatpack.pack([ImageFile(data, triple=triple, arch=arch, offload=offload, attrs=attrs)], output, **how)  # type: ignore[call-overload]
    return output.getvalue()


@pytest.mark.parametrize("junk", [bytes(800), bytes(range(1, 256)) * 3], ids=["zeros", "bytes"])
def test_a_cubin_that_is_none_is_refused(junk: bytes) -> None:
    unit = unit_of(fatbin.fatbin(fatbin.entry(junk, sm=90)), "sm_90")
    assert (unit.outcome, unit.rule) == ("fails", "C10")
    assert unit.error is not None
    assert unit.error.code == 200


@pytest.mark.parametrize(
    ("image", "kind"),
    [(device_elf(62, sections=[(1, bytes(64))]), fatbin.ELF), (FOREIGN, fatbin.ELF), (b"hello\n" * 20, fatbin.PTX)],
    ids=["host", "amd", "text"],
)
def test_what_a_driver_makes_of_other_bytes_is_not_known(image: bytes, kind: int) -> None:
    unit = unit_of(fatbin.fatbin(fatbin.entry(image, kind, sm=90, options=b"")), "sm_90")
    assert (unit.outcome, unit.rule) == ("unknown", "C10")


def test_a_good_image_beside_one_that_is_none_still_runs() -> None:
    data = fatbin.fatbin(fatbin.entry(cubin(90, ["k"]), sm=90), fatbin.entry(bytes(800), sm=80))
    assert unit_of(data, "sm_90").outcome == "runs"


@pytest.mark.parametrize("kind", [0x10, 0x1000])
def test_entries_of_other_kinds_are_no_candidates(kind: int) -> None:
    unit = unit_of(fatbin.fatbin(fatbin.entry(cubin(90, ["k"]), kind, sm=90)), "sm_90")
    assert unit.outcome == "fails"
    assert unit.images[0].rule == "C11"


def test_the_header_of_a_code_object_counts_for_all_who_load_it() -> None:
    for data in (
        packed(FOREIGN, AMD, "gfx90a", "openmp"),
        packed(FOREIGN, AMD, "gfx90a", "hip"),
        packed(FOREIGN, AMD, "gfx90a", "hip", format="kpack"),
    ):
        unit = unit_of(data, "gfx90a")
        assert (unit.outcome, unit.rule) == ("fails", "H5")


@pytest.mark.parametrize(
    "junk",
    [bytes(800), b"code" * 200, b"hello world\n" * 50, device_elf(62, sections=[(1, bytes(64))])],
    ids=["zeros", "bytes", "text", "host"],
)
def test_what_is_no_code_object_is_loaded_by_no_runtime_of_amd(junk: bytes, tmp_path: Path) -> None:
    for offload, rule, how in (("hip", "H5", {}), ("openmp", "M6", {}), ("hip", "H5", {"format": "kpack"})):
        data = packed(junk, AMD, "gfx90a", offload, **how)
        unit = unit_of(data, "gfx90a")
        assert (unit.outcome, unit.rule) == ("fails", rule)
        assert "no code object" in unit.reason if rule == "H5" else "no code object" in unit.images[0].reason
        path = tmp_path / "x"
        path.write_bytes(data)
        broken = {item.code: item.message for item in fatpack.check(path, require="gfx90a").violations}
        assert {"FP3303", "FP3314"} <= set(broken)
        assert broken["FP3314"].startswith("image 0.0 is stored ")


def test_a_plugin_passes_over_what_is_no_code_object() -> None:
    output = io.BytesIO()
    images = [
        ImageFile(data, triple=AMD, arch="gfx90a", offload="openmp")
        for data in (b"code" * 200, offered.code_object("gfx90a"))
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        fatpack.pack(images, output)
    unit = unit_of(output.getvalue(), "gfx90a")
    assert (unit.outcome, [image.role for image in unit.images]) == ("runs", ["", "taken"])


@pytest.mark.parametrize("offload", ["openmp", "sycl"])
def test_a_driver_that_is_older_than_the_device_counts_for_openmp_and_sycl(offload: str) -> None:
    data = packed(cubin(90, ["k"]), NVIDIA, "sm_90", offload)
    assert unit_of(data, "sm_90", driver="580").outcome == "runs"
    unit = unit_of(data, "sm_90", driver="450")
    assert (unit.outcome, unit.rule) == ("unknown", "C18")
    forced = fatpack.explain(data, "sm_90", env={"CUDA_FORCE_PTX_JIT": "1"})
    assert [unit.rule for unit in forced.devices[0].units] == ["C13"]
    assert forced.verdict == "unknown"


def test_level_zero_for_openmp_does_not_compare_the_device() -> None:
    unit = unit_of(packed(b"native", "spir64_gen-unknown-unknown", "acm_g10", "openmp"), "pvc")
    assert (unit.outcome, unit.rule) == ("unknown", "M5")
    unit = unit_of(packed(b"\x03\x02\x23\x07" + bytes(100), "spirv64-intel", "", "openmp"), "pvc")
    assert (unit.outcome, unit.rule) == ("compiles", "M5")


def test_ptx_of_a_version_that_nobody_knows_is_not_said_to_run() -> None:
    data = fatbin.fatbin(fatbin.entry(PTX, fatbin.PTX, sm=90, options=b"", code=(0, 99)))
    assert unit_of(data, "sm_90").outcome == "compiles"
    unit = unit_of(data, "sm_90", cuda="13.0")
    assert (unit.outcome, unit.rule) == ("unknown", "C8")


def test_bytes_between_containers_may_have_been_one() -> None:
    broken = b"gone" + container("80")[4:]
    data = linked_elf.build([container("90"), broken]).data
    explained = fatpack.explain(data, "sm_90")
    assert (explained.verdict, explained.exit_code) == ("unreadable", 1)
    assert "FP1002" in explained.unread[0].problem


def test_python_takes_the_addresses_of_the_command(tmp_path: Path) -> None:
    path = tmp_path / "x.whl"
    path.write_bytes(zipped({"x/a.fatbin": container("90"), "x/b.fatbin": container("80")}))
    for data in (f"{path}!x/a.fatbin", [f"{path}!x/a.fatbin"]):
        assert fatpack.explain(data, "sm_90").verdict == "runs"
    assert fatpack.explain(path, "sm_90").verdict == "fails"
    missing = fatpack.explain(f"{path}!x/c.fatbin", "sm_90")
    assert missing.verdict == "unreadable"
    assert "c.fatbin" in missing.unread[0].problem


def test_a_container_without_kernels_cannot_fail_at_a_launch(folder: Path) -> None:
    # As nvcc makes a program: code for the device, and the container of its stub for the runtime, SASS alone.
    stub = fatbin.fatbin(fatbin.entry(cubin(75, ()), sm=75))
    Path("x.so").write_bytes(linked_elf.build([container("p80"), stub]).data)
    explained = fatpack.explain("x.so", "H100")
    (device,) = explained.devices
    assert (explained.exit_code, device.compiles, device.fails) == (0, 1, 0)
    assert "1 container not counted: no kernel in it, so that no launch can fail" in device.notes
    assert {row.name for row in explained.rules}.isdisjoint({"C2"})
    assert fatpack.check("x.so", require=["H100"]).exit_code == 0
    Path("y.so").write_bytes(linked_elf.build([container("p80"), container("75")]).data)
    explained = fatpack.explain("y.so", "H100")
    assert (explained.exit_code, explained.devices[0].fails) == (1, 1)
