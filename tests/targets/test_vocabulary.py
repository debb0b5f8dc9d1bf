"""The tables in ``src/fatpack/target/data`` are complete, consistent and sourced."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fatpack.targets
from fatpack.errors import TargetError
from fatpack.model import Target
from fatpack.targets.nvidia import RENAMED, TEGRA_ARCHS, parse_nvidia
from fatpack.targets.triple import triple_processor
from fatpack.targets.vocabulary import (
    VENDORS,
    Vocabulary,
    check_target_id,
    default_triple,
    load_vocabulary,
    nearest_names,
    primary_processor,
    resolve_target,
    respelled_name,
    unknown_name,
    without_prefix,
)

DATA = Path(fatpack.targets.__file__).parent / "data"
TABLES: dict[str, dict[str, Any]] = {
    name: tomllib.loads((DATA / f"{name}.toml").read_text()) for name in (*VENDORS, "triples")
}
ROWS = [
    (table, row)
    for table, content in TABLES.items()
    for key, rows in content.items()
    if key != "sources" and isinstance(rows, list)
    for row in rows
    if isinstance(row, dict)
]


def test_the_data_loads_into_the_records_of_the_vocabulary() -> None:
    words = Vocabulary(TABLES)
    assert len(words.nvidia) == 43 + 42
    assert len(words.amd) == 47 + 5 + 18 + 9 + 3
    assert len(words.intel) == 37 + 17 + 38 + 4


def test_every_row_cites_sources_that_exist() -> None:
    for table, row in ROWS:
        assert row["sources"], row
        assert set(row["sources"]) <= set(TABLES[table]["sources"]), row


@pytest.mark.parametrize("table", TABLES)
def test_every_source_is_cited(table: str) -> None:
    cited = {key for name, row in ROWS if name == table for key in row["sources"]}
    assert cited == set(TABLES[table]["sources"])


def test_no_name_means_two_things() -> None:
    words = load_vocabulary()
    names = [row["name"] for _, row in ROWS if "name" in row]
    names += [name for _, row in ROWS for name in (*row.get("names", ()), *row.get("aliases", ()))]
    assert sorted(names) == sorted(set(names))
    assert sorted(names) == sorted(words.names())


def test_nvidia_names_parse_and_agree_with_the_rules() -> None:
    for name, line in load_vocabulary().nvidia.items():
        arch = parse_nvidia(name)
        assert arch is not None
        assert arch.name == name
        assert line.virtual in load_vocabulary().nvidia
        if arch.is_virtual:
            continue
        assert line.embedded or arch.number not in TEGRA_ARCHS
        renamed = RENAMED.get(arch.number)
        assert line.renamed == (f"sm_{renamed}{arch.suffix}" if renamed else "")


def test_every_architecture_except_sm_21() -> None:
    for name, line in load_vocabulary().nvidia.items():
        if name.startswith("sm_") and name != "sm_21":
            assert line.virtual == name.replace("sm_", "compute_")
    assert load_vocabulary().nvidia["sm_21"].virtual == "compute_20"


def test_cuda_versions_are_numbers_and_in_order() -> None:
    for line in load_vocabulary().nvidia.values():
        since, until = ([int(part) for part in text.split(".")] for text in (line.since, line.until or "99.0"))
        assert len(since) == len(until) == 2
        assert since <= until


def test_processors_and_families_agree_with_the_rule_for_triples() -> None:
    words = load_vocabulary()
    for line in words.amd.values():
        if line.triple:
            assert triple_processor(f"amdgpu{line.triple}-amd-amdhsa") == line.name
            assert words.families[line.family].triple == line.family
    for spelling, family in words.families.items():
        assert triple_processor(f"amdgpu{spelling}") == (family.generic or f"amdgpu{spelling}")


def test_the_generic_processor_of_a_family_covers_exactly_its_members() -> None:
    words = load_vocabulary()
    for line in words.amd.values():
        if line.kind == "generic":
            members = {name for name, other in words.amd.items() if other.kind == "processor" and name == other.name}
            assert set(line.serves) == {name for name in members if words.amd[name].family == line.family}


def test_a_generic_processor_has_only_features_that_a_processor_it_covers_has() -> None:
    words = load_vocabulary()
    for line in words.amd.values():
        for member in line.serves:
            assert set(line.features) <= set(words.amd[member].features)


def test_gfx908_and_gfx90a_are_covered_by_no_generic_processor() -> None:
    assert load_vocabulary().generics_of("gfx908") == load_vocabulary().generics_of("gfx90a") == ()
    assert load_vocabulary().generics_of("gfx906") == ("gfx9-generic",)


def test_features_are_in_alphabetical_order() -> None:
    assert all(list(line.features) == sorted(line.features) for line in load_vocabulary().amd.values())


def test_names_of_llvm_main_follow_from_those_of_dpcpp() -> None:
    names = load_vocabulary().intel
    spelled = {f"xe-{name.replace('_', '-')}" for name, line in names.items() if line.kind == "gpu"}
    assert {"xe-pvc", "xe-bmg-g21", "xe-lnl-m", "xe-dg2-g10", "xe-tgllp"} <= spelled & set(names)


def test_the_vocabulary_is_read_once() -> None:
    assert load_vocabulary() is load_vocabulary()


@pytest.mark.parametrize(("name", "primary"), [("tahiti", "gfx600"), ("gfx90a", "gfx90a"), ("what", "what"), ("", "")])
def test_an_alias_is_resolved_and_any_other_name_kept(name: str, primary: str) -> None:
    assert primary_processor(name) == primary


@pytest.mark.parametrize(
    ("typed", "nearest"),
    [("SM_80", "sm_80"), ("gfx9_generic", "gfx9-generic"), ("sm_85", "sm_86"), ("intel_gpu_pcv", ""), ("pcv", "pvc")],
)
def test_the_nearest_name_comes_first(typed: str, nearest: str) -> None:
    assert (nearest_names(typed) or ("",))[0] == nearest


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("sm60", "sm_60"),
        ("SM_90", "sm_90"),
        ("Sm-120", "sm_120"),
        ("gfx90A", "gfx90a"),
        ("gfx_942", "gfx942"),
        ("gfx90A:xnack+", "gfx90a:xnack+"),
        ("GFX9_generic", "gfx9-generic"),
        ("PVC", "pvc"),
    ],
)
def test_a_name_that_is_only_spelled_differently_is_the_only_one(typed: str, meant: str) -> None:
    assert respelled_name(typed) == meant
    assert nearest_names(typed) == (meant,)


@pytest.mark.parametrize("typed", ["sm_60", "sm_61a", "gfx90a", "gfx90a:xnack+", "M60", "", "-", ":xnack+"])
def test_a_right_name_and_another_one_are_not_respelled(typed: str) -> None:
    assert respelled_name(typed) == ""


@given(st.text(max_size=5000))
def test_any_text_has_at_most_three_nearest_names(typed: str) -> None:
    assert len(nearest_names(typed)) <= 3


def test_a_target_id_is_checked_and_gets_the_primary_name() -> None:
    assert str(check_target_id("carrizo:xnack+")) == "gfx801:xnack+"
    assert str(check_target_id("gfx90a:xnack+:sramecc-")) == "gfx90a:sramecc-:xnack+"


def test_a_target_of_nvidia_is_not_answered_with_itself() -> None:
    with pytest.raises(TargetError, match="'sm_90' is an NVIDIA target") as caught:
        check_target_id("sm_90")
    assert not caught.value.nearest


@pytest.mark.parametrize("text", ["gfx1030:xnack+", "gfx900:sramecc+", "gfx1250:xnack+", "gfx90a:wave64+", "gfx90b"])
def test_what_clang_refuses_in_a_target_id_is_refused(text: str) -> None:
    with pytest.raises(TargetError):
        check_target_id(text)


@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("sm_90a", Target("nvptx64-nvidia-cuda", "sm_90a")),
        ("compute_80", Target("nvptx64-nvidia-cuda", "compute_80")),
        ("nvidia_gpu_sm_80", Target("nvptx64-nvidia-cuda", "sm_80")),
        ("tahiti", Target("amdgcn-amd-amdhsa", "gfx600")),
        ("amd_gpu_gfx90a", Target("amdgcn-amd-amdhsa", "gfx90a")),
        ("gfx90a:xnack+:sramecc-", Target("amdgcn-amd-amdhsa", "gfx90a:sramecc-:xnack+")),
        ("amdgcnspirv", Target("spirv64-amd-amdhsa", "amdgcnspirv")),
        ("intel_gpu_pvc", Target("spir64_gen-unknown-unknown", "pvc")),
        ("skylake-avx512", Target("spir64_x86_64-unknown-unknown", "skylake-avx512")),
        ("xe-pvc", Target("spirv64-unknown-unknown", "xe-pvc")),
    ],
)
def test_a_name_means_a_target_with_its_usual_triple(name: str, target: Target) -> None:
    assert resolve_target(name) == target


def test_an_unknown_name_is_refused_with_the_nearest_known_ones() -> None:
    with pytest.raises(TargetError, match="unknown target 'gfx90b'; did you mean") as caught:
        resolve_target("gfx90b")
    assert "gfx90c" in caught.value.nearest


def test_future_names_of_nvidia_and_amd_still_get_a_triple() -> None:
    assert default_triple("sm_150a") == "nvptx64-nvidia-cuda"
    assert default_triple("gfx1400:xnack+") == "amdgcn-amd-amdhsa"
    assert default_triple("x9000") == ""


def test_the_prefix_of_dpcpp_is_taken_off_gpus_of_that_vendor_only() -> None:
    assert without_prefix("intel_gpu_pvc") == "pvc"
    assert without_prefix("intel_gpu_skylake") == "intel_gpu_skylake"
    assert without_prefix("intel_gpu_xe-pvc") == "intel_gpu_xe-pvc"
    assert without_prefix("amd_gpu_sm_80") == "amd_gpu_sm_80"


def test_every_public_name_of_the_package_can_be_imported() -> None:
    for name in fatpack.targets.__all__:
        assert getattr(fatpack.targets, name) is not None
    assert fatpack.targets.__all__ == sorted(fatpack.targets.__all__)
    with pytest.raises(AttributeError):
        _ = fatpack.targets.nothing


def test_parsing_and_comparing_common_targets_reads_no_data() -> None:
    script = (
        "import sys\n"
        "from fatpack.model import Target\n"
        "from fatpack.targets import is_compatible_llvm22, is_same_target, parse_nvidia, parse_target_id\n"
        "from fatpack.targets import triple_processor\n"
        "a, b = Target('amdgcn-amd-amdhsa', 'gfx90a:xnack+'), Target('nvptx64-nvidia-cuda', 'sm_80')\n"
        "is_same_target(a, b); is_same_target(a, a); is_compatible_llvm22(a, b)\n"
        "parse_target_id(a.arch); triple_processor('amdgpu9.0a')\n"
        "heavy = {'tomllib', 're', 'typing', 'difflib', 'dataclasses', 'json', 'pathlib'} & set(sys.modules)\n"
        "print(','.join(sorted(heavy)))\n"
    )
    command = [sys.executable, "-S", "-c", script]
    environment = {"PYTHONPATH": str(DATA.parents[2])}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.stdout == "\n", done.stdout + done.stderr


@pytest.mark.parametrize("name", ["H100", "A100", "mi300", "MI300X", "RTX 4090", "gtx-1080"])
def test_the_number_of_a_board_suggests_no_architecture(name: str) -> None:
    """A100 is sm_80 and H100 sm_90: sm_100 is neither."""
    error = unknown_name(name)
    assert not error.nearest
    assert "looks like the name of a board" in str(error)
    assert "sm_" not in str(error)


@pytest.mark.parametrize("name", ["sm90", "gfx90", "sm_9O", "pcv"])
def test_a_slip_of_the_pen_is_no_board(name: str) -> None:
    assert unknown_name(name).nearest
