"""Assignment of modules to requests, with the messages of cir-offload-merge."""

from __future__ import annotations

import pytest
from tests.builders.cir import HOST, SM_80, SM_90, combined, parsed

from fatpack.errors import UsageError
from fatpack.formats import cir
from fatpack.formats.cir.bundle_id import fits, id_for, parse_bundle_id, refusal_reason
from fatpack.model import Container, Target

GFX = "hip-amdgcn-amd-amdhsa--gfx90a"


@pytest.mark.parametrize(
    ("stored", "requested", "answer"),
    [
        (SM_80, SM_80, True),
        (SM_80, "cuda-nvptx64-nvidia-cuda-unknown-sm_80", True),
        (SM_80, SM_90, False),
        (SM_80, "hip-nvptx64-nvidia-cuda--sm_80", False),
        (GFX, f"{GFX}:xnack+", True),
        (f"{GFX}:xnack+", GFX, False),
        (f"{GFX}:xnack+", f"{GFX}:sramecc-:xnack+", True),
        (f"{GFX}:xnack+", f"{GFX}:xnack-", False),
        (GFX, GFX.replace("hip-", "hipv4-"), True),
        (GFX, GFX.replace("gfx90a", "gfx908"), False),
        (GFX, GFX.replace("hip-", "openmp-"), False),
        (HOST, "host-x86_64-unknown-linux-gnu-", True),
        (HOST, "host-x86_64-unknown-linux-musl", False),
        (HOST, "host-amd64-unknown-linux-gnu", True),
        ("cuda-nvptx64-nvidia-cuda-sm_80", "cuda-nvptx64-nvidia-cuda-sm_90", False),
        ("hip-amdgpu9.0a-amd-amdhsa--", "hip-amdgcn-amd-amdhsa--gfx90a", True),
        ("hip-amdgcn-amd-amdhsa--gfx90a", "hipv4-amdgpu9.0a-amd-amdhsa--", True),
        ("hip-amdgpu9.0a-amd-amdhsa--", "hip-amdgpu-amd-amdhsa--gfx908", False),
        ("hip-amdgcn-amd-amdhsa--gfx9999", "hip-amdgcn-amd-amdhsa--gfx9998", False),
    ],
)
def test_a_module_fits_a_request(stored: str, requested: str, answer: bool) -> None:
    assert fits(stored, requested) is answer


@pytest.mark.parametrize(
    ("spelling", "kind", "triple", "arch", "offload"),
    [
        (SM_80, "cuda", "nvptx64-nvidia-cuda", "sm_80", "cuda"),
        ("cuda-nvptx64-nvidia-cuda-unknown-sm_80", "cuda", "nvptx64-nvidia-cuda-unknown", "sm_80", "cuda"),
        ("cuda-nvptx64-nvidia-cuda-sm_80", "cuda", "nvptx64-nvidia-cuda", "sm_80", "cuda"),
        (HOST, "host", "x86_64-unknown-linux-gnu", "", "host"),
        ("hipv4-amdgcn-amd-amdhsa--gfx90a:xnack+", "hipv4", "amdgcn-amd-amdhsa", "gfx90a:xnack+", "hip"),
        ("hip-amdgcn-amd-amdhsa--gfx9-4-generic", "hip", "amdgcn-amd-amdhsa", "gfx9-4-generic", "hip"),
        ("sycl-spir64-unknown-unknown", "sycl", "spir64-unknown-unknown", "", "kind sycl (unknown)"),
        ("", "", "", "", "none"),
        ("x", "x", "", "", "kind x (unknown)"),
    ],
)
def test_an_id_is_taken_apart(spelling: str, kind: str, triple: str, arch: str, offload: str) -> None:
    found = parse_bundle_id(spelling)
    assert (found.kind, found.triple, found.arch) == (kind, triple, arch)
    assert found.target == Target(triple, arch, offload, spelling)


