"""Images that can never run: what is named, and that no device of the tables with any driver takes one of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fatpack.targets.devices import Device, nvidia_capabilities
from fatpack.targets.nvidia import parse_nvidia
from fatpack.targets.selection.dead import DRIVERS, find_dead, nvidia_numbers
from fatpack.targets.selection.drivers import driver_branches
from fatpack.targets.selection.model import CandidateImage
from fatpack.targets.selection.runtime_settings import RuntimeSettings
from fatpack.targets.selection.select_image import CandidateSet, select_image
from fatpack.targets.vocabulary import load_vocabulary


def images(words: str) -> tuple[CandidateImage, ...]:
    """Return images of CUDA: ``90a`` is a cubin, ``p80`` PTX, ``L80`` LTO-IR, ``R80`` relocatable PTX."""
    forms = {"p": "ptx", "L": "ltoir", "R": "relocatable-ptx"}
    return tuple(
        CandidateImage(forms.get(word[0], "cubin"), f"sm_{word.lstrip('pLR')}", "nvptx64-nvidia-cuda")
        for word in words.split()
    )


def dead(words: str, *, is_linked: bool = True) -> dict[str, str]:
    found = find_dead(images(words), "cuda", is_linked=is_linked)
    return {f"{at} {words.split()[at]}": why.reason for at, why in found.items()}


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("60 70 75 80 86 89 90 p90", {}),
        ("90 90a", {"0 90": "beaten"}),  # no other 9.x came after Hopper
        ("100 100a", {}),  # 10.3 takes the first
        ("100 100f", {}),  # it is not known which of them 10.0 takes
        ("120 120a", {}),  # a later 12.x takes the first
        ("90 90", {"1 90": "beaten"}),
        ("80 80", {}),  # it is not known which of them 8.6 takes
        ("80 p80 p80", {"2 p80": "covered"}),
        ("50 60 70 75 80 90 100 110 120 p50 p120", {}),  # a Tegra part of 5.3 compiles the first
        ("72 p72 p75", {"1 p72": "covered"}),
        ("80 p80 p90 L80 R80", {"3 L80": "linker", "4 R80": "linker"}),
        ("L80 R80", {}),  # nothing would remain
        ("80a p90", {}),
        ("87 p86 p90", {}),
    ],
)
def test_what_is_dead(words: str, expected: dict[str, str]) -> None:
    assert dead(words) == expected


def test_code_for_linkers_is_alive_in_objects() -> None:
    assert dead("80 L80 R80", is_linked=False) == {}


@pytest.mark.parametrize(
    ("words", "at", "taken"),
    [
        ("90 90a p80 p90", 0, "sm_90a"),
        ("72 p72 p75", 1, "sm_72, compute_75"),
        ("80 86 87 88 89 90 p80 p90", 6, "sm_80, sm_86, sm_87, 4 others"),
        ("80 86 87 89 90 p80 p90", 5, "sm_80, sm_86, sm_87, 3 others"),
    ],
)
def test_words_name_what_is_taken(words: str, at: int, taken: str) -> None:
    assert find_dead(images(words), "cuda")[at].words == f"its devices take {taken}"


def test_numbers_of_later_devices_follow_those_of_known_ones() -> None:
    """No device comes between two known ones of a major version, and none in a version before Blackwell."""
    archs = [parse_nvidia(name) for name in load_vocabulary().nvidia]
    known = {arch.number for arch in archs if arch is not None and not arch.is_virtual}
    found = nvidia_numbers()
    assert list(found) == sorted(set(found)) and known <= set(found)
    for major in range(2, 16):
        later = {number for number in found if number // 10 == major} - known
        newest = max((number for number in known if number // 10 == major), default=10 * major - 1)
        assert later == (set(range(newest + 1, 10 * major + 10)) if major >= 10 else set()), major


def test_a_target_id_that_another_covers() -> None:
    archs = ["gfx90a:xnack+", "gfx90a:xnack-", "gfx90a", "gfx1100", "gfx11-generic", "amdgcnspirv", "gfx1100"]
    bundle = tuple(CandidateImage("", arch, "amdgcn-amd-amdhsa") for arch in archs)
    found = find_dead(bundle, "hip", is_linked=True)
    assert {at: why.reason for at, why in found.items()} == {2: "beaten", 6: "beaten"}
    assert find_dead(bundle, "sycl") == {}


def of_openmp(words: str, *, is_linked: bool = True) -> dict[str, str]:
    """Return the dead images of a descriptor: ``sm_80``, ``gfx90a:xnack+``, ``b`` for bitcode, ``s`` for SPIR-V."""
    images = []
    for word in words.split():
        if word in ("b", "s"):
            triple = "spirv64-intel" if word == "s" else "amdgcn-amd-amdhsa"
            images.append(CandidateImage({"b": "bitcode", "s": "spirv"}[word], "", triple))
        else:
            triple = "nvptx64-nvidia-cuda" if word.startswith("sm_") else "amdgcn-amd-amdhsa"
            images.append(CandidateImage("", word, triple))
    found = find_dead(images, "openmp", is_linked=is_linked)
    return {f"{at} {words.split()[at]}": why.reason for at, why in found.items()}


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("sm_80 sm_86", {"1 sm_86": "beaten"}),  # 8.6 takes the first, which fits
        ("sm_86 sm_80", {}),
        ("sm_80 sm_90 gfx90a", {}),
        ("sm_90 sm_90", {"1 sm_90": "beaten"}),
        ("gfx90a gfx90a:xnack+", {"1 gfx90a:xnack+": "beaten"}),
        ("gfx90a:xnack+ gfx90a", {}),  # with xnack off the second is taken
        ("gfx90a:xnack+ gfx90a:xnack- gfx90a", {"2 gfx90a": "beaten"}),
        ("gfx90a sm_80 sm_80", {"2 sm_80": "beaten"}),
        ("sm_80 sm_80a", {"1 sm_80a": "beaten"}),
        ("sm_99 sm_80", {}),  # Level Zero's plugin takes the first, whatever it is
        ("sm_80 b", {}),
        ("sm_80 s s", {}),
    ],
)
def test_what_is_dead_of_a_descriptor_of_openmp(words: str, expected: dict[str, str]) -> None:
    assert of_openmp(words) == expected


def test_images_of_openmp_in_an_object_are_alive() -> None:
    assert of_openmp("sm_80 sm_86", is_linked=False) == {}


ARCHS = st.sampled_from(
    "50 52 53 60 61 62 70 72 75 80 86 87 88 89 90 90a 100 100a 100f 101 101a 103 103a 103f 110 110f 120 120a 120f 121 "
    "p50 p52 p70 p75 p80 p86 p90 p90a p100 p100f p103a p120 p121 L80 R80".split()
)


@given(st.lists(ARCHS, min_size=1, max_size=8))
def test_no_known_device_and_no_driver_takes_what_is_dead(chosen: list[str]) -> None:
    found = images(" ".join(chosen))
    gone = find_dead(found, "cuda", is_linked=True).keys()
    left = [at for at in range(len(found)) if at not in gone]
    assert left
    before, after = CandidateSet(found, "cuda"), CandidateSet(tuple(found[at] for at in left), "cuda")
    for arch in nvidia_capabilities():
        for driver in (None, *(branch.cuda for branch in driver_branches()[-3:])):
            device, settings = Device("nvidia", arch.name), RuntimeSettings(driver=driver)
            (one,), (two,) = select_image(before, device, settings), select_image(after, device, settings)
            assert not gone & set(one.possible)
            assert (one.outcome, one.image) == (two.outcome, None if two.image is None else left[two.image])
            assert set(one.possible) == {left[at] for at in two.possible}
    again = find_dead([found[at] for at in left], "cuda", is_linked=True)
    assert again == {}


def test_newer_devices_are_asked_about() -> None:
    numbers = nvidia_numbers()
    assert {86, 88, 121, 122, 129, 130} <= set(numbers)
    assert not {91, 99, 85} & set(numbers)


def test_rules_ask_for_no_other_driver() -> None:
    """All drivers of the table take what those that are asked about may take."""
    from fatpack.targets.nvidia import NvidiaArch
    from fatpack.targets.selection.cuda import possible_images

    each = images("53 70 72 80 86 87 88 90 90a 100f 101 103 110 p53 p70 p80 p87 p90")
    for number in nvidia_numbers():
        device = NvidiaArch(number)
        asked = {at for driver in DRIVERS for at in possible_images(each, device, driver)}
        for branch in driver_branches():
            assert asked.issuperset(possible_images(each, device, branch.cuda))


HIP = st.sampled_from(
    "gfx900 gfx906 gfx906:sramecc+ gfx90a gfx90a:xnack+ gfx90a:xnack- gfx90a:sramecc+:xnack- gfx942 gfx9-generic "
    "gfx9-4-generic gfx1030 gfx10-3-generic gfx1100 gfx1101 gfx11-generic amdgcnspirv gfx9999".split()
)


@given(st.lists(HIP, min_size=1, max_size=6))
def test_no_amd_device_takes_what_is_dead(archs: list[str]) -> None:
    found = tuple(CandidateImage("code-object", arch, "amdgcn-amd-amdhsa") for arch in archs)
    gone = find_dead(found, "hip", is_linked=True).keys()
    left = [at for at in range(len(found)) if at not in gone]
    before, after = CandidateSet(found, "hip"), CandidateSet(tuple(found[at] for at in left), "hip")
    for line in load_vocabulary().amd.values():
        if line.kind == "processor":
            for forces in (False, True):
                settings = RuntimeSettings(forces_spirv=forces)
                device = Device("amd", line.name)
                pairs = zip(select_image(before, device, settings), select_image(after, device, settings), strict=True)
                for one, two in pairs:
                    assert (one.outcome, one.image) == (two.outcome, None if two.image is None else left[two.image])
