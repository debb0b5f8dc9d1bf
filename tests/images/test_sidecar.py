"""Metadata beside an image: its facts, from every producer, and its contradictions to the image."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.laws.rooms import FIXTURES

from fatpack import images
from fatpack.errors import BadValue, LimitExceeded
from fatpack.images import ImageInfo, sidecar
from fatpack.images.kernel import KernelNeeds
from fatpack.images.sidecar import SidecarClaims
from fatpack.io.open import open_source

CACHES = sorted(path for path in (FIXTURES / "triton").glob("*/*") if path.suffix in (".cubin", ".hsaco"))

CUBIN = ImageInfo("cubin", arch="sm_90a", triple="nvptx64-nvidia-cuda")
CODE_OBJECT = ImageInfo("code-object", arch="gfx942:sramecc+:xnack-", triple="amdgcn-amd-amdhsa")
PTX = ImageInfo("ptx", arch="sm_80", triple="nvptx64-nvidia-cuda")
SPIRV = ImageInfo("spirv", triple="spirv64")


def claims(**values: object) -> SidecarClaims | None:
    return sidecar.read_sidecar(json.dumps(values).encode())


def triton(**values: object) -> SidecarClaims:
    found = claims(**{"num_warps": 4, "name": "k", **values})
    assert found is not None
    return found


def problems(claimed: SidecarClaims, recognised: ImageInfo, *kernels: KernelNeeds) -> list[tuple[str, str]]:
    return [
        *sidecar.target_problems(claimed, recognised),
        *sidecar.kernel_problems(claimed, recognised, kernels),
    ]


@pytest.mark.parametrize("path", CACHES, ids=lambda path: path.parent.name)
def test_what_triton_wrote_agrees_with_the_image_it_made(path: Path) -> None:
    claimed = sidecar.read_sidecar((path.parent / sidecar.sidecar_name(path.name)).read_bytes())
    assert claimed is not None
    assert (claimed.producer, claimed.arch, claimed.kernel) == ("Triton", path.parent.name, "sum_kernel")
    assert claimed.threads == 8 * (claimed.warp_size or 0) > 0
    with open_source(path) as source:
        recognised = images.identify_image(source.view())
        kernels = images.kernel_facts(source.view(), recognised.form)
    assert problems(claimed, recognised, *kernels) == []


@pytest.mark.parametrize("path", CACHES, ids=lambda path: path.parent.name)
@pytest.mark.parametrize("other", CACHES, ids=lambda path: path.parent.name)
def test_the_metadata_of_another_target_is_reported(path: Path, other: Path) -> None:
    claimed = sidecar.read_sidecar((other.parent / sidecar.sidecar_name(other.name)).read_bytes())
    assert claimed is not None
    with open_source(path) as source:
        found = list(sidecar.target_problems(claimed, images.identify_image(source.view())))
    assert [code for code, _ in found] == ([] if path == other else ["FP1111"])


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (
            {"target": {"backend": "cuda", "arch": 90, "warp_size": 32}, "shared": 16},
            SidecarClaims("Triton", "nvptx64-nvidia-cuda", "sm_90", "k", 32, 128, 16),
        ),
        (
            {"target": {"backend": "hip", "arch": "gfx942:xnack-", "warp_size": 64}},
            SidecarClaims("Triton", "amdgcn-amd-amdhsa", "gfx942", "k", 64, 256),
        ),
        (
            {"target": {"backend": "xpu", "arch": {"gpu_eu_count": 448}}},
            SidecarClaims("Triton", "spir64-unknown-unknown", "", "k"),
        ),
        # Triton 2.2, then 2.1
        (
            {"target": {"capability": 80}, "device_type": "cuda"},
            SidecarClaims("Triton", "nvptx64-nvidia-cuda", "sm_80", "k", None, 128),
        ),
        ({"arch": 80, "device_type": "cuda"}, SidecarClaims("Triton", "nvptx64-nvidia-cuda", "sm_80", "k", None, 128)),
        # values of an unexpected type are ignored
        ({"target": ["cuda"], "name": 3, "shared": "16", "num_warps": True}, SidecarClaims("Triton")),
        ({"shared": -1, "target": {"arch": "sm_ninety"}}, SidecarClaims("Triton", kernel="k")),
    ],
)
def test_what_triton_writes(values: dict[str, Any], expected: SidecarClaims) -> None:
    assert triton(**values) == expected


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"AOTI_DEVICE_KEY": "cuda", "AOTI_COMPUTE_CAPABILITY": "89"}, ("nvptx64-nvidia-cuda", "sm_89")),
        ({"AOTI_DEVICE_KEY": "cuda", "AOTI_COMPUTE_CAPABILITY": "gfx90a"}, ("amdgcn-amd-amdhsa", "gfx90a")),
        ({"AOTI_DEVICE_KEY": "cuda"}, ("", "")),
        ({"AOTI_DEVICE_KEY": "cpu", "AOTI_COMPUTE_CAPABILITY": ""}, ("", "")),
        ({"AOTI_DEVICE_KEY": "xpu"}, ("spir64-unknown-unknown", "")),
    ],
)
def test_what_inductor_writes(values: dict[str, Any], expected: tuple[str, str]) -> None:
    found = claims(**values)
    assert found is not None
    assert (found.producer, found.triple, found.arch) == ("AOTInductor", *expected)


@pytest.mark.parametrize("data", [b"[]", b"3", b'{"version": 1}', b'{"name": "package", "target": "es2020"}'])
def test_json_of_another_kind_says_nothing(data: bytes) -> None:
    assert sidecar.read_sidecar(data) is None


@pytest.mark.parametrize("data", [b"", b"{", b"\xff\xfe", b"[" * 200_000, b"1" * 10_000, b'{"a": 1} x'])
def test_what_is_no_json_is_refused(data: bytes) -> None:
    with pytest.raises(BadValue, match="no JSON"):
        sidecar.read_sidecar(data)


@pytest.mark.parametrize("field", ["num_warps", "warp_size", "shared"])
def test_numbers_that_no_launch_has_are_not_stated(field: str) -> None:
    said = triton(**{"num_warps": 10**4200, "warp_size": 10**4200, "shared": 1, field: 1 << 32})
    assert (said.threads, said.warp_size, said.shared) == (None, None, None if field == "shared" else 1)
    said = triton(num_warps=(1 << 32) - 1, warp_size=32)
    assert said.threads == 32 * ((1 << 32) - 1)


def test_a_large_file_is_not_read() -> None:
    with pytest.raises(LimitExceeded):
        sidecar.read_sidecar(b" " * (sidecar.MAX_SIDECAR_SIZE + 1))


@given(
    st.binary(max_size=40)
    | st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=8),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["target", "arch", "backend", "num_warps", "name", "shared", "AOTI_DEVICE_KEY"]), inner
            )
        ),
    ).map(lambda value: json.dumps(value).encode())
)
def test_any_bytes_give_claims_or_a_precise_error(data: bytes) -> None:
    try:
        found = sidecar.read_sidecar(data)
    except BadValue:
        return
    for recognised in (CUBIN, CODE_OBJECT, PTX, SPIRV, ImageInfo("")):
        if found is not None:
            assert all(text for _, text in problems(found, recognised, KernelNeeds("k", shared=8, max_threads=1)))


@pytest.mark.parametrize(
    ("target", "recognised", "text"),
    [
        ({"backend": "cuda", "arch": 90}, CUBIN, ""),
        ({"backend": "cuda", "arch": 80}, CUBIN, "says sm_80, and the image is a cubin for sm_90a"),
        (
            {"backend": "cuda", "arch": 90},
            CODE_OBJECT,
            "says sm_90, and the image is a code object for gfx942:sramecc+:xnack-",
        ),
        ({"backend": "hip", "arch": "gfx942"}, CODE_OBJECT, ""),
        (
            {"backend": "hip", "arch": "gfx90a"},
            CODE_OBJECT,
            "says gfx90a, and the image is a code object for gfx942:sramecc+:xnack-",
        ),
        ({"backend": "hip", "arch": "gfx942"}, CUBIN, "says gfx942, and the image is a cubin for sm_90a"),
        # A device of sm_90 compiles PTX for sm_80 itself; one of sm_75 cannot.
        ({"backend": "cuda", "arch": 90}, PTX, ""),
        ({"backend": "cuda", "arch": 75}, PTX, "says sm_75, and the image is PTX for sm_80"),
        ({"backend": "xpu"}, SPIRV, ""),
        ({"backend": "xpu"}, CUBIN, "says spir64-unknown-unknown, and the image is a cubin for sm_90a"),
        ({"arch": 90}, CODE_OBJECT, "says sm_90, and the image is a code object for gfx942:sramecc+:xnack-"),
    ],
)
def test_targets_that_agree_and_that_do_not(target: dict[str, Any], recognised: ImageInfo, text: str) -> None:
    assert problems(triton(target=target), recognised) == ([("FP1111", text)] if text else [])


@pytest.mark.parametrize(
    ("values", "kernel", "text"),
    [
        ({}, KernelNeeds("k"), ""),
        ({}, KernelNeeds("k", max_threads=128), ""),
        ({}, KernelNeeds("k", max_threads=64), "says 128 threads, and k allows 64"),
        ({}, KernelNeeds("k", required_threads=(64, 2, 1)), ""),
        ({}, KernelNeeds("k", required_threads=(64, 1, 1)), "says 128 threads, and k requires 64"),
        ({}, KernelNeeds("k", wavefront=64), "says warps of 32 threads, and k is made for 64"),
        ({"shared": 0}, KernelNeeds("k", shared=1024), ""),  # what the system reserves
        ({"shared": 0}, KernelNeeds("k", shared=1032), "says 0 bytes of shared memory, and k has 8 of its own"),
        ({"shared": 8}, KernelNeeds("k", shared=1032), ""),
        ({"shared": 4096}, KernelNeeds("k", shared=8), ""),  # dynamic memory comes on top
    ],
)
def test_launches_that_the_kernel_allows_and_that_it_does_not(
    values: dict[str, Any], kernel: KernelNeeds, text: str
) -> None:
    claimed = triton(target={"backend": "cuda", "arch": 90, "warp_size": 32}, **values)
    assert problems(claimed, CUBIN, kernel) == ([("FP1113", text)] if text else [])


def test_a_kernel_that_the_image_does_not_have() -> None:
    assert problems(triton(name="other"), CUBIN, KernelNeeds("k"), KernelNeeds("l")) == [
        ("FP1112", "says kernel other, and the image has k and 1 more")
    ]
    assert problems(triton(name="other"), CUBIN) == []  # no kernel is shown


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("add.cubin", "add.json"),
        ("add.v2.hsaco", "add.v2.json"),
        ("add.ptx", "add.json"),
        ("add.json", ""),
        ("add", ""),
        (".cubin", ""),
        ("package.so", ""),
    ],
)
def test_the_name_of_the_metadata_follows_from_that_of_the_image(name: str, expected: str) -> None:
    assert sidecar.sidecar_name(name) == expected
