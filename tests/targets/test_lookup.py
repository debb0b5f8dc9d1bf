"""``explain``: every kind of name that a person may type, and the texts and values it gives."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fatpack.commands.targets.run import Explanation, explain_name
from fatpack.errors import TargetError
from fatpack.targets.vocabulary import load_vocabulary


def fact(explanation: Explanation, label: str) -> str:
    return dict(explanation.facts)[label]


@pytest.mark.parametrize(
    ("typed", "name", "vendor", "kind"),
    [
        ("sm_80", "sm_80", "nvidia", "architecture"),
        ("compute_90a", "compute_90a", "nvidia", "virtual"),
        ("nvidia_gpu_sm_80", "sm_80", "nvidia", "architecture"),
        ("gfx90a", "gfx90a", "amd", "processor"),
        ("gfx90a:xnack+:sramecc-", "gfx90a:sramecc-:xnack+", "amd", "processor"),
        ("gfx9-4-generic", "gfx9-4-generic", "amd", "generic"),
        ("tahiti", "gfx600", "amd", "alias"),
        ("amdgcnspirv", "amdgcnspirv", "amd", "portable"),
        ("gfx940", "gfx940", "amd", "removed"),
        ("pvc", "pvc", "intel", "device"),
        ("intel_gpu_pvc", "pvc", "intel", "device"),
        ("dg2_g10", "dg2_g10", "intel", "device"),
        ("skylake-avx512", "skylake-avx512", "intel", "cpu"),
        ("xe-bmg-g21", "xe-bmg-g21", "intel", "device"),
        ("xe-dg2", "xe-dg2", "intel", "group"),
        ("xe_20.5.1", "xe_20.5.1", "intel", "device"),
        ("80", "sm_80", "nvidia", "architecture"),
        ("8.0", "sm_80", "nvidia", "architecture"),
        ("10.3", "sm_103", "nvidia", "architecture"),
        ("90a", "sm_90a", "nvidia", "architecture"),
        ("942", "gfx942", "amd", "processor"),
        ("nvptx64-nvidia-cuda", "nvptx64-nvidia-cuda", "nvidia", "triple"),
        ("amdgpu9.0a-amd-amdhsa", "amdgpu9.0a-amd-amdhsa", "amd", "triple"),
        ("amdgpu9.0a", "amdgpu9.0a", "amd", "triple"),
        ("spirv64-intel", "spirv64-intel", "intel", "triple"),
        ("spir64", "spir64", "", "triple"),
        ("aarch64-unknown-linux-gnu", "aarch64-unknown-linux-gnu", "", "triple"),
        ("generic", "generic", "", "none"),
        ("", "generic", "", "none"),
    ],
)
def test_every_kind_of_name_is_recognised(typed: str, name: str, vendor: str, kind: str) -> None:
    explanation = explain_name(typed)
    assert (explanation.name, explanation.given) == (name, typed)
    assert (explanation.vendor, explanation.kind) == (vendor, kind)


def test_every_name_of_the_vocabulary_is_explained_with_sources() -> None:
    for name in load_vocabulary().names():
        explanation = explain_name(name)
        assert explanation.sources
        assert explanation.coverage
        assert all(label and text for label, text in explanation.facts), name
        assert len(dict(explanation.facts)) == len(explanation.facts), name


def test_every_triple_of_the_vocabulary_is_explained_with_its_producer() -> None:
    for line in load_vocabulary().triples:
        for spelling in (line.triple, *line.also):
            assert fact(explain_name(spelling), "written by") == line.producer


def test_an_nvidia_architecture_says_where_it_runs_and_since_when() -> None:
    explanation = explain_name("sm_100f")
    assert fact(explanation, "compute capability") == "10.0, Blackwell"
    assert fact(explanation, "since CUDA") == "12.9"
    assert fact(explanation, "--offload-arch") == "clang 22: no"
    assert fact(explanation, "NVPTX back end") == "LLVM 22: yes"
    assert fact(explanation, "PTX runs on").startswith("the family of 10.0")
    assert explanation.values["clang22"] is False
    assert explanation.values["until_cuda"] is None


def test_a_dropped_and_a_renamed_architecture_say_so() -> None:
    assert "CUDA 13 dropped it; LLVM 22 still accepts it." in explain_name("sm_70").notes
    assert "CUDA 13 renamed it to sm_110a." in explain_name("sm_101a").notes


def test_a_short_number_is_explained_with_a_hint_to_the_whole_name() -> None:
    notes = explain_name("90a").notes
    assert notes[0] == "Taken as short for sm_90a; containers and compilers want the whole name."
    assert notes[1] == "There is a gfx90a too."


def test_an_amd_processor_tells_features_generic_processors_and_aliases() -> None:
    explanation = explain_name("fiji")
    assert fact(explanation, "alias of") == "gfx803"
    assert fact(explanation, "aliases") == "fiji, polaris10, polaris11"
    assert fact(explain_name("gfx906"), "features") == "sramecc, xnack"
    assert fact(explain_name("gfx906"), "covered by") == "gfx9-generic"
    assert fact(explain_name("gfx906"), "triple, LLVM 23") == "amdgpu9.06-amd-amdhsa"


def test_a_target_id_tells_which_features_it_fixes() -> None:
    explanation = explain_name("gfx90a:xnack+")
    assert fact(explanation, "xnack is") == "on"
    assert fact(explanation, "sramecc is") == "either on or off"
    assert explanation.values["set_features"] == ["xnack+"]


def test_an_intel_device_tells_the_value_for_its_compiler_and_its_other_names() -> None:
    explanation = explain_name("dg2_g10")
    assert fact(explanation, "ocloc -device") == "acm_g10"
    assert fact(explanation, "same device") == "acm_g10"
    assert fact(explanation, "GPU IP version") == "12.55"
    assert fact(explanation, "LLVM main calls it") == "xe-dg2-g10"
    assert fact(explanation, "-fsycl-targets") == "intel_gpu_dg2_g10"
    assert fact(explain_name("skx"), "opencl-aot -march") == "skx"
    assert fact(explain_name("xe-bmg-g21"), "DPC++ calls it") == "bmg_g21"


def test_an_unlisted_intel_device_is_matched_by_ip_version() -> None:
    assert fact(explain_name("xe_20.1.4"), "named device") == "xe-bmg-g21"


def test_a_triple_with_an_instruction_set_names_its_processor() -> None:
    assert fact(explain_name("amdgpu9.0a-amd-amdhsa"), "processor") == "gfx90a"
    assert fact(explain_name("amdgpu6"), "processors") == "gfx600, gfx601, gfx602"


@pytest.mark.parametrize(
    ("typed", "nearest"),
    [
        ("SM_80", "sm_80"),
        ("sm_85", "sm_86"),
        ("gfx9-5-generic", "gfx9-4-generic"),
        ("gfx90x:xnack+", "gfx90c"),
        ("tahitti", "tahiti"),
        ("xe-bgm-g21", "xe-bmg-g21"),
        ("skylake_avx512", "skylake-avx512"),
        ("amdgpu9.7f-amd-amdhsa", "amdgpu9.4"),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest_ones(typed: str, nearest: str) -> None:
    with pytest.raises(TargetError) as caught:
        explain_name(typed)
    assert nearest in caught.value.nearest
    assert nearest in str(caught.value)


@pytest.mark.parametrize(
    "typed", ["bogus", "12345", "8.", "1.2.3", "-", "--", "xe_1.2", "xe_1.2.x", "foo-bar-baz", "x" * 10000]
)
def test_a_name_like_no_other_is_refused_with_advice(typed: str) -> None:
    with pytest.raises(TargetError):
        explain_name(typed)


@given(st.text(alphabet="sm_gfxcompute-agn0123456789.:+é\0", max_size=30))
def test_any_text_is_explained_or_a_target_error(typed: str) -> None:
    try:
        explanation = explain_name(typed)
    except TargetError:
        return
    assert explanation.facts


def test_a_device_is_explained_by_what_it_is_sold_as() -> None:
    for name, arch in (("RTX 4090", "sm_89"), ("MI300X", "gfx942"), ("NVIDIA A100-SXM4-80GB", "sm_80")):
        found = explain_name(name)
        assert (found.name, found.given) == (arch, name)
        assert arch in found.notes[0]
