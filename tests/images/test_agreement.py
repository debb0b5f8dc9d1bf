"""Contradictions between an image and its container's metadata."""

from __future__ import annotations

import pytest

from fatpack.images import ImageInfo
from fatpack.images.container_mismatch import mismatch_findings
from fatpack.model import Target
from fatpack.testing.helpers import make_image

NVIDIA, AMD = "nvptx64-nvidia-cuda", "amdgcn-amd-amdhsa"


def cubin(arch: str) -> ImageInfo:
    return ImageInfo("cubin", arch, NVIDIA)


def ptx(arch: str) -> ImageInfo:
    return ImageInfo("ptx", arch, NVIDIA)


def code_object(arch: str) -> ImageInfo:
    return ImageInfo("code-object", arch, AMD)


AGREE = [
    (NVIDIA, "sm_90", cubin("sm_90")),
    (NVIDIA, "sm_90a", cubin("sm_90a")),
    (NVIDIA, "sm_100f", cubin("sm_100")),
    (NVIDIA, "compute_90", cubin("sm_90")),
    (NVIDIA, "", cubin("sm_90")),
    (NVIDIA, "generic", cubin("sm_90")),
    (NVIDIA, "some_new_name", cubin("sm_90")),
    (NVIDIA, "sm_future", cubin("sm_90")),
    (NVIDIA, "sm_90", cubin("")),
    (NVIDIA, "sm_80,sm_90", cubin("sm_90")),
    ("", "sm_90", cubin("sm_90")),
    ("some-unknown-triple", "sm_90", cubin("sm_90")),
    (NVIDIA, "sm_80", ptx("sm_80")),
    (NVIDIA, "compute_80", ptx("sm_80")),
    (NVIDIA, "sm_90", ptx("sm_80")),
    (NVIDIA, "sm_100", ptx("sm_90")),
    (NVIDIA, "sm_90a", ptx("sm_90a")),
    (NVIDIA, "sm_90a", ptx("sm_90")),
    (AMD, "gfx90a", code_object("gfx90a")),
    (AMD, "gfx90a", code_object("gfx90a:sramecc+:xnack-")),
    (AMD, "gfx90a:xnack+", code_object("gfx90a")),
    (AMD, "gfx90a:xnack+:sramecc-", code_object("gfx90a:sramecc-:xnack+")),
    (AMD, "gfx90a:xnack+", code_object("gfx90a:sramecc-")),
    (AMD, "gfx906+xnack", code_object("gfx906:xnack+")),
    (AMD, "gfx9-generic", code_object("gfx9-generic")),
    (AMD, "generic", code_object("gfx90a")),
    ("amdgpu-amd-amdhsa", "gfx90a", code_object("gfx90a")),
    ("amdgpu9.0a-amd-amdhsa", "", code_object("gfx90a:xnack+")),
    ("amdgpu9-amd-amdhsa", "", code_object("gfx900")),
    ("amdgpu9.4-amd-amdhsa", "", code_object("gfx942")),
    ("amdgpu10.30-amd-amdhsa", "", code_object("gfx1030")),
    ("x86_64-pc-linux-gnu", "generic", ImageInfo("object", triple="x86_64")),
    ("x86_64-unknown-linux-gnu", "", ImageInfo("bitcode", triple="x86_64-pc-linux-gnu")),
    ("arm64-apple-macos", "", ImageInfo("object", triple="aarch64")),
    ("i686-pc-windows-msvc", "", ImageInfo("object", triple="i386")),
    ("spir64-unknown-unknown", "", ImageInfo("spirv", triple="spirv64")),
    ("spirv64-intel", "generic", ImageInfo("spirv", triple="spirv64")),
    ("spirv64-intel", "generic", ImageInfo("object", triple="spir64_gen")),
    ("spir64_gen-unknown-unknown", "pvc", ImageInfo("object", triple="spir64_gen")),
    ("spir64_x86_64-unknown-unknown", "", ImageInfo("object", triple="x86_64")),
    ("spir64_x86_64-unknown-unknown", "", ImageInfo("spirv", triple="spirv64")),
    ("spirv64-amd-amdhsa", "amdgcnspirv", ImageInfo("spirv", triple="spirv64")),
    ("spirv64-amd-amdhsa", "amdgcnspirv", ImageInfo("bitcode", triple="spirv64-amd-amdhsa")),
    (NVIDIA, "sm_90", ImageInfo("fatbin", triple=NVIDIA)),
    (NVIDIA, "sm_90", ImageInfo("")),
    (AMD, "gfx90a", ImageInfo("empty")),
]

