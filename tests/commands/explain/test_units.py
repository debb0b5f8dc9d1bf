"""Rows to units: what is chosen from together, what waits for a link, and which images have a kernel."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.builders import offered, sycl
from tests.builders.fatbin import ELF, PTX, cubin, entry, fatbin, ptx
from tests.laws.rooms import FIXTURES

import fatpack
from fatpack.commands.explain.model import DeviceAnswer, ImageSetAnswer
from fatpack.commands.explain.run import ExplainQuery, device_verdict, explain_rows
from fatpack.formats.cuda_fatbin.layout import ENTRY, HEADER
from fatpack.tabular.image_sets import ImageSetLocation
from fatpack.targets.devices import parse_device
from fatpack.targets.selection.drivers import driver_cuda
from fatpack.targets.selection.runtime_settings import RuntimeSettings

HOSTS = FIXTURES / "cuda_fatbin" / "hosts"


def test_relocatable_code_of_an_object_waits_for_a_link() -> None:
    (answer,) = fatpack.explain(HOSTS / "k1.rdc.o", "sm_80").devices
    assert {(unit.outcome, unit.rule) for unit in answer.units} == {("unknown", "C14")}
    assert "link" in answer.units[0].fixes[0]
    assert not answer.is_served


def test_relocatable_code_beside_what_was_linked_is_passed_by() -> None:
    (answer,) = fatpack.explain(HOSTS / "librel.so", "sm_80").devices
    sections = {place.section for unit in answer.units for place in unit.places}
    assert sections == {".nv_fatbin"}


def with_kernels(**names: str) -> bytes:
    """Return a fat binary of PTX texts, each with one kernel: architecture → name."""
    return fatbin(
        *(
            entry(
                ptx(f".visible .entry {name}() {{ ret; }}", target=arch) + b"\0",
                PTX,
                sm=int(arch.removeprefix("sm_")),
                options=b"",
            )
            for arch, name in names.items()
        )
    )


def test_an_image_that_is_taken_without_the_kernel_fails() -> None:
    data = with_kernels(sm_75="both", sm_80="other")
    (answer,) = fatpack.explain(data, "sm_90", kernel="^both$").devices
    (unit,) = answer.units
    assert (unit.outcome, unit.rule) == ("fails", "C10")
    assert unit.error is not None
    assert (unit.error.code, unit.error.text) == (500, "named symbol not found")
    assert {image.name: image.has_kernel for image in unit.images} == {"compute_75": True, "compute_80": False}
    assert "every architecture" in unit.fixes[0]
    assert fatpack.explain(data, "sm_75", kernel="^both$").exit_code == 0


def test_containers_without_the_kernel_are_not_asked_about() -> None:
    data = with_kernels(sm_75="first") + with_kernels(sm_100="second")
    (answer,) = fatpack.explain(data, "sm_80", kernel="first").devices
    assert (answer.runs, answer.fails) == (1, 0)
    (answer,) = fatpack.explain(data, "sm_80", kernel="third").devices
    assert "the kernel is in no image" in answer.verdict
    assert not answer.is_served


@pytest.mark.parametrize("order", [("gfx942", "gfx1100"), ("gfx1100", "gfx942")])
def test_what_archives_hold_for_one_program_is_chosen_from_together(tmp_path: object, order: tuple[str, ...]) -> None:
    from pathlib import Path

    folder = Path(str(tmp_path))
    for number, arch in enumerate(order):
        (folder / f"{number}.kpack").write_bytes(offered.kpack(arch))
    explained = fatpack.explain(folder, "gfx1100")
    (unit,) = explained.devices[0].units
    assert (unit.runtime, unit.outcome, len(unit.images)) == ("kpack", "runs", 2)
    assert explained.files == 2


def test_the_frequent_failure_is_that_of_the_verdict() -> None:
    data = offered.openmp("90") + offered.openmp("75")
    (answer,) = fatpack.explain(data, "sm_80").devices
    assert answer.verdict.endswith("no error: the region runs on the host")
    assert all("-gencode" not in text for unit in answer.units for text in unit.fixes)


@pytest.mark.parametrize(
    ("name", "rule"),
    [("clang-22-hip-rdc-bundler.o", "H15"), ("clang-22-openmp-gfx90a.o", "M4")],
)
def test_bitcode_in_objects_is_for_a_link(name: str, rule: str) -> None:
    explained = fatpack.explain(FIXTURES / "elf" / name, "gfx90a")
    assert {(unit.outcome, unit.rule) for unit in explained.devices[0].units} == {("unknown", rule)}
    assert all("clang" in unit.fixes[0] for unit in explained.devices[0].units)
    assert explained.exit_code == 1


def test_a_file_of_linkers_code_is_reported_to_be_that() -> None:
    (answer,) = fatpack.explain(offered.LTO_IR + bytes(60), "sm_90").devices
    (unit,) = answer.units
    assert (unit.outcome, unit.rule, unit.images[0].rule) == ("unknown", "C14", "C12")


def of_runtime(major: int | None, driver: tuple[int, int] | None) -> DeviceAnswer:
    """Return the answer for a cubin in a file that loads libcudart.so of a major version."""
    *images, file = fatpack.rows(offered.cuda("90"))
    rows = [*images, file.replace(cuda_runtime=major)]
    asked = ExplainQuery((parse_device("sm_90"),), RuntimeSettings(driver=driver))
    return explain_rows(rows, ["x"], asked).devices[0]  # type: ignore[arg-type]


def test_a_driver_that_is_older_than_the_cuda_runtime_of_the_program_fails() -> None:
    (unit,) = of_runtime(13, (12, 9)).units
    assert (unit.outcome, unit.rule) == ("fails", "C19")
    assert unit.error is not None
    assert (unit.error.code, unit.error.text) == (35, "CUDA driver version is insufficient for CUDA runtime version")
    assert unit.fixes[0] == "a driver of CUDA 13.0 or newer (driver 580), for libcudart.so.13"
    assert "804, cudaErrorCompatNotSupportedOnDevice" in unit.fixes[1]
    for major, driver in ((12, (12, 0)), (12, (13, 0)), (None, (11, 0))):
        assert of_runtime(major, driver).units[0].rule != "C19"
    assert of_runtime(12, None).notes == (
        "needs a driver of CUDA 12.0 or newer (driver 525); pass driver= to check yours",
    )


def test_only_what_runs_needs_a_driver() -> None:
    """Of two libraries that load different CUDA runtimes, the newer one has nothing for the device."""
    rows = []
    for name, archs, runtime in (("a.so", "70", 11), ("b.so", "70", 12), ("c.so", "90", 13)):
        *images, file = (row.replace(path=name) for row in fatpack.rows(offered.cuda(archs)))
        rows += [*images, file.replace(cuda_runtime=runtime)]
    asked = [
        explain_rows(rows[:end], ["x"], ExplainQuery((parse_device("sm_70"),), RuntimeSettings())).devices[0]
        for end in (2, 6)
    ]
    assert [answer.notes for answer in asked] == [
        ("needs a driver of CUDA 11.0 or newer (driver 450); pass driver= to check yours",),
        ("some images need a driver of CUDA 12.0 or newer (driver 525); pass driver= to check yours",),
    ]


@pytest.mark.parametrize(
    ("images", "arch", "said"),
    [
        ("120", "sm_120", "CUDA 12.8 or newer (driver 570)"),  # the device's own
        ("p90", "sm_120", "CUDA 12.8 or newer (driver 570)"),
        ("p90@9.1", "sm_120", "CUDA 13.1 or newer (driver 590)"),  # the image's
        ("90 zstd", "sm_90", "CUDA 12.4 or newer (driver 550)"),  # the compression's
        ("90", "sm_90", "CUDA 11.8 or newer (driver 520)"),
    ],
)
def test_the_driver_that_is_named_knows_the_device_and_takes_the_image(images: str, arch: str, said: str) -> None:
    """With the driver that a note advises, the same question is answered with runs or compiles."""
    rows = list(fatpack.rows(offered.cuda(images)))
    (answer,) = explain_rows(rows, ["x"], ExplainQuery((parse_device(arch),), RuntimeSettings())).devices  # type: ignore[arg-type]
    assert answer.notes == (f"needs a driver of {said}; pass driver= to check yours",)
    branch = driver_cuda(said.partition("(driver ")[2][:3])
    (again,) = explain_rows(rows, ["x"], ExplainQuery((parse_device(arch),), RuntimeSettings(driver=branch))).devices  # type: ignore[arg-type]
    assert again.units[0].outcome in ("runs", "compiles")


def test_devices_of_one_machine_stop_at_the_first_without_an_image() -> None:
    first, second = fatpack.explain(offered.hip("gfx1100"), ["gfx1100", "gfx1036"]).devices
    assert not first.notes
    (note,) = second.notes
    assert note.endswith("HIP_VISIBLE_DEVICES hides it [H8]")
    assert not fatpack.explain(offered.hip("gfx1100"), ["gfx1036"]).devices[0].notes
    explained = fatpack.explain(offered.hip("gfx1100"), ["gfx1100", "gfx1036"])
    assert "H8" in {rule.name for rule in explained.rules}


def test_a_label_that_the_bytes_contradict_is_reported() -> None:
    data = fatbin(entry(cubin(80), ELF, sm=90))
    (unit,) = fatpack.explain(data, "sm_90").devices[0].units
    assert (unit.outcome, unit.rule, unit.images[0].holds) == ("fails", "C10", "sm_80")
    assert unit.error is not None
    assert unit.error.code == 300
    assert "fatpack doctor" in unit.fixes[0]


@pytest.mark.parametrize("method", ["zstd", "lz4"])
def test_labels_of_compressed_images_are_compared_too(method: str) -> None:
    data = bytearray(offered.cuda(f"80 {method}"))
    at = HEADER.size + ENTRY.field_offset("sm")
    assert data[at] == 80
    data[at] = 90
    (unit,) = fatpack.explain(bytes(data), "sm_90").devices[0].units
    assert unit.images[0].compression == method
    assert (unit.outcome, unit.rule, unit.images[0].holds) == ("fails", "C10", "sm_80")


@pytest.mark.parametrize("version", [1, 2])
def test_each_module_of_a_syclbin_file_is_chosen_from_alone(version: int) -> None:
    data = offered.syclbin_of(["spir64_gen:pvc", "spir64 spir64_gen:pvc"], version)
    assert {row.module for row in fatpack.rows(data) if row.row == "image"} == {"0", "1"}
    (answer,) = fatpack.explain(data, "Arc A770").devices
    assert [(unit.outcome, unit.rule) for unit in answer.units] == [("fails", "Y4"), ("compiles", "Y6")]
    (only,) = fatpack.explain(data, "pvc").devices
    assert [(unit.outcome, unit.rule, unit.count) for unit in only.units] == [
        ("runs", "Y6", 1),
        ("runs", "Y6", 1),
    ]


def test_what_kernels_require_of_a_device_is_reported_not_to_be_compared() -> None:
    explained = fatpack.explain(offered.sycl("spir64"), "Arc A770")
    assert explained.devices[0].notes[-1].endswith("[Y3]")
    assert "Y3" in {rule.name for rule in explained.rules}
    assert not fatpack.explain(offered.sycl("spir64_gen:pvc"), "Arc A770").devices[0].notes


def test_a_forward_compatibility_package_is_named_with_what_it_does_elsewhere() -> None:
    unit = fatpack.explain(offered.cuda("p90@9.1"), "sm_90", cuda="13.0").devices[0].units[0]
    assert unit.rule == "C8"
    assert unit.fixes[1].startswith(
        "or NVIDIA's forward-compatibility package of CUDA 13.1, on parts that NVIDIA lists"
    )
    assert "forward compatibility was attempted on non supported HW (804, cudaErrorCompatNotSupported" in unit.fixes[1]
    other = fatpack.explain(offered.cuda("90"), "sm_80", cuda="13.0").devices[0].units[0]
    assert not any("804" in text for text in other.fixes)


def test_one_code_object_of_an_archive_goes_to_all_devices() -> None:
    data = offered.kpack("gfx942 gfx90a")
    explained = fatpack.explain(data, ["gfx942", "gfx90a"])
    assert [one.notes[-1:] for one in explained.devices][1] == ()
    assert explained.devices[0].notes[-1].endswith("HIP_VISIBLE_DEVICES [K7]")
    assert "K7" in {rule.name for rule in explained.rules}
    assert not fatpack.explain(data, ["gfx942"]).devices[0].notes
    assert not fatpack.explain(offered.hip("gfx942 gfx90a"), ["gfx942", "gfx90a"]).devices[0].notes


@pytest.mark.parametrize(
    ("runs", "fails", "unknown", "said"),
    [
        (2, 0, 0, "both containers run"),
        (3, 0, 0, "all 3 containers run"),
        (1, 1, 0, "1 of 2 containers runs, 1 fails"),
        (0, 2, 0, "both containers fail"),
        (0, 3, 0, "all 3 containers fail"),
        (0, 1, 2, "1 of 3 containers fails, 2 are not known to run"),
        (0, 0, 2, "none of the 2 containers is known to run"),
        (1, 0, 0, "the only container runs"),
        (0, 1, 0, "the only container fails"),
    ],
)
def test_a_verdict_counts_as_people_do(runs: int, fails: int, unknown: int, said: str) -> None:
    place = ImageSetLocation("x.so", container=0)
    outcomes = ["runs"] * runs + ["fails"] * fails + ["unknown"] * unknown
    units = [ImageSetAnswer("cuda", None, outcome, "C2", "", True, (), places=(place,)) for outcome in outcomes]
    assert device_verdict(parse_device("sm_90"), units, "", {}).startswith(f"sm_90: {said}")


@pytest.mark.parametrize("table", [None, b""])
def test_sycl_images_of_a_program_are_no_code_for_a_link(table: bytes | None, tmp_path: Path) -> None:
    """dpnp's and oneMKL's libraries have such sections: what is in them was linked, and runs after compiling."""
    path = tmp_path / "dpnp.so"
    path.write_bytes(sycl.program([sycl.Stored(sycl.spirv())], table=table))
    (answer,) = fatpack.explain(path, "pvc").devices
    assert [(unit.outcome, unit.rule) for unit in answer.units] == [("compiles", "Y2")]
    assert fatpack.check(path, require=["pvc"])


def test_a_file_of_spirv_is_taken_as_spirv() -> None:
    (answer,) = fatpack.explain(FIXTURES / "kernels" / "add_one.llvm22.spv", "pvc").devices
    assert [(unit.outcome, unit.rule) for unit in answer.units] == [("compiles", "Y2")]
    assert answer.units[0].fixes == ()
