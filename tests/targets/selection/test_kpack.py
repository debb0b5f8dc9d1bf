"""The archive that the loader selects: before and after it tried all archives that list a device."""

from __future__ import annotations

import pytest

from fatpack.targets.selection.amd import (
    KpackSelection,
    candidate_archives,
    expand_path,
    feature_subsets,
    requested_target_ids,
    select_kpack_archive,
)

MI210 = "gfx90a:sramecc+:xnack-"


def test_every_subset_of_features_is_asked_for_most_specific_first() -> None:
    assert feature_subsets(MI210) == (MI210, "gfx90a:sramecc+", "gfx90a:xnack-", "gfx90a")
    assert feature_subsets("gfx1201") == ("gfx1201",)
    assert feature_subsets("gfx90a::xnack-") == ("gfx90a:xnack-", "gfx90a")


def test_features_without_end_are_bounded() -> None:
    assert len(feature_subsets(":".join(["gfx1", *("x+" for _ in range(100))]))) == 64


def test_the_generic_processor_comes_after_the_device() -> None:
    assert requested_target_ids("gfx1100") == ("gfx1100", "gfx11-generic")
    assert requested_target_ids("gfx942:xnack-") == ("gfx942:xnack-", "gfx9-4-generic:xnack-")
    assert requested_target_ids("gfx1250") == ("gfx1250", "gfx12-5-generic")
    assert requested_target_ids(MI210) == (MI210,)


def test_a_place_means_one_archive_per_name() -> None:
    assert expand_path("../.kpack/x.kpack", MI210) == ("../.kpack/x.kpack",)
    assert expand_path("a_@GFXARCH@.kpack", "gfx90a:xnack-") == ("a_gfx90a:xnack-.kpack", "a_gfx90a.kpack")
    assert expand_path("@GFXARCH@/@GFXARCH@", "gfx803") == ("gfx803/@GFXARCH@",)


#: archives as "listed archs/archs held", the device; the choice of the newer loader, and of the older
CASES = [
    ("gfx90a/gfx90a", "gfx90a:xnack-", "0 gfx90a", "0 gfx90a"),
    ("gfx90a/gfx90a gfx90a:xnack-/gfx90a:xnack-", "gfx90a:xnack-", "1 gfx90a:xnack-", "1 gfx90a:xnack-"),
    # an overlay that is empty, or lacks the one code object (ROCm/TheRock#7620, #7081)
    ("gfx90a:xnack-/ gfx90a/gfx90a", "gfx90a:xnack-", "1 gfx90a", "K6 0"),
    ("gfx90a:xnack-/ gfx90a/", "gfx90a:xnack-", "K5 None", "K6 0"),
    ("gfx90a:xnack+/gfx90a:xnack+", "gfx90a:xnack-", "K4 None", "K4 None"),
    # an arch that is held and not listed is not searched
    ("gfx906/gfx90a", "gfx90a:xnack-", "K4 None", "K4 None"),
    ("gfx11-generic/gfx11-generic gfx1100/", "gfx1100", "0 gfx11-generic", "K6 1"),
    ("gfx11-generic/gfx11-generic", "gfx1100", "0 gfx11-generic", "0 gfx11-generic"),
    # the place of an archive decides among those of one name
    ("gfx1100,gfx1101/gfx1100 gfx1100/gfx1100", "gfx1100", "0 gfx1100", "0 gfx1100"),
    ("gfx1100/ gfx1100/gfx1100", "gfx1100", "1 gfx1100", "K6 0"),
]


@pytest.mark.parametrize(("archives", "device", "newer", "older"), CASES)
def test_what_the_loader_takes(archives: str, device: str, newer: str, older: str) -> None:
    listed, held = zip(*(word.split("/") for word in archives.split()), strict=True)
    archs = [row.split(",") for row in listed]

    def told(answer: KpackSelection) -> str:
        if answer.outcome == "runs":
            assert answer.rule == "K5"
            return f"{answer.image} {answer.arch}"
        return f"{answer.rule} {answer.image}"

    def holds(number: int, arch: str) -> bool:
        return arch in held[number].split(",")

    assert told(select_kpack_archive(candidate_archives(archs, device), holds)) == newer
    assert told(select_kpack_archive(candidate_archives(archs, device), holds, tries_all=False)) == older


def test_archives_are_looked_into_by_name_first_and_then_by_place() -> None:
    archs = [["gfx1100"], ["gfx11-generic", "gfx1100"]]
    assert candidate_archives(archs, "gfx1100") == [[(0, "gfx1100"), (1, "gfx1100")], [(1, "gfx11-generic")]]
    assert candidate_archives([["gfx90a"], ["gfx90a:xnack-"]], MI210) == [[(1, "gfx90a:xnack-"), (0, "gfx90a")]]
    assert candidate_archives([["gfx906"]], MI210) == []