CONTRADICT = [
    (NVIDIA, "sm_80", cubin("sm_90"), "stored for sm_80, but the image is a cubin for sm_90"),
    (NVIDIA, "sm_10", cubin("sm_100"), "sm_100"),
    (NVIDIA, "sm_90", cubin("sm_90a"), "sm_90a"),
    (NVIDIA, "sm_90a", cubin("sm_90"), "sm_90"),
    (NVIDIA, "sm_100f", cubin("sm_100a"), "sm_100a"),
    (NVIDIA, "sm_100f", cubin("sm_103"), "sm_103"),
    (NVIDIA, "gfx90a", cubin("sm_90"), "sm_90"),
    (NVIDIA, "sm_80,sm_86", cubin("sm_90"), "stored for sm_80,sm_86, but the image is a cubin for sm_90"),
    (NVIDIA, "sm_80", ptx("sm_90"), "stored for sm_80, but the image is PTX for sm_90"),
    (NVIDIA, "compute_90", ptx("sm_90a"), "sm_90a"),
    (NVIDIA, "sm_100a", ptx("sm_100f"), "sm_100f"),
    (AMD, "gfx90a", code_object("gfx908"), "stored for gfx90a, but the image is a code object for gfx908"),
    (AMD, "gfx90a:xnack+", code_object("gfx90a:xnack-"), "gfx90a:xnack-"),
    (AMD, "gfx90a:sramecc+:xnack+", code_object("gfx90a:sramecc-"), "gfx90a:sramecc-"),
    (AMD, "gfx900", code_object("gfx9-generic"), "gfx9-generic"),
    (AMD, "sm_90", code_object("gfx90a"), "gfx90a"),
    ("amdgpu9.0a-amd-amdhsa", "", code_object("gfx908"), "stored for gfx90a"),
    (NVIDIA, "sm_90", code_object("gfx90a"), f"stored for {NVIDIA}, but the image is a code object for {AMD}"),
    (AMD, "gfx90a", cubin("sm_90"), "a cubin for nvptx64-nvidia-cuda"),
    (AMD, "", ImageInfo("bitcode", triple=NVIDIA), "bitcode for nvptx64-nvidia-cuda"),
    (AMD, "", ImageInfo("object", triple="x86_64"), "an object for x86_64"),
    ("nvptx-nvidia-cuda", "sm_90", cubin("sm_90"), "nvptx64"),
    ("spirv32-unknown-unknown", "", ImageInfo("spirv", triple="spirv64"), "SPIR-V for spirv64"),
    ("spir64_x86_64-unknown-unknown", "", cubin("sm_90"), "a cubin"),
    ("x86_64-pc-linux-gnu", "", ImageInfo("object", triple="aarch64"), "aarch64"),
]


def messages(triple, arch, recognised):
    stored = make_image(b"x", target=Target(triple, arch), form="")
    return [item.message for item in mismatch_findings(stored, recognised) if item.code in ("FP1102", "FP1103")]


@pytest.mark.parametrize(("triple", "arch", "recognised"), AGREE)
def test_nothing_is_reported_when_the_image_may_be_what_was_stored(triple, arch, recognised):
    assert messages(triple, arch, recognised) == []


@pytest.mark.parametrize(("triple", "arch", "recognised", "words"), CONTRADICT)
def test_a_sentence_tells_both_sides_of_a_contradiction(triple, arch, recognised, words):
    sentence = messages(triple, arch, recognised)[0]
    assert words in sentence
    assert sentence.startswith("stored for ")


@pytest.mark.parametrize(
    ("stored", "neighbour", "expected"),
    [("sm_100", "sm_100", 0), ("sm_100f", "sm_100f", 0), ("sm_100", "sm_103", 1), ("sm_103", "sm_103", 1)],
)
def test_a_cubin_beside_the_tile_ir_it_was_made_of_may_be_for_the_variant_a(stored, neighbour, expected):
    made = make_image(b"x", target=Target(NVIDIA, stored), form="cubin")
    others = [made, make_image(b"y", target=Target(NVIDIA, neighbour), form="tileir")]
    codes = [item.code for item in mismatch_findings(made, cubin("sm_100a"), others)]
    assert codes == ["FP1102"] * expected
    assert [item.code for item in mismatch_findings(made, cubin("sm_100a"), others[:1])] == ["FP1102"]
