"""NVIDIA names and the CUDA loader's rules: the table in ``fatpack.targets.nvidia``."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fatpack.targets.nvidia import NvidiaArch, can_load, first_cuda_for_ptx, parse_nvidia

ARCHES = st.builds(NvidiaArch, st.integers(20, 130), st.sampled_from(["", "a", "f"]), st.booleans())


def arch(name: str) -> NvidiaArch:
    parsed = parse_nvidia(name)
    assert parsed is not None
    return parsed


def test_the_last_digit_is_the_minor_version() -> None:
    assert arch("sm_103a") == NvidiaArch(103, "a")
    assert (arch("sm_103a").major, arch("sm_103a").minor, arch("sm_103a").capability) == (10, 3, "10.3")
    assert arch("compute_90") == NvidiaArch(90, "", is_virtual=True)


@given(ARCHES)
def test_a_name_is_read_back_as_what_it_was_made_from(parts: NvidiaArch) -> None:
    assert parse_nvidia(parts.name) == parts


@pytest.mark.parametrize(
    "text",
    ["", "sm_", "sm_a", "sm_9", "sm_09", "sm_90b", "sm_90aa", "SM_90", "sm_10000", "sm_٩٠", "lto_90", "gfx90a", "90"],
)
def test_other_text_is_no_nvidia_name(text: str) -> None:
    assert parse_nvidia(text) is None


@pytest.mark.parametrize(
    ("image", "device", "form", "answer"),
    [
        ("sm_80", "sm_86", "cubin", True),
        ("sm_86", "sm_80", "cubin", False),
        ("sm_80", "sm_90", "cubin", False),
        ("sm_100", "sm_103", "cubin", True),
        ("sm_100", "sm_110", "cubin", False),
        ("sm_90a", "sm_90", "cubin", True),
        ("sm_90a", "sm_90a", "cubin", True),
        ("sm_90a", "sm_100", "cubin", False),
        ("sm_100a", "sm_103", "ptx", False),
        ("sm_100f", "sm_103", "cubin", True),
        ("sm_100f", "sm_110", "cubin", False),
        ("sm_103f", "sm_100", "cubin", False),
        ("sm_120f", "sm_121", "ptx", True),
        ("sm_120f", "sm_100", "ptx", False),
        ("sm_80", "sm_90", "ptx", True),
        ("sm_80", "sm_121", "ptx", True),
        ("sm_90", "sm_80", "ptx", False),
        ("compute_80", "sm_90", "cubin", True),
        ("compute_90a", "sm_100", "cubin", False),
        ("sm_99", "sm_100", "ptx", True),
    ],
)
def test_the_loader_rules(image: str, device: str, form: str, answer: bool) -> None:
    assert can_load(arch(image), arch(device), form).answer is answer


def test_numbers_are_compared_as_numbers_and_not_as_text() -> None:
    assert not can_load(arch("sm_100"), arch("sm_10"), "ptx").answer
    assert can_load(arch("sm_10"), arch("sm_100"), "ptx").answer


def test_the_renamed_capability_belongs_to_its_new_family() -> None:
    assert can_load(arch("sm_101a"), arch("sm_110")).answer
    assert not can_load(arch("sm_101a"), arch("sm_110")).is_certain
    assert "CUDA 13 calls 11.0" in can_load(arch("sm_101a"), arch("sm_110")).rule
    assert can_load(arch("sm_101"), arch("sm_110"), "ptx").is_certain
    assert not can_load(arch("sm_100f"), arch("sm_101")).answer
    assert not can_load(arch("sm_100"), arch("sm_101")).is_certain


def test_cubins_of_tegra_and_of_discrete_parts_are_not_interchangeable() -> None:
    assert not can_load(arch("sm_61"), arch("sm_62")).answer
    assert can_load(arch("sm_87"), arch("sm_87")).is_certain
    assert not can_load(arch("sm_87"), arch("sm_89")).answer
    assert can_load(arch("sm_86"), arch("sm_87"), "ptx").answer


def test_whether_the_driver_of_servers_loads_cubins_of_discrete_parts_on_an_orin_is_not_known() -> None:
    assert not can_load(arch("sm_80"), arch("sm_87")).is_certain
    assert not can_load(arch("sm_80"), arch("sm_87"), driver=(13, 0)).is_certain
    assert can_load(arch("sm_80"), arch("sm_87"), driver=(12, 9)).is_certain


def test_the_members_of_a_family_are_those_that_nvidia_lists() -> None:
    assert can_load(arch("sm_100f"), arch("sm_107")).answer
    assert not can_load(arch("sm_100f"), arch("sm_107")).is_certain
    assert not can_load(arch("sm_100f"), arch("sm_109")).answer
    assert not can_load(arch("sm_90f"), arch("sm_90")).answer
    assert not can_load(arch("sm_130f"), arch("sm_131")).is_certain


def test_no_driver_loads_what_is_neither_a_cubin_nor_ptx() -> None:
    for form in ("ltoir", "tileir", "bitcode", ""):
        assert not can_load(arch("sm_90"), arch("sm_90"), form).answer


def test_the_cuda_version_that_ptx_needs() -> None:
    assert first_cuda_for_ptx((9, 1)) == (13, 1)
    assert first_cuda_for_ptx((8, 7)) == (12, 8)
    assert first_cuda_for_ptx((99, 0)) is None


@given(ARCHES, st.sampled_from(["cubin", "ptx"]))
def test_every_image_runs_on_the_device_it_was_made_for(image: NvidiaArch, form: str) -> None:
    ruling = can_load(image, image, form)
    assert ruling.answer is (image.suffix != "f" or image.number >= 100)
    assert ruling.is_certain


@given(ARCHES, ARCHES)
def test_whatever_a_cubin_runs_on_its_ptx_runs_on_too(image: NvidiaArch, device: NvidiaArch) -> None:
    assert can_load(image, device, "ptx").answer or not can_load(image, device, "cubin").answer
