"""The image that a device loads, for all runtimes alike; and the result if the rules are uncertain."""

from __future__ import annotations

import pytest

from fatpack.errors import UsageError
from fatpack.targets.devices import parse_device
from fatpack.targets.selection.model import CandidateImage, image_vendor
from fatpack.targets.selection.runtime_settings import VARIABLES, RuntimeSettings, with_variables
from fatpack.targets.selection.select_image import (
    CandidateSet,
    DeviceSelection,
    required_cuda,
    select_image,
    target_id_states,
)


def cubins(*names: str) -> tuple[CandidateImage, ...]:
    return tuple(CandidateImage("cubin", f"sm_{name}", "nvptx64-nvidia-cuda") for name in names)


def ptx(name: str, version: tuple[int, int] | None = None) -> CandidateImage:
    return CandidateImage("ptx", f"sm_{name}", "nvptx64-nvidia-cuda", version)


def cuda(
    *images: CandidateImage, on: str, settings: RuntimeSettings | None = None, is_bare: bool = False
) -> DeviceSelection:
    (choice,) = select_image(
        CandidateSet(images, "cuda", is_bare=is_bare), parse_device(on), settings or RuntimeSettings()
    )
    return choice


def test_which_of_several_that_run_is_taken_does_not_matter() -> None:
    choice = cuda(*cubins("80"), ptx("86"), on="sm_86")
    assert choice.outcome == "runs"
    assert not choice.is_certain
    assert choice.possible == (0, 1)


def test_if_one_candidate_fails_the_result_is_unknown() -> None:
    choice = cuda(*cubins("80"), ptx("86", (9, 4)), on="sm_86", settings=RuntimeSettings(driver=(12, 2)))
    assert choice.outcome == "unknown"
    assert choice.error is None


def test_whether_orin_takes_desktop_cubins_is_not_known_for_new_drivers() -> None:
    assert cuda(*cubins("80"), on="sm_87", settings=RuntimeSettings(driver=(12, 9))).outcome == "fails"
    choice = cuda(*cubins("80"), on="sm_87", settings=RuntimeSettings(driver=(13, 0)))
    assert (choice.outcome, choice.rule) == ("unknown", "C3")
    both = cuda(*cubins("80"), ptx("80"), on="sm_87", settings=RuntimeSettings(driver=(13, 0)))
    assert both.outcome == "compiles"  # whichever is taken runs


def test_a_cubin_for_the_old_name_of_thor() -> None:
    choice = cuda(*cubins("101a"), on="sm_110")
    assert (choice.outcome, choice.rule) == ("unknown", "C6")


def test_relocatable_ptx_is_no_candidate() -> None:
    choice = cuda(CandidateImage("relocatable-ptx", "sm_80"), on="sm_90")
    assert choice.outcome == "fails"
    assert choice.judgements[0].rule == "C11"


def test_text_without_a_container_goes_to_the_compiler() -> None:
    choice = cuda(ptx("100"), on="sm_90", is_bare=True)
    assert (choice.rule, choice.error) == ("C7", ("cuda", 218))


def test_each_state_of_a_device_has_an_answer() -> None:
    images = CandidateSet((CandidateImage("code-object", "gfx90a:xnack-"),), "hip")
    choices = {one.state: one.outcome for one in select_image(images, parse_device("gfx90a"), RuntimeSettings())}
    assert choices["gfx90a:sramecc+:xnack-"] == "runs"
    assert choices["gfx90a:sramecc+:xnack+"] == "fails"


def test_hsa_xnack_fixes_the_state() -> None:
    assert target_id_states(parse_device("gfx90a:sramecc+"), RuntimeSettings(xnack="+")) == ("gfx90a:sramecc+:xnack+",)
    assert target_id_states(parse_device("gfx1030"), RuntimeSettings(xnack="+")) == ("gfx1030",)


def test_an_override_is_never_counted_as_fitting() -> None:
    images = CandidateSet((CandidateImage("code-object", "gfx1030"),), "hip")
    (choice,) = select_image(images, parse_device("gfx1031"), RuntimeSettings(override="gfx1030"))
    assert (choice.outcome, choice.rule, choice.image) == ("unknown", "H9", 0)
    own = CandidateSet((CandidateImage("code-object", "gfx1031"),), "hip")
    (hidden,) = select_image(own, parse_device("gfx1031"), RuntimeSettings(override="gfx1030"))
    assert (hidden.outcome, hidden.error) == ("fails", ("hip", 200))


