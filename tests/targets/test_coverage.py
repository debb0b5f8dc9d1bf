"""The devices on which images run: ``run_coverage``."""

from __future__ import annotations

import pytest

from fatpack.errors import TargetError
from fatpack.model import Target
from fatpack.targets.compatibility import can_serve
from fatpack.targets.devices import Coverage, run_coverage
from fatpack.targets.vocabulary import load_vocabulary


def by_form(name: str) -> dict[str, Coverage]:
    return {part.form: part for part in run_coverage(name)}


def test_a_cubin_runs_within_its_major_version_and_ptx_on_everything_newer() -> None:
    parts = by_form("sm_80")
    assert parts["cubin"].names == ("sm_80", "sm_86", "sm_89")
    assert parts["cubin"].doubtful == ("sm_87", "sm_88")
    assert parts["ptx"].names[:7] == ("sm_80", "sm_86", "sm_87", "sm_88", "sm_89", "sm_90", "sm_100")
    assert parts["ptx"].names[-1] == "sm_121"


def test_a_suffix_limits_both_forms() -> None:
    assert by_form("sm_90a")["cubin"].names == by_form("sm_90a")["ptx"].names == ("sm_90",)
    assert by_form("sm_120f")["cubin"].names == ("sm_120", "sm_121")


def test_a_virtual_architecture_is_ptx_only() -> None:
    assert set(by_form("compute_90")) == {"ptx"}


def test_renamed_capabilities_are_no_devices() -> None:
    assert all(
        "sm_101" not in part.names + part.doubtful for name in ("sm_30", "sm_100") for part in run_coverage(name)
    )


def test_a_generic_processor_runs_on_all_that_it_covers() -> None:
    assert by_form("gfx9-4-generic:xnack+")["image"].names == ("gfx942:xnack+", "gfx950:xnack+")
    assert by_form("gfx9-4-generic:xnack+")["image"].rule == "the processors that it covers, with xnack on"
    assert "gfx1154" in by_form("gfx11-generic")["image"].names


@pytest.mark.parametrize(
    ("name", "names"),
    [
        ("tahiti", ("gfx600",)),
        ("gfx90a:xnack-:sramecc+", ("gfx90a:sramecc+:xnack-",)),
        ("amdgcnspirv", ()),
        ("amdgpu7", ("gfx700", "gfx701", "gfx702", "gfx703", "gfx704", "gfx705")),
        ("intel_gpu_acm_g10", ("acm_g10", "dg2_g10")),
        ("skx", ("skx",)),
    ],
)
def test_other_images_run_on_what_they_were_made_for(name: str, names: tuple[str, ...]) -> None:
    (part,) = run_coverage(name)
    assert part.names == names


def test_coverage_agrees_with_the_rule_that_images_serve_requests() -> None:
    triples = {"nvidia": "nvptx64-nvidia-cuda", "amd": "amdgcn-amd-amdhsa"}
    words = load_vocabulary()
    for name in (*words.nvidia, *(line.name for line in words.amd.values())):
        provider = Target(triples[words.vendor(name)], name)
        for part in run_coverage(name):
            for other in (*part.names, *part.doubtful):
                request = Target(provider.triple, other)
                verdict = can_serve(provider, request, nvidia_rules=True, form=part.form)
                assert verdict.answer or other in part.doubtful, (name, other)
                assert verdict.is_assumed == (verdict.answer and other in part.doubtful), (name, other)


@pytest.mark.parametrize("name", ["", "generic", "sm_85", "gfx90b", "nvptx64-nvidia-cuda", "amdgpu99"])
def test_what_is_no_architecture_or_device_runs_nowhere(name: str) -> None:
    with pytest.raises(TargetError):
        run_coverage(name)
