"""Kernels and architectures that are lost between stages, from facts alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.laws.rooms import FIXTURES

from fatpack.commands.check_stages import run as compare_module
from fatpack.commands.check_stages import stage
from fatpack.commands.check_stages.run import compare_stage_files, compare_stages
from fatpack.commands.check_stages.stage import HostSide, StageFile, StageImage, group_into_stages, read_stage_file
from fatpack.io.open import open_source
from fatpack.model import Target

SAMPLES = FIXTURES / "cir" / "samples"
NVIDIA, AMD = "nvptx64-nvidia-cuda", "amdgcn-amd-amdhsa"


def code(arch: str, *kernels: str, form: str = "cubin", is_told: bool = True) -> StageImage:
    triple = AMD if arch.startswith("gfx") else NVIDIA
    return StageImage(Target(triple, arch), form, frozenset(kernels) if is_told else None)


def file(kind: str, *codes: StageImage, host: HostSide | None = None) -> StageFile:
    return StageFile(f"{kind}.file", kind, codes, host, ())


def registering(*names: str, why_not: str = "", awaits: bool = False) -> HostSide:
    return HostSide(frozenset(), frozenset(names), why_not, awaits)


def told(*files: StageFile) -> list[tuple[str, str, str, tuple[str, ...]]]:
    """Return what was lost: what, the stage that lacks it, the architecture and the kernels."""
    lost, _ = compare_stages(group_into_stages(files))
    return [(item.what, item.lost.kind, item.arch, item.kernels) for item in lost]


def reasons(*files: StageFile) -> list[str]:
    return [item.why for item in compare_stages(group_into_stages(files))[1]]


WHOLE = file(stage.MODULES, code("sm_80", "a", "b"), code("sm_90", "a", "b"), host=HostSide(frozenset("ab")))


def test_stages_that_agree_lose_nothing() -> None:
    both = [code("sm_80", "a", "b"), code("sm_90", "a", "b")]
    kinds = [stage.IMAGES, stage.CONTAINERS, stage.OBJECTS, stage.PROGRAMS]
    files = [file(kind, *both, host=registering("a", "b") if kind in kinds[2:] else None) for kind in kinds]
    assert told(WHOLE, *files) == []


def test_what_is_lost_is_lost_once_in_the_first_stage_that_lacks_it() -> None:
    fatbin = file(stage.CONTAINERS, code("sm_80", "a", "b"))
    made = file(stage.OBJECTS, code("sm_80", "b"), host=registering("a", "b"))
    assert told(WHOLE, fatbin, made) == [
        ("arch", "containers", "sm_90", ("a", "b")),
        ("kernels", "objects", "sm_80", ("a",)),
    ]
    both = (code("sm_80", "a", "b"), code("sm_90", "a", "b"))
    object_of_a, program_of_a = (file(kind, *both, host=registering("a")) for kind in (stage.OBJECTS, stage.PROGRAMS))
    assert told(WHOLE, object_of_a, program_of_a) == [("registration", "objects", "", ("b",))]
    launching = object_of_a.replace(host=HostSide(frozenset("ab"), frozenset("a")))
    assert told(WHOLE, launching, program_of_a) == [("registration", "objects", "", ("b",))]
    # What the next stage loses besides is lost there.
    assert told(WHOLE, object_of_a, program_of_a.replace(host=registering())) == [
        ("registration", "objects", "", ("b",)),
        ("registration", "programs", "", ("a",)),
    ]
    # Without a host module too, where all kernels are to be registered.
    containers = file(stage.CONTAINERS, *both)
    nothing = [file(kind, *both, host=registering()) for kind in (stage.OBJECTS, stage.PROGRAMS)]
    assert told(containers, *nothing) == [("registration", "objects", "", ("a", "b"))]
    assert told(WHOLE, *nothing) == [("registration", "objects", "", ("a", "b"))]


def test_a_registration_that_could_not_be_judged_is_looked_for_in_the_next_stage() -> None:
    both = (code("sm_80", "a", "b"), code("sm_90", "a", "b"))
    unknown = file(stage.OBJECTS, *both, host=registering("a", why_not="its code is not followed"))
    linked = file(stage.PROGRAMS, *both, host=registering("a"))
    assert told(WHOLE, unknown, linked) == [("registration", "programs", "", ("b",))]


def test_an_object_without_device_code_and_registration() -> None:
    assert told(WHOLE, file(stage.OBJECTS, host=registering())) == [
        ("code", "objects", "", ("a", "b")),
        ("registration", "objects", "", ("a", "b")),
    ]


def test_an_object_whose_code_comes_with_the_link_lacks_none() -> None:
    waits = file(stage.OBJECTS, host=registering("a", "b", awaits=True))
    assert told(WHOLE, waits) == []
    assert told(WHOLE, waits, file(stage.PROGRAMS, code("sm_80", "a", "b"), host=registering("a", "b"))) == [
        ("arch", "programs", "sm_90", ("a", "b"))
    ]


def test_without_a_host_module_the_kernels_of_the_images_are_to_be_registered() -> None:
    fatbin = file(stage.CONTAINERS, code("sm_80", "a", "b", "amdgcn.device.init"))
    made = file(stage.OBJECTS, code("sm_80", "a", "b"), host=registering("a"))
    assert told(fatbin, made) == [("registration", "objects", "", ("b",))]


def test_a_program_registers_what_its_object_does() -> None:
    made = file(stage.OBJECTS, code("sm_80", "a"), host=registering("a"))
    linked = file(stage.PROGRAMS, code("sm_80", "a"), host=registering())
    assert told(made, linked) == [("registration", "programs", "", ("a",))]


def test_what_cannot_be_known_is_reported_and_not_guessed() -> None:
    linked = file(stage.PROGRAMS, code("sm_80", "a", "b"), code("sm_90", "a", "b"), host=registering(why_not="no code"))
    assert told(WHOLE, linked) == []
    assert reasons(WHOLE, linked) == ["which kernels are registered is not known: no code"]
    bitcode = file(stage.CONTAINERS, *(code(arch, form="bitcode", is_told=False) for arch in ("sm_80", "sm_90")))
    assert told(WHOLE, bitcode) == []
    assert reasons(WHOLE, bitcode) == ["the kernels for sm_80, sm_90 are not named by bitcode"]
    # Behind bitcode, kernels of before it are still looked for.
    assert told(WHOLE, bitcode, file(stage.PROGRAMS, code("sm_80", "a"), code("sm_90", "a", "b"))) == [
        ("kernels", "programs", "sm_80", ("b",))
    ]
    unplaced = file(stage.CONTAINERS, StageImage(Target(NVIDIA), "bitcode", None))
    assert told(WHOLE, unplaced) == []
    assert reasons(WHOLE, unplaced) == ["bitcode does not say for which architecture it is, or which kernels it has"]


def test_kernels_of_modules_that_name_no_architecture_are_looked_for_in_all() -> None:
    modules = file(stage.MODULES, StageImage(Target(NVIDIA), "cir", frozenset("ab")))
    assert reasons(modules, WHOLE.replace(kind=stage.CONTAINERS)) == ["cir does not say for which architecture it is"]
    assert told(modules, file(stage.CONTAINERS, code("sm_80", "a"), code("sm_90", "b"))) == []
    less = file(stage.CONTAINERS, code("sm_80", "a"), code("sm_90", "a"))
    assert told(modules, less, file(stage.PROGRAMS, code("sm_80", "a"), code("sm_90", "a"))) == [
        ("kernels", "containers", "", ("b",))
    ]


@pytest.mark.parametrize(
    ("wanted", "there", "is_there"),
    [
        ("sm_80", "compute_80", True),
        ("sm_80", "sm_86", False),
        ("gfx90a", "gfx90a:xnack+", True),
        ("gfx90a:xnack-", "gfx90a:xnack+", False),
        ("gfx90a:sramecc+:xnack-", "gfx90a:xnack-:sramecc+", True),
        ("gfx90a", "gfx908", False),
    ],
)
def test_architectures_are_compared_by_meaning(wanted: str, there: str, is_there: bool) -> None:
    assert (told(file(stage.MODULES, code(wanted, "a")), file(stage.CONTAINERS, code(there, "a"))) == []) is is_there


def test_code_that_runs_there_all_the_same_is_named() -> None:
    lost, _ = compare_stages(
        group_into_stages([WHOLE, file(stage.CONTAINERS, code("compute_80", "a", "b", form="ptx"))])
    )
    assert [(item.arch, item.served) for item in lost] == [("sm_90", ("compute_80",))]


def test_files_of_one_stage_are_one() -> None:
    cubins = [
        StageFile(f"{arch}.cubin", stage.IMAGES, (code(arch, "a", "b"),), None, ()) for arch in ("sm_80", "sm_90")
    ]
    assert told(WHOLE, *cubins) == []
    assert told(WHOLE, cubins[0]) == [("arch", "images", "sm_90", ("a", "b"))]


def test_what_a_later_stage_has_was_not_lost_where_one_image_of_several_was_given() -> None:
    one = StageFile("sm_80.cubin", stage.IMAGES, (code("sm_80", "a", "b"),), None, ())
    fatbin = file(stage.CONTAINERS, code("sm_80", "a", "b"), code("sm_90", "a"))
    assert told(WHOLE, one, fatbin) == [("kernels", "containers", "sm_90", ("b",))]


def test_a_stage_is_not_excused_by_an_older_file_of_a_later_one() -> None:
    """The object was made of an older container, which had all."""
    old = file(stage.OBJECTS, code("sm_80", "a", "b"), code("sm_90", "a", "b"), host=registering("a", "b"))
    cubins = [
        StageFile(f"{arch}.cubin", stage.IMAGES, (code(arch, "a", "b"),), None, ()) for arch in ("sm_80", "sm_90")
    ]
    without_arch = file(stage.CONTAINERS, code("sm_80", "a", "b"))
    without_kernel = file(stage.CONTAINERS, code("sm_80", "a", "b"), code("sm_90", "a"))
    assert told(*cubins, without_arch, old) == [("arch", "containers", "sm_90", ("a", "b"))]
    assert told(*cubins, without_kernel, old) == [("kernels", "containers", "sm_90", ("b",))]
    assert told(WHOLE, cubins[0], without_arch, old) == [("arch", "images", "sm_90", ("a", "b"))]


def test_files_of_one_stage_alone_and_of_none_are_findings() -> None:
    assert [item.code for item in compare_stage_files([WHOLE, WHOLE]).findings] == ["FP3206"]
    assert [item.code for item in compare_stage_files([WHOLE, StageFile("x.txt", "", (), None, ())]).findings] == [
        "FP3206"
    ]


CODES = st.dictionaries(
    st.sampled_from(["sm_80", "sm_90", "gfx90a", "gfx90a:xnack+", "gfx908"]), st.sampled_from(["", "a", "ab", "bc"])
).map(lambda archs: [code(arch, *kernels) for arch, kernels in archs.items()])


@settings(max_examples=60, deadline=None)
@given(CODES, CODES, CODES)
def test_no_stage_loses_what_it_has_or_what_nothing_had(
    one: list[StageImage], two: list[StageImage], three: list[StageImage]
) -> None:
    files = [file(kind, *each) for kind, each in zip(stage.ORDER[:3], (one, two, three), strict=True)]
    made = group_into_stages(files)
    for item in compare_stages(made)[0]:
        assert made.index(item.had) < made.index(item.lost)
        had = {
            name
            for part in item.had.parts
            for name in part.kernels
            if stage.is_for_same_target(part.target, part.target)
        }
        assert set(item.kernels) <= had
        for part in item.lost.parts:
            if item.what == "kernels" and part.target.arch == item.arch:
                assert part.kernels.isdisjoint(item.kernels)
    again, _ = compare_stages(group_into_stages([file(kind, *one) for kind in stage.ORDER[:3]]))
    assert again == []


@pytest.mark.parametrize(
    "path", [path for path in sorted(SAMPLES.iterdir()) if "ir" in path.suffix], ids=lambda path: path.name
)
def test_every_sample_of_cir_is_of_the_first_stage_and_loses_nothing_to_itself(path: Path) -> None:
    with open_source(str(path)) as source:
        sample = read_stage_file(source.view(), str(path))
    assert sample.kind == stage.MODULES
    lost, _ = compare_stages(group_into_stages([sample, sample.replace(kind=stage.CONTAINERS, host=None)]))
    assert lost == []


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that grows with each comparison of two architectures."""
    found: list[str] = []
    is_same, serves = compare_module.is_for_same_target, compare_module.can_serve
    monkeypatch.setattr(compare_module, "is_for_same_target", lambda *given: found.append("same") or is_same(*given))
    monkeypatch.setattr(
        compare_module, "can_serve", lambda *given, **more: found.append("serves") or serves(*given, **more)
    )
    return found