@pytest.mark.parametrize(
    ("version", "rocm", "outcome"),
    [(1, None, "fails"), (2, (6, 2), "runs"), (3, (7, 2), "runs"), (3, (6, 4), "unknown"), (3, None, "runs")],
)
def test_compressed_bundles_have_versions(version: int, rocm: tuple[int, int] | None, outcome: str) -> None:
    images = CandidateSet((CandidateImage("code-object", "gfx1030"),), "hip", bundle_version=version)
    (choice,) = select_image(images, parse_device("gfx1030"), RuntimeSettings(rocm=rocm))
    assert choice.outcome == outcome


def test_kpack_asks_for_the_most_specific_name() -> None:
    images = CandidateSet(
        (CandidateImage("code-object", "gfx942"), CandidateImage("code-object", "gfx942:xnack-")), is_kpack=True
    )
    choices = {one.state: one.image for one in select_image(images, parse_device("gfx942:sramecc+"), RuntimeSettings())}
    assert choices == {"gfx942:sramecc+:xnack+": 0, "gfx942:sramecc+:xnack-": 1}


def test_native_code_without_a_device_list_may_fail() -> None:
    images = CandidateSet((CandidateImage("", "", "spir64_gen-unknown-unknown"),), "sycl")
    (choice,) = select_image(images, parse_device("pvc"), RuntimeSettings())
    assert (choice.outcome, choice.rule) == ("unknown", "Y2")


@pytest.mark.parametrize(
    ("triple", "arch", "vendor"),
    [
        ("nvptx64-nvidia-cuda", "", "nvidia"),
        ("", "sm_80,sm_90", "nvidia"),
        ("amdgcn-amd-amdhsa", "gfx90a", "amd"),
        ("spirv64-amd-amdhsa-", "amdgcnspirv", "amd"),
        ("spir64", "", "intel"),
    ],
)
def test_vendors(triple: str, arch: str, vendor: str) -> None:
    assert image_vendor(triple, arch) == vendor


def test_what_driver_an_image_needs() -> None:
    assert required_cuda(ptx("80", (8, 2))) == (12, 2)
    assert required_cuda(CandidateImage("ptx", "sm_80", "", (8, 2), "zstd")) == (12, 4)
    assert required_cuda(cubins("80")[0]) is None
    assert required_cuda(ptx("80", (99, 0))) is None


def test_variables_are_read() -> None:
    text = ("CUDA_FORCE_JIT=1", "CUDA_DISABLE_PTX_JIT=1", "HIP_FORCE_SPIRV_CODEOBJECT=1", "HSA_XNACK=1")
    settings = with_variables(RuntimeSettings(), (*text, "HSA_OVERRIDE_GFX_VERSION=9.0.10"))
    assert settings == RuntimeSettings(
        forces_ptx=True, disables_ptx=True, forces_spirv=True, xnack="+", override="gfx90a"
    )


