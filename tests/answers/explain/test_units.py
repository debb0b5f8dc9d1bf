"""Rows to units: what is chosen from together, what waits for a link, and which images have a kernel."""

from __future__ import annotations

import pytest
from tests.builders import offered
from tests.builders.fatbin import PTX, entry, fatbin, ptx
from tests.laws.rooms import FIXTURES

import fatpack

HOSTS = FIXTURES / "cuda_fatbin" / "hosts"


def test_relocatable_code_of_an_object_waits_for_a_link() -> None:
    (answer,) = fatpack.explain(HOSTS / "k1.rdc.o", "sm_80").devices
    assert {(unit.outcome, unit.rule) for unit in answer.units} == {("unknown", "C14")}
    assert "link" in answer.units[0].mends[0]
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
    assert unit.told is not None
    assert (unit.told.code, unit.told.text) == (500, "named symbol not found")
    assert {image.name: image.has_kernel for image in unit.images} == {"compute_75": True, "compute_80": False}
    assert "every architecture" in unit.mends[0]
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
    assert all("-gencode" not in text for unit in answer.units for text in unit.mends)
