"""What an architecture costs: the devices that take it, and what they would take without it."""

from __future__ import annotations

import pytest
from tests.builders.fatbin import of_words

import fatpack
from fatpack.tabular.arch_costs import ArchCost, ArchCosts, known_devices
from fatpack.tabular.columns import ImageRow
from fatpack.tabular.image_sets import ImageSet, read_image_sets
from fatpack.targets.devices import Device
from fatpack.targets.selection.model import CandidateImage
from fatpack.targets.selection.runtime_settings import RuntimeSettings
from fatpack.targets.selection.select_image import CandidateSet, select_image


def costs_of(*words: str) -> dict[str, ArchCost]:
    """Return the costs of containers, each given by the architectures of its images."""
    costs = ArchCosts()
    for one in words:
        rows = [row for row in fatpack.rows(of_words(one)) if isinstance(row, ImageRow)]
        for row in rows[:-1]:
            costs.count(row.label or "", row.stored_size, row.size or 0)
        for unit in read_image_sets(rows):
            if isinstance(unit, ImageSet):
                costs.choose(unit.candidates, [image.name for image in unit.images], unit.vendor)
    return {one.label: one for one in costs.records()}


def told(cost: ArchCost) -> dict[str, str]:
    return {device: one.words for one in cost.instead for device in one.devices}


def test_another_cubin_ptx_or_nothing() -> None:
    found = costs_of("75 80 86 89 p80")
    assert list(found) == ["sm_75", "compute_80", "sm_80", "sm_86", "sm_89"]
    assert told(found["sm_89"]) == {"sm_89": "run sm_86's code"}
    assert told(found["sm_75"]) == {"sm_75": "have nothing"}
    assert told(found["sm_80"]) == {"sm_80": "compile compute_80"}
    assert set(told(found["sm_86"])) == {"sm_86", "sm_88"}
    assert "sm_120" in found["compute_80"].devices and told(found["compute_80"])["sm_120"] == "have nothing"


def test_the_sentence() -> None:
    cost = costs_of("80 86 89")["sm_89"].replace(stored=61_000_000)
    assert cost.advice == "sm_89 costs 61 MB, and its devices would run sm_86's code"
    assert costs_of("90 90a")["sm_90"].advice.endswith(", and no known device takes it")
    assert costs_of("80 p80")["sm_80"].replace(stored=None, inflated=2000).advice == (
        "sm_80 costs 2 kB inflated, and its devices would compile compute_80"
    )


def test_the_worst_of_several_containers_counts() -> None:
    found = costs_of("80 89", "p80 89", "89")
    assert told(found["sm_89"]) == {"sm_89": "have nothing"}
    assert (found["sm_89"].images, found["sm_80"].images) == (3, 1)


@pytest.mark.parametrize(
    "words", ["60 70 75 80 86 89 90 p90", "100 100a 100f 103 120 p100 p120", "72 87 p87", "90a p80"]
)
def test_it_is_what_select_image_says(words: str) -> None:
    forms = {word: ("ptx" if word[0] == "p" else "cubin", f"sm_{word.lstrip('p')}") for word in words.split()}
    images = tuple(CandidateImage(form, arch, "nvptx64-nvidia-cuda") for form, arch in forms.values())
    costs = ArchCosts()
    costs.choose(CandidateSet(images, "cuda"), list(forms), "nvidia")
    for cost in costs.records():
        for device in known_devices("nvidia"):
            (choice,) = select_image(CandidateSet(images, "cuda"), device, RuntimeSettings())
            takes = choice.image is not None and list(forms)[choice.image] == cost.label
            assert takes == (device.arch in cost.devices)
    served = {device for cost in costs.records() for device in cost.devices}
    assert served <= {device.arch for device in known_devices("nvidia")}


def test_amd_devices_with_the_state_that_fares_worst() -> None:
    archs = ["gfx90a:xnack+", "gfx90a", "gfx11-generic", "gfx1100"]
    images = tuple(CandidateImage("code-object", arch, "amdgcn-amd-amdhsa") for arch in archs)
    costs = ArchCosts()
    costs.choose(CandidateSet(images, "hip"), archs, "amd")
    found = {one.label: one for one in costs.records()}
    assert told(found["gfx90a:xnack+"]) == {"gfx90a": "run gfx90a's code"}
    assert told(found["gfx90a"]) == {"gfx90a": "have nothing"}
    assert told(found["gfx1100"]) == {"gfx1100": "run gfx11-generic's code"}
    assert Device("amd", "gfx1100") in known_devices("amd")
    assert known_devices("intel") == ()
