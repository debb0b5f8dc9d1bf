"""The images that a device loads by ``explain`` are kept by ``slim``: for every fixture, and every container.

Of OpenMP and SYCL images for NVIDIA the plugins take the first, and slimming takes away what stands in front of the one
that runs: there both only have to agree on whether anything is left.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.builders import offered
from tests.laws.rooms import FIXTURES

import fatpack
from fatpack.commands.slim.choose import choose_images
from fatpack.commands.slim.options import SlimOptions
from fatpack.io.source import BytesSource, View
from fatpack.scanner import FoundContainer, scan
from fatpack.tabular.image_sets import ImageSet, read_image_sets
from fatpack.targets.local_devices import parse_devices
from fatpack.targets.selection.runtime_settings import RuntimeSettings
from fatpack.targets.selection.select_image import DeviceSelection, select_image

DEVICES = parse_devices(("sm_75", "sm_87", "sm_90", "sm_103", "gfx90a", "gfx1031", "gfx1100", "pvc"))

#: Formats whose containers slim leaves as they are, whatever is asked for.
UNCHANGED = ("gcc-offload",)

#: bytes of the largest file that is looked at
MOST = 1 << 20

FILES = sorted(
    path
    for path in FIXTURES.rglob("*")
    if path.is_file() and path.suffix not in (".json", ".toml", ".txt", ".md") and path.stat().st_size <= MOST
)


def taken(unit: ImageSet, choices: tuple[DeviceSelection, ...]) -> set[str]:
    """Return the positions of the images that are taken or may be, in the outermost container."""
    numbers = {number for choice in choices for number in choice.possible}
    return {unit.images[number].position.partition("/")[0] for number in numbers}


def disagreements(data: bytes, name: str) -> tuple[list[str], int]:
    """Return what devices load and slim would not keep, and how many answers were compared."""
    view: View = BytesSource(data, name).view()
    items = list(scan(view))
    containers = [item for item in items if isinstance(item, FoundContainer)]
    units = [
        unit
        for unit in read_image_sets(fatpack.rows(data))
        if isinstance(unit, ImageSet)
        and unit.place.container is not None
        and containers[unit.place.container].format not in UNCHANGED
    ]
    wrong, compared = [], 0
    for device in DEVICES if units else ():
        kept = {row.position for row in choose_images(items, SlimOptions(devices=(device,))).kept}
        for unit in units:
            if unit.vendor != device.vendor:
                continue
            choices = select_image(unit.candidates, device, RuntimeSettings())
            loaded = taken(unit, choices)
            compared += bool(loaded)
            if unit.vendor == "nvidia" and unit.runtime in ("openmp", "sycl"):
                if loaded and not kept & {image.position for image in unit.images}:
                    wrong.append(f"{device.arch}: nothing of {sorted(loaded)} is kept")
            elif not loaded <= kept:
                wrong.append(f"{device.arch} loads {sorted(loaded)}, slim keeps {sorted(kept)}")
    return wrong, compared


def test_of_every_fixture_what_is_loaded_is_kept() -> None:
    found, compared = [], 0
    for path in FILES:
        wrong, count = disagreements(path.read_bytes(), path.name)
        found += [f"{path.relative_to(FIXTURES)}: {text}" for text in wrong]
        compared += count
    assert not found
    assert compared > 100


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("cuda", "80 86 p86 90 p90"),
        ("cuda", "80 87 p80"),
        ("cuda", "100 100a 100f 103 p100f p100"),
        ("cuda", "70 75 90a p75 p90a"),
        ("hip", "gfx90a:xnack- gfx90a:xnack+ gfx1030 gfx10-3-generic amdgcnspirv"),
        ("hip", "gfx11-generic gfx1100 amdgcnspirv"),
        ("openmp", "gfx90a gfx90a:xnack+ gfx1031 gfx1100"),
        ("openmp", "75 80 90"),
        ("sycl", "spir64_gen:pvc spir64_gen:acm_g10 spir64"),
        ("kpack", "gfx90a gfx90a:xnack- gfx1100"),
    ],
)
def test_of_packed_containers_what_is_loaded_is_kept(kind: str, words: str) -> None:
    wrong, compared = disagreements(getattr(offered, kind)(words), f"x.{kind}")
    assert not wrong
    assert compared


def test_a_fixture_is_where_it_is_expected() -> None:
    assert len(FILES) > 100
    assert all(isinstance(path, Path) for path in FILES)
