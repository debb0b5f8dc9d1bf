"""When two targets match: LLVM's tables, and the laws of equality."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fatpack.model import Target
from fatpack.targets.compatibility import (
    can_serve,
    can_serve_hip,
    effective_processor,
    find_conflicts,
    hip_target_ids,
    is_compatible_llvm22,
    is_same_target,
    target_identity,
)

AMD = "amdgcn-amd-amdhsa"
NVIDIA = "nvptx64-nvidia-cuda"

ARCHES = ["", "generic", "gfx90a", "gfx90a:xnack+", "gfx90a:xnack-:sramecc+", "gfx9-generic", "gfx900", "gfx1400"]
ARCHES += ["tahiti", "gfx600", "gfx940", "sm_80", "sm_90a", "compute_80", "pvc", "nonsense:"]
TRIPLES = ["", AMD, f"{AMD}-", "amdgpu-amd-amdhsa", "amdgpu9-amd-amdhsa", "amdgpu9.00-amd-amdhsa", "amdgpu6", NVIDIA]
TRIPLES += ["spir64", "spir64-unknown-unknown", "x86_64-pc-linux-gnu"]
TARGETS = st.builds(Target, st.sampled_from(TRIPLES), st.sampled_from(ARCHES))


def amd(arch: str, triple: str = AMD) -> Target:
    return Target(triple, arch, "hip")


def nvidia(arch: str) -> Target:
    return Target(NVIDIA, arch, "cuda")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (amd("gfx90a:xnack+:sramecc-"), amd("gfx90a:sramecc-:xnack+")),
        (amd("gfx90a"), amd("gfx90a", "amdgpu-amd-amdhsa")),
        (amd("gfx90a"), amd("", "amdgpu9.0a-amd-amdhsa")),
        (amd("gfx90a"), amd("generic", "amdgpu9.0a-amd-amdhsa-unknown")),
        (amd("gfx9-generic"), amd("", "amdgpu9-amd-amdhsa")),
        (amd("tahiti"), amd("gfx600")),
        (amd(""), amd("generic")),
        (nvidia("sm_80"), Target("nvptx64-nvidia-cuda-unknown", "sm_80", "openmp")),
        (Target("x86_64-pc-linux-gnu", "generic"), Target("x86_64-pc-linux-gnu", "")),
        (Target("spir64_gen", "pvc"), Target("spir64_gen-unknown-unknown", "pvc")),
    ],
)
def test_two_spellings_of_one_target_are_the_same(first: Target, second: Target) -> None:
    assert is_same_target(first, second)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (amd("gfx90a"), amd("gfx90a:xnack+")),
        (amd("gfx90a:xnack+"), amd("gfx90a:xnack-")),
        (amd("gfx9-generic"), amd("gfx900")),
        (amd(""), amd("", "amdgpu6-amd-amdhsa")),
        (amd("gfx1400"), amd("gfx1500")),
        (nvidia("sm_90"), nvidia("sm_90a")),
        (nvidia("sm_90"), nvidia("compute_90")),
        (Target("spirv64-intel", "generic"), Target("spirv64", "generic")),
        (Target("", "", spelling="hip-x"), Target("", "", spelling="hip-y")),
    ],
)
def test_different_targets_are_not_the_same(first: Target, second: Target) -> None:
    assert not is_same_target(first, second)


def test_the_programming_model_is_no_part_of_a_target_that_is_compared() -> None:
    assert is_same_target(Target(AMD, "gfx90a", "hip"), Target(AMD, "gfx90a", "openmp"))


@given(TARGETS, TARGETS)
def test_same_is_symmetric_and_follows_the_identity(first: Target, second: Target) -> None:
    assert (
        is_same_target(first, second)
        == is_same_target(second, first)
        == (target_identity(first) == target_identity(second))
    )


@given(TARGETS)
def test_every_target_is_the_same_as_itself(target: Target) -> None:
    assert is_same_target(target, target)


@pytest.mark.parametrize(
    ("provider", "request_", "answer"),
    [
        (amd("gfx90a"), amd("gfx90a:xnack+"), True),
        (amd("gfx90a:xnack+"), amd("gfx90a"), False),
        (amd("gfx90a:xnack+"), amd("gfx90a:xnack-"), False),
        (amd("gfx90a:xnack+"), amd("gfx90a:xnack+:sramecc-"), True),
        (amd("gfx90a:xnack+"), amd("gfx90a:sramecc-"), False),
        (amd("gfx90a"), amd("gfx908"), False),
        (amd("gfx9-generic"), amd("gfx900"), True),
        (amd("gfx9-generic"), amd("gfx900:xnack-"), True),
        (amd("gfx9-generic:xnack+"), amd("gfx900:xnack-"), False),
        (amd("gfx900"), amd("gfx9-generic"), False),
        (amd("gfx9-generic"), amd("gfx90a"), False),
        (amd("gfx9-generic"), amd("gfx908"), False),
        (amd("gfx11-generic"), amd("gfx1154"), True),
        (amd("gfx900"), amd("gfx902"), False),
        (amd("tahiti"), amd("gfx600"), True),
        (amd("", "amdgpu9.0a-amd-amdhsa"), amd("gfx90a:xnack+"), True),
        (amd("", "amdgpu9-amd-amdhsa"), amd("gfx900"), True),
        (amd("", "amdgpu9-amd-amdhsa"), amd("", "amdgpu9.00-amd-amdhsa"), True),
        (amd("", "amdgpu9.00-amd-amdhsa"), amd("", "amdgpu9.02-amd-amdhsa"), False),
        (amd("", "amdgpu9.00-amd-amdhsa"), amd("", "amdgpu9-amd-amdhsa"), False),
        (amd("", "amdgpu6-amd-amdhsa"), amd("gfx601"), True),
        (amd("", "amdgpu6-amd-amdhsa"), amd("gfx900"), False),
        (amd("gfx90a"), amd("gfx90a", "amdgpu9.00-amd-amdhsa"), True),
        (amd("gfx90a"), amd("gfx90a", "amdgcn-amd-amdpal"), False),
        (amd("gfx940"), amd("gfx942"), False),
        (amd("gfx1030:xnack+"), amd("gfx1030"), True),
        (amd("gfx90a"), nvidia("sm_80"), False),
        (nvidia("sm_80"), nvidia("sm_80"), True),
        (nvidia("sm_80"), nvidia("sm_86"), False),
        (nvidia(""), nvidia("sm_80"), False),
        (nvidia("generic"), nvidia("sm_80"), True),
        (Target("spir64", ""), Target("spir64-unknown-unknown", ""), True),
        (amd("gfx90a"), Target("", "gfx90a"), True),
        (amd("gfx90a"), Target("", "sm_80"), False),
        (amd("gfx90a"), Target("", "pvc"), False),
    ],
)
def test_an_image_serves_a_request_by_the_rule_of_llvm_main(provider: Target, request_: Target, answer: bool) -> None:
    verdict = can_serve(provider, request_)
    assert verdict.answer is answer
    assert bool(verdict) is answer
    assert verdict.reason


@pytest.mark.parametrize(
    ("provider", "request_"),
    [
        (amd(""), amd("gfx90a")),
        (amd("generic"), amd("gfx90a")),
        (amd("gfx90a"), amd("")),
        (amd("gfx1400"), amd("gfx90a")),
        (Target("", "gfx90a"), amd("gfx90a")),
        (nvidia("generic"), nvidia("sm_80")),
    ],
)
def test_an_unchecked_yes_is_marked_as_assumed(provider: Target, request_: Target) -> None:
    verdict = can_serve(provider, request_)
    assert verdict.answer
    assert verdict.is_assumed


def test_a_yes_between_equal_targets_is_not_assumed_even_for_an_unknown_processor() -> None:
    assert not can_serve(amd("gfx1400"), amd("gfx1400")).is_assumed


def test_features_of_an_unknown_processor_are_compared() -> None:
    assert not can_serve(amd("gfx1400:xnack+"), amd("gfx1400:xnack-"))


@given(TARGETS, st.booleans(), st.sampled_from(["cubin", "ptx", "bitcode"]))
def test_every_image_serves_its_own_target(target: Target, nvidia_rules: bool, form: str) -> None:
    assert can_serve(target, target, nvidia_rules=nvidia_rules, form=form).answer


@given(TARGETS, TARGETS)
def test_a_target_serves_whatever_is_the_same(first: Target, second: Target) -> None:
    if is_same_target(first, second):
        assert can_serve(first, second).answer


def test_the_rules_of_the_cuda_loader_are_used_on_request_only() -> None:
    assert not can_serve(nvidia("sm_80"), nvidia("sm_86"))
    assert can_serve(nvidia("sm_80"), nvidia("sm_86"), nvidia_rules=True)
    assert not can_serve(nvidia("sm_80"), nvidia("sm_90"), nvidia_rules=True)
    assert can_serve(nvidia("sm_80"), nvidia("sm_90"), nvidia_rules=True, form="ptx")
    assert can_serve(nvidia("sm_80"), Target("", "sm_90"), nvidia_rules=True, form="ptx")


def test_an_image_that_is_neither_cubin_nor_ptx_is_judged_by_name() -> None:
    assert not can_serve(nvidia("sm_80"), nvidia("sm_86"), nvidia_rules=True, form="fatbin")


def test_a_doubtful_answer_of_the_loader_rules_says_so() -> None:
    verdict = can_serve(nvidia("sm_101a"), nvidia("sm_110"), nvidia_rules=True)
    assert verdict.answer
    assert verdict.is_assumed
    assert "uncertain" in verdict.reason


@pytest.mark.parametrize("form", ["ltoir", "tileir"])
def test_what_only_linkers_read_serves_no_device_not_even_that_of_its_own_name(form: str) -> None:
    assert not can_serve(nvidia("sm_80"), nvidia("sm_80"), nvidia_rules=True, form=form)
    assert can_serve(nvidia("sm_80"), nvidia("sm_80"), form=form)


@pytest.mark.parametrize(
    ("entry", "name", "answer"),
    [
        ("gfx90a", "gfx90a:sramecc+:xnack-", True),
        ("gfx90a:xnack-", "gfx90a:sramecc+:xnack+", False),
        ("gfx1100:xnack+", "gfx1100", False),
        ("gfx9-generic", "gfx9-generic:sramecc-:xnack-", False),
        ("", "gfx90a:sramecc+:xnack-", False),
        ("gfx1400", "gfx1400", False),
        ("gfx9-generic", "gfx900:xnack-", False),
        ("tahiti", "gfx600", True),
        ("gfx90a:xnack+", "gfx90a", False),
    ],
)
def test_hip_takes_fewer_images_than_llvm(entry: str, name: str, answer: bool) -> None:
    verdict = can_serve_hip(entry, name)
    assert verdict.answer is answer
    assert verdict.reason


def test_hip_asks_for_the_device_then_for_its_generic_processor_then_for_spirv() -> None:
    assert hip_target_ids("gfx942:sramecc+:xnack-") == (
        "gfx942:sramecc+:xnack-",
        "gfx9-4-generic:sramecc+:xnack-",
        "amdgcnspirv",
    )
    assert hip_target_ids("gfx1154") == ("gfx1154", "amdgcnspirv")
    assert hip_target_ids("gfx90a:sramecc+:xnack-")[1:] == ("amdgcnspirv",)


@pytest.mark.parametrize(
    ("first", "second", "answer"),
    [
        ("gfx90a", "gfx90a:xnack+", True),
        ("gfx90a:xnack+", "gfx90a:xnack-", False),
        ("gfx90a:xnack+", "gfx90a:sramecc-", True),
        ("gfx90a:xnack+:sramecc+", "gfx90a:sramecc+:xnack+", True),
        ("gfx90a:xnack+", "gfx908:xnack+", False),
        ("generic", "gfx90a", True),
        ("gfx9-generic", "gfx900", False),
        ("", "gfx90a", False),
        ("gfx90a", "gfx90a", False),
    ],
)
def test_the_old_linker_wrapper_groups_by_its_own_rule(first: str, second: str, answer: bool) -> None:
    assert is_compatible_llvm22(amd(first), amd(second)) is answer
    assert is_compatible_llvm22(amd(second), amd(first)) is answer


def test_the_old_linker_wrapper_matches_nvidia_only_with_generic() -> None:
    assert not is_compatible_llvm22(nvidia("sm_80"), nvidia("sm_90"))
    assert is_compatible_llvm22(nvidia("generic"), nvidia("sm_80"))


def test_the_old_linker_wrapper_compares_triples_as_text() -> None:
    assert not is_compatible_llvm22(amd("gfx90a"), amd("gfx90a:xnack+", f"{AMD}-"))
    assert not is_compatible_llvm22(amd("generic"), amd("gfx90a", "amdgpu-amd-amdhsa"))


def test_a_feature_fixed_in_some_targets_of_a_processor_is_a_conflict() -> None:
    some, none, other = amd("gfx90a:xnack+"), amd("gfx90a"), amd("gfx908")
    (conflict,) = find_conflicts([some, none, other])
    assert (conflict.processor, conflict.feature) == ("gfx90a", "xnack")
    assert (conflict.having, conflict.lacking) == ((some,), (none,))
    assert conflict.message.startswith("gfx90a:xnack+ fixes xnack and gfx90a does not")


def test_a_conflict_is_found_in_whatever_order_the_targets_come() -> None:
    targets = [amd("gfx90a:sramecc+:xnack-"), amd("gfx90a:xnack+"), amd("gfx90a:sramecc-:xnack-")]
    for order in itertools.permutations(targets):
        (conflict,) = find_conflicts(order)
        assert conflict.feature == "sramecc"
        assert conflict.lacking == (targets[1],)


def test_aliases_and_new_triples_conflict_with_their_processor() -> None:
    assert find_conflicts([amd("carrizo"), amd("gfx801:xnack+")])
    assert find_conflicts([amd("", "amdgpu9.0a-amd-amdhsa"), amd("gfx90a:xnack+")])


def test_opposite_signs_and_other_programming_models_do_not_conflict() -> None:
    assert find_conflicts([amd("gfx90a:xnack+"), amd("gfx90a:xnack-")]) == []
    assert find_conflicts([Target(AMD, "gfx90a", "hip"), Target(AMD, "gfx90a:xnack+", "openmp")]) == []
    assert find_conflicts([nvidia("sm_80"), nvidia("sm_90a")]) == []


@pytest.mark.parametrize(
    ("triple", "arch", "processor"),
    [
        ("", "tahiti", "gfx600"),
        (AMD, "tahiti", "gfx600"),
        (NVIDIA, "tahiti", "tahiti"),
        ("", "generic", ""),
        (AMD, "generic", ""),
        ("amdgpu9.00-amd-amdhsa", "generic", "gfx900"),
        (NVIDIA, "generic", ""),
        (NVIDIA, "sm_80", "sm_80"),
    ],
)
def test_names_of_one_processor_are_one_for_amd_alone(triple: str, arch: str, processor: str) -> None:
    assert effective_processor(Target(triple, arch)) == processor
