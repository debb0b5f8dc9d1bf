"""Triples are compared by meaning: docs/targets.md, "When two targets match"."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fatpack.targets.llvm_triple import parse_llvm_triple
from fatpack.targets.triple import (
    Triple,
    as_llvm22,
    is_amdgpu,
    is_nvptx,
    same_triple,
    split_triple,
    sub_architecture,
    triple_identity,
    triple_processor,
    triple_spellings,
    without_sub_architecture,
)
from fatpack.targets.vocabulary import AmdName, load_vocabulary

WORDS = st.sampled_from(["", "unknown", "amdgcn", "amdgpu9.0a", "amd", "amdhsa", "nvptx64", "linux", "gnu", "a-b", "x"])
TRIPLES = st.lists(WORDS, max_size=6).map("-".join)


def test_a_triple_has_four_parts_and_missing_ones_are_empty() -> None:
    assert split_triple("nvptx64-nvidia-cuda") == Triple("nvptx64", "nvidia", "cuda", "")
    assert split_triple("spirv64-intel") == Triple("spirv64", "intel")
    assert split_triple("") == Triple("")


def test_everything_after_the_third_dash_is_the_environment() -> None:
    assert split_triple("amdgcn-amd-amdhsa-unknown-").environment == "unknown-"


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("spir64", "spir64-unknown-unknown"),
        ("spirv64-amd-amdhsa", "spirv64-amd-amdhsa--"),
        ("spirv64-amd-amdhsa", "spirv64-amd-amdhsa-unknown-"),
        ("amdgcn-amd-amdhsa-", "amdgpu-amd-amdhsa"),
        ("nvptx64-nvidia-cuda-unknown", "nvptx64-nvidia-cuda"),
        ("x86_64--linux-gnu", "amd64-unknown-linux-gnu"),
        ("amdgpu9.5-amd-amdhsa", "amdgpu9.4-amd-amdhsa"),
        ("amdgpu10-amd-amdhsa", "amdgpu10.1-amd-amdhsa"),
        ("", "unknown-unknown"),
    ],
)
def test_spellings_that_mean_one_triple_are_the_same(first: str, second: str) -> None:
    assert same_triple(first, second)
    assert same_triple(second, first)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("nvptx64-nvidia-cuda", "nvptx-nvidia-cuda"),
        ("x86_64-pc-linux-gnu", "x86_64-unknown-linux-gnu"),
        ("x86_64-unknown-linux", "x86_64-unknown-linux-gnu"),
        ("spirv64-intel", "spirv64-unknown-intel"),
        ("amdgpu9.00-amd-amdhsa", "amdgpu9.02-amd-amdhsa"),
        ("amdgpu9.00-amd-amdhsa", "amdgpu-amd-amdhsa"),
        ("SPIR64", "spir64"),
    ],
)
def test_triples_that_differ_in_a_part_are_not_the_same(first: str, second: str) -> None:
    assert not same_triple(first, second)


@given(TRIPLES, st.sampled_from(["-", "-unknown", "--unknown-"]))
def test_empty_parts_at_the_end_never_matter(text: str, tail: str) -> None:
    assert triple_identity(text) == triple_identity(text + tail)


@given(TRIPLES)
def test_the_identity_of_an_identity_is_itself(text: str) -> None:
    assert triple_identity("-".join(triple_identity(text))) == triple_identity(text)


@pytest.mark.parametrize(
    ("triple", "processor"),
    [
        ("amdgpu9.0a-amd-amdhsa", "gfx90a"),
        ("amdgpu9.00-amd-amdhsa", "gfx900"),
        ("amdgpu9.42", "gfx942"),
        ("amdgpu10.30-amd-amdhsa", "gfx1030"),
        ("amdgpu12.01-amd-amdhsa", "gfx1201"),
        ("amdgpu13.10-amd-amdhsa", "gfx1310"),
        ("amdgpu9-amd-amdhsa", "gfx9-generic"),
        ("amdgpu9.5-amd-amdhsa", "gfx9-4-generic"),
        ("amdgpu10-amd-amdhsa", "gfx10-1-generic"),
        ("amdgpu6-amd-amdhsa", "amdgpu6"),
        ("amdgpuwhat-amd-amdhsa", "amdgpuwhat"),
        ("amdgpu-amd-amdhsa", ""),
        ("amdgcn-amd-amdhsa", ""),
        ("nvptx64-nvidia-cuda", ""),
    ],
)
def test_the_instruction_set_in_a_triple_names_the_processor(triple: str, processor: str) -> None:
    assert triple_processor(triple) == processor


@pytest.mark.parametrize(
    ("target", "old"),
    [
        (("amdgpu9.0a-amd-amdhsa", ""), ("amdgcn-amd-amdhsa", "gfx90a")),
        (("amdgpu-amd-amdhsa", "gfx90a:xnack+"), ("amdgcn-amd-amdhsa", "gfx90a:xnack+")),
        (("amdgpu9.0a-amd-amdhsa", ":xnack+"), ("amdgcn-amd-amdhsa", "gfx90a:xnack+")),
        (("amdgpu9.0a-amd-amdhsa-", "generic"), ("amdgcn-amd-amdhsa-", "gfx90a")),
        (("amdgpu9-amd-amdhsa", "gfx906"), ("amdgcn-amd-amdhsa", "gfx906")),
        (("amdgpu9.4", ""), ("amdgcn", "gfx9-4-generic")),
        (("amdgcn-amd-amdhsa", "generic"), ("amdgcn-amd-amdhsa", "generic")),
        (("amdgcn-amd-amdhsa", ""), ("amdgcn-amd-amdhsa", "")),
        (("spirv64-amd-amdhsa", ""), ("spirv64-amd-amdhsa", "")),
    ],
)
def test_the_names_of_llvm_23_become_those_of_llvm_22(target: tuple[str, str], old: tuple[str, str]) -> None:
    assert as_llvm22(*target) == old
    assert as_llvm22(*old) == old


def test_a_triple_for_amd_gpus_has_an_old_and_a_new_name_and_one_with_the_processor() -> None:
    full = "amdgpu9.0a-amd-amdhsa"
    names = {"amdgcn-amd-amdhsa", "amdgpu-amd-amdhsa", full}
    for triple, arch in ((full, ""), ("amdgpu-amd-amdhsa", "gfx90a:xnack-"), ("amdgcn-amd-amdhsa", "gfx90a")):
        found = triple_spellings(triple, arch)
        assert (found[0], set(found)) == (triple, names)
    assert triple_spellings("amdgcn-amd-amdhsa", "") == ("amdgcn-amd-amdhsa", "amdgpu-amd-amdhsa")
    assert triple_spellings("nvptx64-nvidia-cuda", "sm_90") == ("nvptx64-nvidia-cuda",)


@pytest.mark.parametrize(
    "line", [line for line in load_vocabulary().amd.values() if line.triple], ids=lambda line: line.name
)
def test_every_processor_is_spelled_in_the_triple_as_the_vocabulary_says(line: AmdName) -> None:
    triple = f"amdgpu{line.triple}-amd-amdhsa"
    assert triple_spellings("amdgcn-amd-amdhsa", line.name) == ("amdgcn-amd-amdhsa", "amdgpu-amd-amdhsa", triple)
    assert as_llvm22(triple, "") == ("amdgcn-amd-amdhsa", line.name)


def test_only_the_architecture_word_makes_a_triple_one_for_amd_or_nvidia() -> None:
    assert is_amdgpu("amdgcn-amd-amdhsa")
    assert is_amdgpu("amdgpu9.0a")
    assert not is_amdgpu("spirv64-amd-amdhsa")
    assert is_nvptx("nvptx-nvidia-cuda")
    assert not is_nvptx("spir64-nvidia-cuda")


def test_taking_out_the_instruction_set_leaves_the_rest() -> None:
    assert sub_architecture("amdgpu9.0a-amd-amdhsa") == "9.0a"
    assert without_sub_architecture("amdgpu9.0a-amd-amdhsa") == "amdgpu-amd-amdhsa"
    assert without_sub_architecture("amdgpu9.0a") == "amdgpu"
    assert without_sub_architecture("amdgcn-amd-amdhsa") == "amdgcn-amd-amdhsa"


@pytest.mark.parametrize(
    ("first", "second", "answer"),
    [
        ("x86_64-w64-windows-gnu", "x86_64-pc-windows-gnu", True),
        ("x86_64-w64-windows-msvc", "x86_64-pc-windows-msvc", False),
        ("x86_64-pc-linux-gnu", "x86_64-suse-linux-gnu", False),
        ("x86_64-pc-windows-gnu", "x86_64-pc-windows-msvc", False),
        ("x86_64-w64-windows-gnu", "aarch64-w64-windows-gnu", False),
        ("arm64-apple-ios", "arm64-apple-ios-simulator", True),
    ],
)
def test_llvm_ignores_the_vendor_of_mingw_alone(first: str, second: str, answer: bool) -> None:
    one, other = parse_llvm_triple(first), parse_llvm_triple(second)
    assert (one.is_compatible(other), other.is_compatible(one)) == (answer, answer)
