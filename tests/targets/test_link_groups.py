"""The rule for the images of one device link; ``tests/commands/link_inputs`` compares it with clang-linker-wrapper."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fatpack.model import Target
from fatpack.targets.compatibility import accepts_image, feature_count, joins_group

ARCHS = st.builds(
    lambda processor, features: ":".join((processor, *features)),
    st.sampled_from(["gfx90a", "gfx908", "generic", "", "sm_80"]),
    st.lists(
        st.sampled_from(["xnack+", "xnack-", "sramecc+", "sramecc-"]), max_size=2, unique_by=lambda text: text[:-1]
    ),
)
TARGETS = st.builds(Target, st.sampled_from(["amdgcn-amd-amdhsa", "amdgpu-amd-amdhsa", "nvptx64-nvidia-cuda"]), ARCHS)


@given(TARGETS, TARGETS)
def test_a_group_takes_no_image_with_more_features_than_it_has(group: Target, image: Target) -> None:
    if accepts_image(group, image) and group != image:
        assert feature_count(image) <= feature_count(group)
        assert set(image.features) <= set(group.features)


@given(TARGETS, TARGETS, st.sampled_from(["22", "23"]))
def test_members_of_archives_join_in_both_directions_and_never_their_own_target(
    a: Target, b: Target, llvm: str
) -> None:
    assert joins_group(a, b, llvm) == joins_group(b, a, llvm)
    assert not joins_group(a, a, llvm)


@pytest.mark.parametrize(
    ("group", "image", "is_taken"),
    [
        ("gfx90a:xnack+", "gfx90a", True),
        ("gfx90a", "gfx90a:xnack+", False),
        ("gfx90a:sramecc+:xnack+", "gfx90a:xnack+", True),
        ("gfx90a:xnack+:sramecc+", "gfx90a:sramecc+:xnack+", True),
        ("gfx90a:xnack+", "gfx90a:xnack-", False),
        ("gfx90a:xnack+", "gfx90a:sramecc+", False),
        ("gfx90a:xnack+", "generic", False),
        ("gfx900:xnack+", "gfx9-generic", False),
    ],
)
def test_llvm_23_asks_in_one_direction(group: str, image: str, is_taken: bool) -> None:
    assert accepts_image(Target("amdgcn-amd-amdhsa", group), Target("amdgcn-amd-amdhsa", image)) is is_taken


def test_the_new_name_of_the_architecture_is_known_to_llvm_23_alone() -> None:
    group, image = Target("amdgpu-amd-amdhsa", "gfx90a:xnack+"), Target("amdgpu-amd-amdhsa", "gfx90a")
    assert joins_group(image, group, "23")
    assert not joins_group(image, group, "22")