@pytest.mark.parametrize(
    "text", ["PATH=1", "CUDA_FORCE_JIT", "CUDA_FORCE_JIT=yes", "HSA_XNACK=2", "HSA_OVERRIDE_GFX_VERSION=10.3"]
)
def test_wrong_variables_are_refused(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        with_variables(RuntimeSettings(), [text])
    assert text.partition("=")[0] in str(caught.value)
    assert VARIABLES


def test_what_is_labelled_wrongly_fails_without_a_second_try() -> None:
    wrong = cubins("90")[0].replace(contents="sm_80")
    choice = cuda(wrong, ptx("80"), on="sm_90")
    assert (choice.outcome, choice.rule, choice.image) == ("fails", "C10", 0)
    assert choice.error == ("cuda", 300)
    assert choice.reason == "the cubin labelled sm_90 is for sm_80"
    text = ptx("80").replace(contents="sm_100")
    choice = cuda(text, on="sm_90")
    assert (choice.outcome, choice.rule, choice.error) == ("fails", "C10", ("cuda", 218))
    assert cuda(ptx("80").replace(contents="sm_90"), on="sm_90").outcome == "compiles"


def test_a_wrong_label_on_code_that_fits_is_not_known_to_run() -> None:
    choice = cuda(cubins("80")[0].replace(contents="sm_86"), on="sm_86")
    assert (choice.outcome, choice.rule, choice.error) == ("unknown", "C10", None)
    assert "contains code for sm_86" in choice.reason


def test_labels_decide_what_is_taken() -> None:
    choice = cuda(cubins("80")[0].replace(contents="sm_90"), ptx("80"), on="sm_90")
    assert (choice.outcome, choice.image) == ("compiles", 1)


def hip(image: CandidateImage, on: str, settings: RuntimeSettings | None = None) -> DeviceSelection:
    return select_image(CandidateSet((image,), "hip"), parse_device(on), settings or RuntimeSettings())[0]


def test_the_header_of_a_code_object_decides_when_it_is_loaded() -> None:
    choice = hip(CandidateImage("code-object", "gfx1100", contents="gfx1030"), "gfx1100")
    assert (choice.outcome, choice.rule, choice.error) == ("fails", "H5", ("hip", 209))
    same = CandidateImage("code-object", "gfx1030:xnack+", contents="gfx1030")
    assert hip(same, "gfx1030").rule == "H3"  # its label is invalid, and is what is asked first


def test_code_objects_of_version_6_need_a_newer_rocm_for_any_processor() -> None:
    image = CandidateImage("code-object", "gfx1100", code_object=6)
    choice = hip(image, "gfx1100", RuntimeSettings(rocm=(6, 2)))
    assert (choice.outcome, choice.rule) == ("fails", "H13")
    assert hip(image, "gfx1100", RuntimeSettings(rocm=(6, 3))).outcome == "runs"
    assert hip(image.replace(code_object=5), "gfx1100", RuntimeSettings(rocm=(6, 2))).outcome == "runs"


def test_bitcode_for_openmp_is_not_known_to_run() -> None:
    for triple, arch, on in (
        ("amdgcn-amd-amdhsa", "gfx90a", "gfx90a:sramecc+:xnack-"),
        ("nvptx64-nvidia-cuda", "sm_80", "sm_90"),
    ):
        images = CandidateSet((CandidateImage("bitcode", arch, triple),), "openmp")
        (choice,) = select_image(images, parse_device(on), RuntimeSettings())
        assert (choice.outcome, choice.rule) == ("unknown", "M4")


def test_a_suffix_that_only_one_of_them_has_matters_where_it_decides() -> None:
    assert cuda(cubins("90a")[0].replace(contents="sm_90"), on="sm_90").outcome == "runs"
    assert cuda(cubins("100")[0].replace(contents="sm_100a"), on="sm_100").outcome == "runs"
    assert cuda(cubins("100")[0].replace(contents="sm_100a"), on="sm_103").outcome == "unknown"


@pytest.mark.parametrize(
    ("offload", "device", "arch", "rule"),
    [
        ("cuda", "9.0", "sm_90", "C10"),
        ("openmp", "9.0", "sm_90", "M3"),
        ("hip", "gfx1030", "gfx1030", "H3"),
        ("openmp", "gfx1030", "gfx1030", "M3"),
        ("", "gfx1030", "gfx1030", "K5"),
    ],
)
def test_bytes_of_another_kind_are_refused_by_cuda_and_unknown_elsewhere(
    offload: str, device: str, arch: str, rule: str
) -> None:
    image = CandidateImage("cubin" if device == "9.0" else "code-object", arch, actual_form="damaged")
    images = CandidateSet((image,), offload, is_kpack=not offload)
    (choice,) = select_image(images, parse_device(device), RuntimeSettings())
    assert (choice.outcome, choice.rule) == ("fails" if rule == "C10" else "unknown", rule)
    assert choice.reason == f"what is stored as a {image.form} for {arch} is damaged"


@pytest.mark.parametrize(
    ("damaged", "outcome"), [((), "runs"), ((0,), "unknown"), ((1,), "unknown"), ((0, 1), "fails")]
)
def test_a_device_fails_if_all_images_that_it_may_take_are_damaged(damaged: tuple[int, ...], outcome: str) -> None:
    images = [CandidateImage("cubin", "sm_80", actual_form="damaged" if at in damaged else "") for at in range(2)]
    choice = cuda(*images, on="sm_86")
    assert choice.possible == (0, 1)
    assert choice.outcome == outcome