@pytest.mark.parametrize("first", [0, 2000])
def test_work_grows_with_the_architectures_and_not_with_their_square(asked: list[str], first: int) -> None:
    count = 1000
    had = file(stage.IMAGES, *(code(f"gfx{number:x}", "a") for number in range(0x1000, 0x1000 + count)))
    kept = file(stage.CONTAINERS, *(code(f"gfx{number + first:x}", "a") for number in range(0x1000, 0x1000 + count)))
    lost = told(had, kept, kept.replace(kind=stage.PROGRAMS))
    assert len(lost) == (count if first else 0)
    assert asked.count("same") <= 6 * count
    assert asked.count("serves") <= 64 * 64


def test_messages_name_some_architectures_of_many() -> None:
    many = [code(f"sm_{number}", "a") for number in range(100, 200)]
    found = compare_stage_files([file(stage.IMAGES, *many), file(stage.OBJECTS, host=registering("a"))]).findings
    assert [item.message for item in found] == [
        "no device code is here; images.file has some for sm_100, sm_101, sm_102, sm_103, sm_104, sm_105 and 94 more: a"
    ]


def test_very_many_variants_of_a_processor_are_taken_by_their_kernels_alone(asked: list[str]) -> None:
    variants = [code(f"gfx90a:f{number}+", "a", "b") for number in range(1000)]
    had = file(stage.IMAGES, code("gfx942", "a", "b"), *variants)
    made = file(stage.CONTAINERS, code("gfx942", "a"))
    assert reasons(had, made) == ["code for more than 16 variants of gfx90a is taken as for no architecture"]
    assert told(had, made) == [("kernels", "containers", "gfx942", ("b",)), ("kernels", "containers", "", ("b",))]
    assert len(asked) < 20