@pytest.mark.parametrize(
    ("spelling", "what"),
    [
        (SM_80, ""),
        (HOST, ""),
        ("host-x86_64-unknown-linux", "4 of the five parts"),
        ("sycl-spir64-unknown-unknown-", "kind 'sycl'"),
        ("cuda--nvidia-cuda-", "no architecture"),
        ("", "1 of the five parts"),
    ],
)
def test_a_wrong_id_is_explained(spelling: str, what: str) -> None:
    assert what in refusal_reason(spelling)
    assert bool(refusal_reason(spelling)) is bool(what)


def test_an_id_that_is_spelled_somewhere_is_kept() -> None:
    assert id_for(Target("x", "y", "cuda", SM_80)) == SM_80


def container(*ids: str) -> Container:
    return parsed(combined(*(("module {\n}\n", spelling) for spelling in ids)))


def test_every_target_gets_its_module_and_others_are_passed_over() -> None:
    found = cir.assign_targets(container(HOST, SM_80, SM_90), [SM_90, HOST])
    assert [image.attrs["id"] for image in found] == [SM_90, HOST]


def test_an_exact_id_beats_one_that_only_fits() -> None:
    both = container(HOST, GFX, f"{GFX}:xnack+")
    found = cir.assign_targets(both, [f"{GFX}:xnack+", GFX])
    assert [image.attrs["id"] for image in found] == [f"{GFX}:xnack+", GFX]
    assert [image.attrs["id"] for image in cir.assign_targets(both, [f"{GFX}:xnack+"])] == [f"{GFX}:xnack+"]
    assert [image.attrs["id"] for image in cir.assign_targets(container(HOST, GFX), [f"{GFX}:xnack+"])] == [GFX]


@pytest.mark.parametrize(
    ("ids", "targets", "sentence"),
    [
        ((HOST, SM_80), (SM_80, SM_80), f"duplicate target '{SM_80}'"),
        ((HOST, SM_80), ("sm_80",), "invalid target 'sm_80'"),
        ((HOST, SM_80), (SM_90,), f"can't find module for target '{SM_90}'"),
        (
            (HOST, GFX),
            (f"{GFX}:xnack+", f"{GFX}:xnack-"),
            f"module bundle ID '{GFX}' matches multiple requested targets",
        ),
        (
            (HOST, f"{GFX}:xnack+", f"{GFX}:sramecc+"),
            (f"{GFX}:sramecc+:xnack+",),
            f"multiple modules match target '{GFX}:sramecc+:xnack+'",
        ),
    ],
)
def test_what_cannot_be_routed_is_refused_in_the_words_of_the_tool(
    ids: tuple[str, ...], targets: tuple[str, ...], sentence: str
) -> None:
    with pytest.raises(UsageError) as caught:
        cir.assign_targets(container(*ids), targets)
    assert caught.value.problem == sentence


def test_the_rule_of_the_tool_takes_an_exact_id_for_ambiguous() -> None:
    both = container(HOST, GFX, f"{GFX}:xnack+")
    with pytest.raises(UsageError, match="matches multiple requested targets"):
        cir.assign_targets(both, [GFX, f"{GFX}:xnack+"], exact_first=False)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ((f'cir.offload.bundle_id = "{SM_90}", ', ""), "nested module is missing 'cir.offload.bundle_id'"),
        ((SM_90, SM_80), f"duplicate module bundle ID '{SM_80}'"),
        ((SM_90, "sm_90"), "invalid module bundle ID 'sm_90'"),
    ],
)
def test_modules_without_a_usable_id_are_refused(change: tuple[str, str], sentence: str) -> None:
    text = combined(*(("module {\n}\n", spelling) for spelling in (HOST, SM_80, SM_90))).decode()
    with pytest.raises(UsageError) as caught:
        cir.assign_targets(parsed(text.replace(*change)), [HOST])
    assert caught.value.problem == sentence
