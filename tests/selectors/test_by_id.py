"""Images for NVIDIA chosen by ID: the one that a runtime takes for the device that the ID names."""

from __future__ import annotations

import pytest

from fatpack.images import ImageInfo
from fatpack.io.source import BytesSource, Span
from fatpack.model import Image, Target
from fatpack.scanner import FoundImage
from fatpack.selectors.bundle_id_match import choose_by_id, missing_ids, no_match_reason
from fatpack.selectors.select import Selector

CUDA = "cuda-nvptx64-nvidia-cuda--"
OPENMP = "openmp-nvptx64-nvidia-cuda--"


def image(name: str, offload: str = "cuda", **attrs: str) -> FoundImage:
    """Make an image: ``80`` is a cubin, ``p80`` PTX, ``L80`` LTO-IR."""
    form = {"p": "ptx", "L": "ltoir"}.get(name[0], "cubin")
    target = Target("nvptx64-nvidia-cuda", f"sm_{name.lstrip('pL')}", offload)
    data = BytesSource(name.encode()).view()
    return FoundImage(Image(target, form, data, len(name), len(name), Span(0, len(name)), attrs=attrs), ImageInfo(form))


def chosen(names: str, request: str, offload: str = "cuda") -> list[str]:
    choices = choose_by_id([image(name, offload) for name in names.split()], request)
    return [choice.image.data.tobytes().decode() for choice in choices]


@pytest.mark.parametrize(
    ("names", "device", "expected"),
    [
        ("80 p75", "sm_86", ["80"]),
        ("80 p75", "sm_90", ["p75"]),
        ("80 86", "sm_86", ["86"]),
        ("80 86", "sm_89", ["86"]),
        ("90 90a", "sm_90a", ["90a"]),
        ("100f", "sm_103", ["100f"]),
        ("80", "sm_90", []),
        ("80", "sm_87", []),
        ("L80", "sm_86", []),
        ("80 p80", "sm_80", ["80", "p80"]),
        ("80 90 p90", "compute_90", ["p90"]),
        ("90 p80 p90a", "compute_90", ["p90a"]),
        ("90 p80", "compute_90", ["p80"]),
        ("90 p90a p90", "compute_90", ["p90"]),
        ("90", "compute_90", []),
    ],
)
def test_the_image_is_the_one_that_the_driver_takes(names: str, device: str, expected: list[str]) -> None:
    assert chosen(names, CUDA + device) == expected


def test_the_choice_says_why_and_what_else_would_fit() -> None:
    (choice,) = choose_by_id([image("p75"), image("80")], f"{CUDA}sm_86")
    assert choice.text == (
        f"{CUDA}sm_86: chose {CUDA}sm_80, which is compatible: the cubin for sm_80 runs on compute capability 8.0 and "
        f"newer 8.x (also compatible: {CUDA}sm_75)"
    )


def test_a_choice_that_nobody_can_promise_says_so() -> None:
    (choice,) = choose_by_id([image("p86"), image("80")], f"{CUDA}sm_86")[:1]
    assert choice.reason == "its exact ID"
    (choice,) = choose_by_id([image("80"), image("86")], f"{CUDA}sm_89")
    assert "the rules are uncertain" in choice.text


def test_the_normal_form_of_an_id_is_the_same_id() -> None:
    assert chosen("80", "cuda-nvptx64-nvidia-cuda-unknown-sm_80") == ["80"]


def test_openmp_takes_the_first_image_that_fits_and_is_another_kind() -> None:
    assert chosen("80 89", f"{OPENMP}sm_90", "openmp") == []
    assert chosen("86 80", f"{OPENMP}sm_89", "openmp") == ["86"]
    assert chosen("80 86", f"{OPENMP}sm_89", "openmp") == ["80"]
    assert chosen("80", f"{OPENMP}sm_86") == []
    assert chosen("80", f"{CUDA}sm_86", "openmp") == []


def test_relocatable_ptx_is_taken_by_no_driver() -> None:
    assert choose_by_id([image("p80", kind="relocatable-ptx")], f"{CUDA}sm_86") == []


def test_a_request_that_nothing_serves_is_missing_without_a_fault_of_its_own() -> None:
    request = f"{CUDA}sm_86"
    assert missing_ids(choose_by_id([image("90")], request), [request]) == [request]
    assert no_match_reason([request]) == ""


@pytest.mark.parametrize(
    ("name", "arch", "answer"),
    [
        ("p90", "compute_90", True),
        ("90", "compute_90", False),
        ("p90a", "compute_90a", True),
        ("p90", "compute_*", True),
        ("p90", "!compute_90", False),
        ("90", "!compute_90", True),
        ("80,sm_90", "sm_90", True),
        ("80,sm_90", "sm_80", True),
        ("80,sm_90", "sm_86", False),
    ],
)
def test_ptx_has_the_name_of_its_virtual_architecture_too(name: str, arch: str, answer: bool) -> None:
    assert Selector(arch=arch).matches(image(name)) is answer


@pytest.mark.parametrize(
    ("request_id", "text"),
    [
        (CUDA + "sm_9O", "sm_9O is no known architecture; did you mean sm_90"),
        ("hip-amdgcn-amd-amdhsa--gfx90b", "gfx90b is no known architecture; did you mean "),
        (CUDA + "sm_87", "a cubin for sm_80 runs on "),
        (CUDA + "sm_87", "compute capability 9"),
    ],
)
def test_an_id_that_nothing_serves_comes_with_the_reasons(request_id: str, text: str) -> None:
    images = [image("90"), image("p90")]
    if "sm_80" in text:
        images.append(image("80", kind="relocatable"))
    assert text in no_match_reason([request_id], images)
