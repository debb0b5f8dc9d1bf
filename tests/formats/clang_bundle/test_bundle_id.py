"""IDs of every producer, and the rules for them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fatpack.errors import UsageError
from fatpack.formats.clang_bundle.bundle_id import (
    conflict_llvm22,
    find_id_conflicts,
    id_for,
    is_compatible_id,
    is_compatible_id_llvm22,
    parse_bundle_id,
    refusal_llvm22,
    stored_by_llvm22,
    stored_id,
)
from fatpack.model import Target
from fatpack.targets import llvm_triple
from fatpack.targets.llvm_triple import normalize_triple
from fatpack.targets.vocabulary import load_vocabulary


@pytest.mark.parametrize(
    ("spelling", "offload", "triple", "arch"),
    [
        ("host-x86_64-unknown-linux", "host", "x86_64-unknown-linux", ""),
        ("host-x86_64-unknown-linux--", "host", "x86_64-unknown-linux", ""),
        ("host-x86_64-unknown-linux-gnu-", "host", "x86_64-unknown-linux-gnu", ""),
        ("host-x86_64-pc-linux-gnu-", "host", "x86_64-pc-linux-gnu", ""),
        ("hip-amdgcn-amd-amdhsa-gfx906", "hip", "amdgcn-amd-amdhsa", "gfx906"),
        ("hip-amdgcn-amd-amdhsa-gfx906:xnack-", "hip", "amdgcn-amd-amdhsa", "gfx906:xnack-"),
        ("hip-amdgcn-amd-amdhsa-gfx9-4-generic:xnack+", "hip", "amdgcn-amd-amdhsa", "gfx9-4-generic:xnack+"),
        ("hipv4-amdgcn-amd-amdhsa--gfx90a:sramecc+:xnack-", "hip", "amdgcn-amd-amdhsa", "gfx90a:sramecc+:xnack-"),
        ("hipv4-amdgcn-amd-amdhsa--gfx9-4-generic", "hip", "amdgcn-amd-amdhsa", "gfx9-4-generic"),
        ("hipv4-amdgcn-amd-amdhsa-unknown-gfx940", "hip", "amdgcn-amd-amdhsa-unknown", "gfx940"),
        ("hcc-amdgcn-amd-amdhsa--gfx803", "hip", "amdgcn-amd-amdhsa", "gfx803"),
        ("hip-spirv64-amd-amdhsa--amdgcnspirv", "hip", "spirv64-amd-amdhsa", "amdgcnspirv"),
        ("openmp-nvptx64-nvidia-cuda-unknown-sm_70", "openmp", "nvptx64-nvidia-cuda-unknown", "sm_70"),
        ("openmp-nvptx64-nvidia-cuda--sm_70", "openmp", "nvptx64-nvidia-cuda", "sm_70"),
        ("openmp-nvptx64-nvidia-cuda-sm_70", "openmp", "nvptx64-nvidia-cuda", "sm_70"),
        ("sycl-spir64-unknown-unknown", "sycl", "spir64-unknown-unknown", ""),
        ("sycl-spir64-unknown-unknown-sycldevice", "sycl", "spir64-unknown-unknown-sycldevice", ""),
        ("sycl-spir64_gen-unknown-unknown-pvc", "sycl", "spir64_gen-unknown-unknown", "pvc"),
        ("sycl-spir64_gen", "sycl", "spir64_gen", ""),
        ("fpga-fpga_aocx-intel-unknown", "sycl", "fpga_aocx-intel-unknown", ""),
        ("host-x86_64-unknown-linux-gnu-host-x86_64-unknown-linux-gnu-", "host", "x86_64-unknown-linux-gnu", ""),
        ("host-x86_64-unknown-linux-gnu-x86-64-v2", "host", "x86_64-unknown-linux-gnu", "x86-64-v2"),
        ("warp-drive", "kind warp (unknown)", "drive", ""),
        ("nothing", "kind nothing (unknown)", "", ""),
        ("", "none", "", ""),
        ("-", "none", "", ""),
    ],
)
def test_ids_of_every_producer_are_understood(spelling: str, offload: str, triple: str, arch: str) -> None:
    assert parse_bundle_id(spelling).target == Target(triple, arch, offload, spelling)


@given(st.text(alphabet="-:+gfxsm_90aho", max_size=60) | st.text(max_size=30))
def test_no_text_is_refused_and_the_spelling_is_kept(spelling: str) -> None:
    assert parse_bundle_id(spelling).target.spelling == spelling


@pytest.mark.parametrize(
    ("typed", "stored"),
    [
        ("host-x86_64-unknown-linux-gnu", "host-x86_64-unknown-linux-gnu-"),
        ("host-x86_64-unknown-linux--", "host-x86_64-unknown-linux-unknown-"),
        ("host-x86_64-linux-gnu-", "host-x86_64-unknown-linux-gnu-"),
        ("hip-amdgcn-amd-amdhsa-unknown-gfx906", "hip-amdgcn-amd-amdhsa--gfx906"),
        ("hip-amdgcn--amdhsa--gfx906", "hip-amdgcn-unknown-amdhsa--gfx906"),
        ("openmp-nvptx64-nvidia-cuda--sm_70", "openmp-nvptx64-nvidia-cuda-unknown-sm_70"),
        ("host-x86_64-w64-mingw32--", "host-x86_64-w64-windows-gnu-"),
        ("hip-amdgcn-amd-amdhsa--gfx906:xnack+:", "hip-amdgcn-amd-amdhsa--gfx906:xnack+:"),
    ],
)
def test_both_normal_forms_are_that_of_llvm_22(typed: str, stored: str) -> None:
    assert stored_by_llvm22(typed) == stored_id(typed) == stored


@pytest.mark.parametrize(
    ("typed", "llvm", "ours"),
    [
        ("hip-amdgcn-amd-amdhsa-gfx906", "hip-amdgcn-amd-amdhsa--", "hip-amdgcn-amd-amdhsa--gfx906"),
        ("hip-amdgcn-amd-amdhsa--gfx940", "hip-amdgcn-amd-amdhsa--", "hip-amdgcn-amd-amdhsa--gfx940"),
        ("hip-amdgcn-amd-amdhsa-gfx9-4-generic", "hip-amdgcn-amd-amdhsa--", "hip-amdgcn-amd-amdhsa--gfx9-4-generic"),
        (
            "openmp-nvptx64-nvidia-cuda-sm_70",
            "openmp-nvptx64-nvidia-cuda-sm_70-",
            "openmp-nvptx64-nvidia-cuda-unknown-sm_70",
        ),
        (
            "host-x86_64-unknown-linux-gnu-x86-64-v2",
            "host-x86_64-unknown-linux-gnu-",
            "host-x86_64-unknown-linux-gnu-x86-64-v2",
        ),
    ],
)
def test_processors_that_llvm_22_loses_are_kept_by_fatpack(typed: str, llvm: str, ours: str) -> None:
    assert (stored_by_llvm22(typed), stored_id(typed)) == (llvm, ours)


@pytest.mark.parametrize("typed", ["sycl-spir64-unknown-unknown", "sycl-spir64_gen-unknown-unknown-pvc", "x", ""])
def test_what_llvm_22_would_refuse_is_stored_as_typed(typed: str) -> None:
    assert stored_id(typed) == typed


@given(st.lists(st.sampled_from(["hip", "amdgcn", "x86_64", "amd", "linux", "windows", "gnu", "", "elf"]), min_size=5))
def test_our_normal_form_is_its_own(parts: list[str]) -> None:
    once = stored_id("-".join(parts[:6]))
    assert stored_id(once) == once


def test_normal_forms_have_the_parts_asked_for() -> None:
    assert normalize_triple("x86_64", 3) == "x86_64-unknown-unknown"
    assert normalize_triple("arm-none-eabi-", 4) == "arm-unknown-none-eabi"
    assert normalize_triple("armv7-suse-linux-gnueabi") == "armv7-suse-linux-gnueabihf"
    assert normalize_triple("aarch64-unknown-linux-androideabi21") == "aarch64-unknown-linux-android21"
    assert normalize_triple("x86_64-pc-win32-macho") == "x86_64-pc-windows-macho"


@pytest.mark.parametrize(
    ("target", "stored"),
    [
        (Target("amdgcn-amd-amdhsa", "gfx90a:xnack-", "hip"), "hipv4-amdgcn-amd-amdhsa--gfx90a:xnack-"),
        (Target("amdgcn-amd-amdhsa--", "gfx940", "openmp"), "openmp-amdgcn-amd-amdhsa--gfx940"),
        (Target("nvptx64-nvidia-cuda", "sm_90a", "openmp"), "openmp-nvptx64-nvidia-cuda-unknown-sm_90a"),
        (Target("x86_64-unknown-linux-gnu", "", "host"), "host-x86_64-unknown-linux-gnu-"),
        (Target("spir64", "", "sycl"), "sycl-spir64-unknown-unknown-unknown-"),
    ],
)
def test_targets_of_other_containers_get_an_id(target: Target, stored: str) -> None:
    assert id_for(target) == stored


def test_a_programming_model_without_a_kind_is_refused() -> None:
    with pytest.raises(UsageError, match="cannot name the programming model 'cuda'"):
        id_for(Target("nvptx64-nvidia-cuda", "sm_90", "cuda"))


HIP = "hip-amdgcn-amd-amdhsa--"


@pytest.mark.parametrize(
    ("entry", "request_", "llvm", "ours"),
    [
        (f"{HIP}gfx906", f"{HIP}gfx906:xnack+", True, True),
        (f"{HIP}gfx906:xnack+", f"{HIP}gfx906", False, False),
        (f"{HIP}gfx906:xnack+", f"{HIP}gfx906:xnack-", False, False),
        (f"{HIP}gfx906:xnack+", f"{HIP}gfx906:sramecc-:xnack+", True, True),
        (f"{HIP}gfx906", f"hipv4-{HIP[4:]}gfx906", True, True),
        (f"{HIP}gfx906", f"openmp-{HIP[4:]}gfx906", False, False),
        (f"{HIP}gfx9-generic", f"{HIP}gfx906", False, False),
        (f"{HIP}gfx1030:xnack+", f"{HIP}gfx1030:xnack+", True, True),
        ("host-amd64-unknown-linux-gnu-", "host-x86_64-redhat-linux-gnu", True, True),
        ("host-x86_64-pc-linux-gnu-", "host-x86_64-unknown-linux-gnu", False, False),
        # Unknown processors: all the same to LLVM 22.
        (f"{HIP}gfx941", f"{HIP}gfx940", True, False),
        (f"{HIP}gfx940", f"{HIP}gfx940", True, True),
        (f"{HIP}gfx940", f"hipv4-{HIP[4:]}gfx940", False, True),
        ("hip-amdgcn-amd-amdhsa-gfx906", f"{HIP}gfx906", False, True),
        # LLVM 23's names of the triple, which LLVM 22 does not know.
        ("hip-amdgpu-amd-amdhsa--gfx90a", f"{HIP}gfx90a", False, True),
        ("hipv4-amdgpu-amd-amdhsa--gfx90a", f"{HIP}gfx90a:xnack+", False, True),
        (f"{HIP}gfx90a", "hip-amdgpu-amd-amdhsa--gfx90a", False, True),
        ("hip-amdgpu9.0a-amd-amdhsa--", f"{HIP}gfx90a", False, True),
        ("hip-amdgpu9.0a-amd-amdhsa--", f"{HIP}gfx908", False, False),
        ("hip-amdgpu9.0a-amd-amdhsa--", "hip-amdgpu-amd-amdhsa--gfx90a:xnack-", False, True),
        (f"{HIP}gfx90a:xnack+", "hip-amdgpu9.0a-amd-amdhsa--", False, False),
        (f"{HIP}gfx90a", "hip-amdgpu9.0a-amd-amdpal--", False, False),
        ("hip-amdgpu9-amd-amdhsa--", f"{HIP}gfx900", False, False),
    ],
)
def test_which_entries_serve_which_requests(entry: str, request_: str, llvm: bool, ours: bool) -> None:
    assert (is_compatible_id_llvm22(entry, request_), is_compatible_id(entry, request_)) == (llvm, ours)


def test_openmp_may_take_hip_when_asked_to() -> None:
    entry, request_ = f"{HIP}gfx906", f"openmp-{HIP[4:]}gfx906"
    assert is_compatible_id(entry, request_, hip_openmp=True)
    assert is_compatible_id_llvm22(request_, entry, hip_openmp=True)


def test_old_ids_are_compared_by_us_and_stop_llvm_22() -> None:
    assert is_compatible_id("host-x86_64-unknown-linux", "host-x86_64-unknown-linux--")
    with pytest.raises(UsageError, match="fewer than five parts"):
        is_compatible_id_llvm22("host-x86_64-unknown-linux", "host-x86_64-unknown-linux--")


@pytest.mark.parametrize(
    ("arches", "llvm", "ours"),
    [
        (["gfx906", "gfx906:xnack+"], ("gfx906", "gfx906:xnack+"), ["xnack"]),
        (["gfx906:xnack+", "gfx906:xnack-"], None, []),
        (["gfx906:xnack+", "gfx908"], None, []),
        # QUIRK: the one that sorts first has the feature that the later one lacks.
        (["gfx906:sramecc+:xnack+", "gfx906:xnack+"], None, ["sramecc"]),
    ],
)
def test_conflicts_from_one_side_and_from_both(
    arches: list[str], llvm: tuple[str, str] | None, ours: list[str]
) -> None:
    ids = [HIP + arch for arch in arches]
    expected = (HIP + llvm[0], HIP + llvm[1]) if llvm else None
    assert conflict_llvm22(ids) == expected
    assert [conflict.feature for conflict in find_id_conflicts(ids)] == ours


def test_hip_and_hipv4_do_not_conflict() -> None:
    ids = [f"{HIP}gfx906", f"hipv4-{HIP[4:]}gfx906:xnack+"]
    assert conflict_llvm22(ids) is None
    assert find_id_conflicts(ids) == []


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("hip-amdgcn-amd-amdhsa--gfx906", ""),
        ("hip-foo-bar", "Targets need to follow the format "),
        (
            "cuda-x86_64-unknown-linux-gnu",
            "invalid target 'cuda-x86_64-unknown-linux-gnu', unknown offloading kind 'cuda'",
        ),
        (
            "x-x86-a-b-c-d",
            "invalid target 'x-x86-a-b-c-d', unknown offloading kind 'x', unknown target triple 'x86-a-b-c'",
        ),
    ],
)
def test_refusals_are_worded_as_llvm_22_words_them(target: str, message: str) -> None:
    assert refusal_llvm22(target).startswith(message)
    assert bool(refusal_llvm22(target)) == bool(message)


def test_the_words_agree_with_the_vocabulary_of_targets() -> None:
    known = load_vocabulary()
    accepted = {name for name, line in known.nvidia.items() if line.clang22 and name.startswith("sm_")}
    accepted |= {line.name for line in known.amd.values() if line.clang22}
    accepted |= {name for name, line in known.intel.items() if line.clang22}
    assert accepted | {"generic"} == llvm_triple.PROCESSORS_LLVM22
    for feature, having in llvm_triple.FEATURES.items():
        assert {line.name for line in known.amd.values() if line.clang22 and feature in line.features} == having
