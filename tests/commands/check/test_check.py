"""A policy fails where a device would, and where nobody can know; each field case is rebuilt small."""

from __future__ import annotations

import io
import json
import shutil
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from tests.builders import elf, fatbin, linked_elf, offered
from tests.builders.packages import zipped
from tests.builders.policy_files import container, cubin, library
from tests.laws.rooms import FIXTURES

import fatpack
from fatpack import ImageFile
from fatpack.commands.check import policy, rule_context
from fatpack.commands.check.headline import check_headline
from fatpack.commands.check.model import CheckResult
from fatpack.commands.check.policy import Policy, all_presets, parse_requirements
from fatpack.commands.check.request import check_policy
from fatpack.limits import Budget, current_budget
from fatpack.main import main
from fatpack.tabular import image_kernels
from fatpack.text.schemas import schema_text

SCHEMA = json.loads(schema_text("check"))


def checked(paths: object, require: str = "", **options: Any) -> CheckResult:
    names = [paths] if isinstance(paths, (str, Path)) else list(paths)  # type: ignore[call-overload]
    made = check_policy(
        names, Policy(require=parse_requirements([require] if require else [], all_presets(None)), **options)
    )
    jsonschema.validate(made.to_dict(), SCHEMA)
    assert json.loads(made.to_json()) == made.to_dict()
    return made


def test_a_number_that_was_renamed_is_one_device(folder: Path) -> None:
    Path("x.so").write_bytes(library("101=k", "101=l"))
    assert checked("x.so", uniform=True)
    Path("x.so").write_bytes(library("80=k 101=k", "80=l"))
    assert codes(checked("x.so", uniform=True)) == [("FP3309", "sm_110")]


def test_what_is_not_there_was_not_looked_into(folder: Path) -> None:
    made = checked("x.so", "sm_80")
    assert (made.files, codes(made)) == (0, [("FP3301", "x.so")])


def codes(made: CheckResult) -> list[tuple[str, str]]:
    return [(item.code, item.subject) for item in made.violations]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


#: what a library holds → what is required → whether it passes: rules C2 to C7 of target/choice
CASES = [
    ("80", "sm_80", True),
    ("80", "8.6", True),
    ("80", "RTX 4090", True),
    ("80", "sm_90", False),
    ("86", "sm_80", False),
    ("p80", "sm_120", True),
    ("100a", "sm_100", True),
    ("100a", "sm_103", False),  # vllm-project/vllm#56549: code for sm_100a alone fails on 10.3
    ("100f", "sm_103", True),
    ("100", "sm_103", True),
    ("100a p90", "sm_103", True),
    ("100a p90a", "sm_103", False),
    ("80", "sm_87", False),
    ("87", "sm_87", True),
    ("90 p90", "sm_90+ptx", True),
    ("90 p90", "sm_120+ptx", True),
    ("90 120 p120", "sm_90+ptx", False),
    ("90", "sm_90+ptx", False),
    ("90 p90a", "sm_90+ptx", False),
    ("90 100f p100f", "sm_100+ptx", False),
    ("90a p80", "sm_90a", True),
    ("90", "sm_90a", False),
    ("75 80 86 90 100 120 p120", "7.5 8.0 8.6 9.0 10.0 12.0+PTX", True),
    ("80 90", "sm_80 sm_90", True),
    ("80 90", "sm_80  sm_120+ptx, RTX 4090", False),
    ("75 80 86 90 100", "7.5;8.0;8.6;9.0;10.0;12.0+PTX", False),
    ("p90", "sm_120!", False),
    ("120 p120", "sm_120!", True),
    ("120 p120", "sm_120!+ptx", True),
    ("120 p120", "12.0+PTX!", True),
    ("120", "sm_120!+ptx", False),
    ("80 p80", "RTX 4090!, sm_80", True),
    ("90a", "sm_90a!", True),
    ("p90a", "sm_90a!", False),
    ("p90", "compute_90", True),
    ("p90", "compute_120", True),
    ("90", "compute_90", False),
    ("p120", "compute_90", False),
    ("90 p90a", "compute_90", False),
    ("p90a", "compute_90a", True),
    ("p90", "compute_90a", False),
    ("100f p100f", "compute_100f sm_103", True),
    ("90", "sm_90 compute_90", False),
]


@pytest.mark.parametrize(("held", "required", "passes"), CASES, ids=[f"{a}: {b}" for a, b, _ in CASES])
def test_requirements_follow_the_rules_of_the_driver(folder: Path, held: str, required: str, passes: bool) -> None:
    Path("x.so").write_bytes(library(held))
    made = checked("x.so", required)
    assert bool(made) is passes
    assert made.verdict == ("passed" if passes else "failed")


def test_what_is_compiled_is_no_machine_code(folder: Path) -> None:
    """That PTX serves a device is said, and ``!`` refuses it."""
    Path("x.so").write_bytes(library("p90", "120 p90"))
    made = checked("x.so", "sm_90,sm_120,compute_90")
    assert check_headline(made) == (
        "passed: the one library with code for NVIDIA serves sm_90 (after compiling PTX), "
        "sm_120 (after compiling PTX in 1 of 2 units), compute_90"
    )
    assert check_headline(checked("x.so", "sm_120", per="library")).endswith("serves sm_120")
    made = checked("x.so", "sm_120!")
    assert check_headline(made) == "failed: lacks machine code for sm_120"
    assert [item.message for item in made.violations] == ["lacks machine code for sm_120 in 1 of 2 units"]
    assert made.violations[0].holes[0].reason.startswith("no machine code is for it: the PTX for compute_90")
    made = checked("x.so", "compute_80")
    assert check_headline(made) == "failed: lacks compute_80"
    assert made.violations[0].hint == "build with -gencode arch=compute_80,code=compute_80"


@pytest.mark.parametrize("text", ["compute_90!", "compute_90+ptx"])
def test_ptx_is_asked_for_without_a_mark(text: str) -> None:
    with pytest.raises(fatpack.UsageError, match="compute_90 is PTX alone"):
        parse_requirements([text], {})


def test_every_unit_must_serve_and_per_library_one(folder: Path) -> None:
    Path("x.so").write_bytes(library("80 90", "90a", "80 90"))
    made = checked("x.so", "sm_80")
    (item,) = made.violations
    assert (item.code, item.units, [hole.position for hole in item.holes]) == ("FP3303", 3, ["1"])
    assert (item.holes[0].has, item.holes[0].kernels, item.holes[0].rule) == (("sm_90a",), ("k",), "C2")
    assert "in 1 of 3 units" in item.message
    choice = "; or per='library' if the library chooses among its units itself: others of them serve sm_80"
    assert item.hint == f"build with -gencode arch=compute_80,code=sm_80{choice}"
    assert checked("x.so", "sm_80", per="library")
    (item,) = checked("x.so", "sm_75").violations
    assert item.hint == "build with -gencode arch=compute_75,code=sm_75"
    assert not checked("x.so", "sm_75", per="library")
    Path("y.so").write_bytes(library("80", "80 p80"))
    (item,) = checked("y.so", "sm_80+ptx").violations
    assert item.hint.endswith(
        "; or per='library' if the library chooses among its units itself: others of them serve later devices"
    )


def test_a_library_that_chooses_its_own_container_is_judged_as_a_library(folder: Path) -> None:
    """cuFFT has 24,453 containers in .ldata, of which each serves few devices, and one of an empty device link."""
    made = elf.Elf(type=3)
    made.add(".nv_fatbin", container("52", kernels=()))
    made.add(".ldata", container("70") + container("90") + bytes(8) + container("p70"))
    made.add(".data", (FIXTURES / "cuda" / "cubin" / "k1.cuda13.0.sm_80.cubin").read_bytes())
    Path("libchosen.so").write_bytes(made.build())
    for device in ("sm_70", "sm_80", "sm_90", "sm_120"):
        answer = fatpack.explain("libchosen.so", device).devices[0]
        assert [unit.count for unit in answer.units] == [1]
        assert answer.is_served
        assert "chooses among 4 containers by itself" in answer.units[0].reason
        assert checked("libchosen.so", device)
    answer = fatpack.explain("libchosen.so", "sm_60").devices[0]
    assert answer.verdict.startswith("sm_60: the library fails: ")
    (item,) = checked("libchosen.so", "sm_60").violations
    assert (item.units, len(item.holes)) == (1, 1)


def test_lto_ir_that_a_library_links_itself_is_not_called_broken(folder: Path) -> None:
    """libmathdx has one LTO-IR module in .data, which nvJitLink links with the program's at run time."""
    made = elf.Elf(type=3)
    made.add(".data", bytes(64) + (FIXTURES / "cuda_fatbin" / "v130_ltoir.fatbin").read_bytes())
    Path("libmathdx.so").write_bytes(made.build())
    answer = fatpack.explain("libmathdx.so", "sm_90").devices[0]
    assert "is not known to run: this is LTO-IR, which the library's own code links" in answer.verdict
    assert [(unit.outcome, unit.is_certain, unit.fixes) for unit in answer.units] == [("unknown", False, ())]
    verdict = checked("libmathdx.so", "sm_90")
    assert [item.code for item in verdict.violations if item.severity != "note"] == ["FP3305"]
    assert verdict.exit_code == 1


def test_one_library_stands_not_in_for_another(folder: Path) -> None:
    """pytorch/executorch#21567: each library is held against what the wheel claims, and a CPU wheel fails."""
    both = {"e/libaoti_cuda_shims.so": library("80"), "e/libfull.so": library("80", "90 80")}
    Path("e.whl").write_bytes(zipped(both))
    made = checked("e.whl", "sm_80;sm_90")
    assert [(item.path, item.subject, len(item.holes), item.units) for item in made.violations] == [
        ("e.whl!e/libaoti_cuda_shims.so", "sm_90", 1, 1),
        ("e.whl!e/libfull.so", "sm_90", 1, 2),
    ]
    Path("cpu.whl").write_bytes(zipped({"e/lib.so": library()}))
    assert codes(checked("cpu.whl", "sm_80")) == [("FP3302", "device code")]
    assert codes(checked(["e.whl", "cpu.whl"], "sm_80")) == [("FP3302", "device code")]


def test_a_release_with_one_architecture_is_seen_without_a_gpu(folder: Path) -> None:
    """leejet/stable-diffusion.cpp#1061: a release for Windows held sm_90 alone."""
    Path("sd.zip").write_bytes(zipped({"bin/stable-diffusion.dll": library("90", "90")}))
    made = checked("sd.zip", "sm_75,sm_86,sm_89,sm_90")
    assert [item.subject for item in made.violations] == ["sm_75", "sm_86", "sm_89"]
    assert [(item.path, item.archs) for item in made.libraries] == [("sd.zip!bin/stable-diffusion.dll", ("sm_90",))]


def test_several_builds_in_one_wheel_are_distinguished(folder: Path) -> None:
    """bitsandbytes-foundation/bitsandbytes#2046: a wheel has a library for each CUDA version, with other lists."""
    libraries = {
        "b/libb_cuda126.so": library("75 80 86 89 90 p90"),
        "b/libb_cuda128.so": library("75 80 86 89 90 100 120 p120"),
        "b/libb_cuda130.so": library("75 80 86 89 90 100 120 121 p121"),
    }
    Path("b.whl").write_bytes(zipped(libraries))
    made = checked("b.whl", "sm_75,sm_90,sm_120+ptx,sm_121")
    assert made  # PTX for 9.0 is compiled for 12.1
    made = checked("b.whl", "sm_75", forbid=("compute_90",))
    assert codes(made) == [("FP3306", "compute_90")]
    libraries["b/libb_cuda126.so"] = library("75 80 86 89 90")
    Path("b.whl").write_bytes(zipped(libraries))
    made = checked("b.whl", "sm_75,sm_90,sm_120+ptx,sm_121")
    assert {item.path for item in made.violations} == {"b.whl!b/libb_cuda126.so"}
    assert [item.subject for item in made.violations] == ["sm_120", "sm_120+ptx", "sm_121"]


def test_a_kernel_without_an_architecture_of_its_neighbours(folder: Path) -> None:
    """sgl-project/sglang#38515, deepseek-ai/DeepEP#554: one kernel lacks what the others have."""
    Path("x.so").write_bytes(library("90=a+b 100=a 100f=b", "90=c"))
    made = checked("x.so", uniform=True)
    (item,) = made.violations
    assert (item.code, item.subject) == ("FP3309", "sm_100")
    assert [(hole.position, hole.kernels) for hole in item.holes] == [("1", ("c",))]
    Path("y.so").write_bytes(library("80=a 90=a+b p80=a+b"))
    assert checked("y.so", uniform=True)
    Path("z.so").write_bytes(library("80=a+b 90=a", "80=c 86=c"))
    made = checked("z.so", uniform=True)
    assert [(item.subject, sorted({n for h in item.holes for n in h.kernels or ()})) for item in made.violations] == [
        ("sm_90", ["b", "c"])
    ]


def test_units_without_kernels_miss_nothing(folder: Path) -> None:
    empty = fatbin.fatbin(fatbin.entry(cubin(80, ()), sm=80))
    Path("x.so").write_bytes(linked_elf.build([container("80 90"), empty]).data)
    assert checked("x.so", "sm_90")
    assert checked("x.so", "sm_90", per="library")
    assert codes(checked("x.so", "sm_75", per="library")) == [("FP3303", "sm_75")]


def test_a_library_in_which_something_serves_is_not_read_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("x.so").write_bytes(library("80 90", "90a p80"))
    named: list[str] = []
    read = image_kernels.read_kernels

    def noted(path: str, budget: Budget) -> image_kernels.ImageKernels:
        named.append(path)
        return read(path, budget)

    monkeypatch.setattr(rule_context, "read_kernels", noted)
    assert checked("x.so", "sm_90", per="library")
    assert checked("x.so", "sm_80+ptx", per="library")
    assert named == []
    assert not checked("x.so", "sm_75", per="library")
    assert named == ["x.so"]


#: flags of an entry that is compressed with Zstandard
ZSTD = 0x8011


def test_what_cannot_be_inflated_is_not_code_without_kernels(folder: Path) -> None:
    """A unit without kernels need not serve a device; unreadable kernels are not the same as no kernels."""
    garbage = fatbin.entry(b"no stream at all", sm=80, flags=ZSTD, inflated=4000)
    Path("x.so").write_bytes(linked_elf.build([container("80 90"), fatbin.fatbin(garbage)]).data)
    for options in ({}, {"uniform": True}):
        made = checked("x.so", "sm_90", **options)
        assert (made.exit_code, made.verdict) == (3, "unreadable")
        assert {code for code, _ in codes(made)} >= {"FP3301", "FP3303"}
        (lacking,) = [item for item in made.violations if item.code == "FP3303"]
        assert [hole.position for hole in lacking.holes] == ["1"]


def test_a_file_that_is_gone_when_its_kernels_are_read_fails(folder: Path) -> None:
    found = image_kernels.read_kernels("gone.so", current_budget())
    assert not found.names
    assert "gone.so" in found.problem


def test_what_cannot_be_compared_does_not_pass(folder: Path) -> None:
    image = ImageFile(b"BC\xc0\xde" + bytes(60), triple="amdgcn-amd-amdhsa", arch="gfx90a", offload="hip")
    made = io.BytesIO()
    fatpack.pack([image], made)
    Path("x.bin").write_bytes(made.getvalue())
    assert ("FP3301", "kernels") in codes(checked("x.bin", uniform=True))
    Path("x.fatbin").write_bytes(container("80"))
    made = checked("x.fatbin", registered=True)
    assert (codes(made), made.verdict, made.exit_code) == ([("FP3310", "registration")], "not judged", 0)
    assert checked("x.fatbin", registered=True, strict=True).exit_code == 1
    assert checked("x.fatbin", uniform=True)


def test_relocatable_code_is_no_code_that_a_driver_takes(folder: Path) -> None:
    """Rules C11 and C14: of relocatable PTX a driver says that there is no kernel image; a device link comes first."""
    text = b".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k() { ret; }\n\0"
    relocatable = fatbin.fatbin(fatbin.entry(text, fatbin.RELOCATABLE_PTX, sm=80, options=b""))
    Path("x.so").write_bytes(linked_elf.build([relocatable]).data)
    assert codes(checked("x.so", "sm_90")) == [("FP3303", "sm_90")]
    assert codes(checked("x.so", "sm_80+ptx")) == [("FP3303", "sm_80"), ("FP3303", "sm_80+ptx")]


def test_programs_of_kpack_archives_are_units_of_their_own(folder: Path) -> None:
    def archive(program: str, arch: str) -> bytes:
        made = io.BytesIO()
        attrs = {"binary": program}
        data = offered.code_object(arch)
        image = ImageFile(data, triple="amdgcn-amd-amdhsa", arch=arch, offload="hip", attrs=attrs)
        fatpack.pack([image], made, format="kpack")
        return made.getvalue()

    Path("k").mkdir()
    Path("k/a_gfx942.kpack").write_bytes(archive("lib/liba.so#0", "gfx942"))
    Path("k/a_gfx1100.kpack").write_bytes(archive("lib/liba.so#0", "gfx1100"))
    assert checked("k", "gfx942,gfx1100")
    Path("k/b_gfx942.kpack").write_bytes(archive("lib/libb.so#0", "gfx942"))
    assert checked("k", "gfx942")
    made = checked("k", "gfx942,gfx1100")
    assert [item.subject for item in made.violations] == ["gfx1100"]


@pytest.mark.parametrize(
    ("kind", "words", "required", "expected"),
    [
        ("sycl", "spir64_x86_64", "pvc", "FP3303"),
        ("sycl", "spir64_gen:pvc", "pvc", None),
        ("sycl", "nvptx64:sm_80", "sm_90", "FP3305"),
        ("hip", "gfx1100 ccob1", "gfx1100", "FP3303"),
        ("hip", "gfx1100 ccob2", "gfx1100", None),
    ],
)
def test_each_runtime_answers_for_its_own(
    folder: Path, kind: str, words: str, required: str, expected: str | None
) -> None:
    Path("x").write_bytes(getattr(offered, kind)(words))
    bare = ("FP3301", "FP3314")  # what is offered has labels, and no content
    found = [code for code, _ in codes(checked("x", required)) if code not in bare]
    assert found == ([expected] if expected else [])


def test_loose_images_of_a_folder_are_one_unit(folder: Path) -> None:
    Path("k").mkdir()
    shutil.copy(FIXTURES / "cuda" / "cubin" / "k1.cuda13.0.sm_80.cubin", "k/a.cubin")
    shutil.copy(FIXTURES / "cuda" / "cubin" / "k1.cuda13.0.sm_90.cubin", "k/b.cubin")
    assert checked("k", "sm_80,sm_90")
    assert checked(["k/a.cubin", "k/b.cubin"], "sm_90")  # b has code of its own, and the unit is that of a
    assert checked(["k/a.cubin", "k/b.cubin"], "sm_80,sm_90")
    Path("k/c.txt").write_text("nothing")
    assert codes(checked(["k/a.cubin", "k/c.txt"], "sm_80")) == [("FP3302", "device code")]
    assert [item.subject for item in checked("k", "sm_75").violations] == ["sm_75"]


def test_what_cannot_be_read_fails(folder: Path) -> None:
    whole = library("80 90")
    Path("x.so").write_bytes(whole)
    Path("cut.so").write_bytes(whole[: len(whole) - 900])
    for name, code in (("cut.so", 3), ("missing.so", 5), ("none/*.so", 5), ("*.dll", 5)):
        made = checked(["x.so", name], "sm_80")
        assert (made.exit_code, made.verdict) == (code, "unreadable")
        assert (made.violations[0].code, made.violations[0].unread) == ("FP3301", code)


def test_sizes_and_growth(folder: Path) -> None:
    Path("old").mkdir()
    Path("old/x.so").write_bytes(library("80"))
    Path("new").mkdir()
    Path("new/x.so").write_bytes(library("80", "80 90 100"))
    Path("new/notes.md").write_bytes(bytes(500))
    size = sum(path.stat().st_size for path in Path("new").iterdir())
    assert checked("new", max_size=size).paths[0].size == size
    assert codes(checked("new", max_size=size - 1)) == [("FP3307", "size")]
    before = Path("old/x.so").stat().st_size
    growth = size - before
    assert checked("new", max_growth=str(growth), against="old")
    assert codes(checked("new", max_growth=str(growth - 1), against="old")) == [("FP3308", "growth")]
    assert codes(checked("new", max_growth=f"{100 * growth / before - 1:.1f}%", against="old")) == [
        ("FP3308", "growth")
    ]
    assert checked("new", max_growth=f"{100 * growth / before + 1:.1f}%", against="old")
    assert codes(checked("new", max_growth="5%", against="nowhere")) == [("FP3301", "growth")]


def test_of_sizes_alone_no_file_is_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wheel of 900 MB took 15 seconds for what one ``stat`` says; what is damaged is another rule's concern."""
    Path("d/inner").mkdir(parents=True)
    Path("d/x.so").write_bytes(library("80"))
    Path("d/inner/y.whl").write_bytes(b"PK\3\4, and nothing else")
    Path("old.so").write_bytes(library("80"))
    assert not checked("d", forbid=("sm_5*",))

    def refuse(*_: object, **_named: object) -> None:
        raise AssertionError("a file was read")

    with monkeypatch.context() as patched:
        patched.setattr("fatpack.commands.check.rule_context.RuleContext.read", refuse)
        made = checked("d", max_size=10**6)
        assert str(made).endswith(" kB, of which nothing was read; at most 1 MB")
        assert codes(checked(["d/*.so", "d/inner/y.whl"], max_size=8)) == [("FP3307", "size")] * 2
        assert checked("d/x.so", max_growth="0%", against="old.so", max_size=10**6)
        with pytest.raises(AssertionError, match="a file was read"):
            checked("d", max_size=10**6, verify=True)
    for name in ("gone.so", "gone/*.so"):  # the size is not known
        assert codes(checked(["d/x.so", name], max_size=10**6))[0] == ("FP3301", name if "*" not in name else "pattern")


def test_a_file_is_compared_with_its_counterpart_in_a_folder(folder: Path) -> None:
    Path("old").mkdir()
    Path("old/other.so").write_bytes(library("80", "80 90 100"))
    Path("libx.so.12.1").write_bytes(library("80", "80 90"))
    (wrong,) = checked("libx.so.12.1", max_growth="0%", against="old").violations
    assert (wrong.code, wrong.subject) == ("FP3301", "growth")
    assert wrong.message == "no file in it corresponds to libx.so.12.1"
    assert wrong.hint.startswith("name the earlier file: ")
    Path("old/libx.so.12.0").write_bytes(library("80"))
    assert codes(checked("libx.so.12.1", max_growth="0%", against="old")) == [("FP3308", "growth")]
    assert codes(checked("libx.so.12.1", max_growth="0%", against="old/*")) == [("FP3308", "growth")]
    assert checked("libx.so.12.1", max_growth="1GB", against="old")
    Path("old/libx.so.11").write_bytes(library("80"))
    (wrong,) = checked("libx.so.12.1", max_growth="0%", against="old").violations
    assert wrong.message.startswith("several files in it correspond to libx.so.12.1: old/libx.so.1")


def test_a_wheel_is_compared_with_that_of_its_project_and_its_tags() -> None:
    old = ["a/My_Lib-1.0-cp311-cp311-linux_x86_64.whl", "a/my.lib-1.0-cp312-cp312-linux_x86_64.whl", "a/my-1.0.whl"]
    assert policy._counterparts("b/my_lib-1.1-1-cp312-cp312-linux_x86_64.whl", old) == [old[1]]
    assert policy._counterparts("my_lib-1.1-py3-none-any.whl", old) == old[:2]
    assert policy._counterparts("my-1.0.whl", old) == [old[2]]
    assert policy._counterparts("my-1.1-py3-none-any.whl", old) == []


def test_forbidden_architectures(folder: Path) -> None:
    Path("x.so").write_bytes(library("52 80 p50"))
    made = checked("x.so", forbid=("sm_5*",))
    assert "sm_52, compute_50" in made.violations[0].message
    assert checked("x.so", forbid=("sm_9*", "gfx*"))
    assert codes(checked("x.so", forbid=("compute_*",))) == [("FP3306", "compute_*")]


def test_every_exact_image_of_a_device_is_asked_for(folder: Path) -> None:
    Path("x.so").write_bytes(library("100a"))
    for required in ("sm_100a,sm_100f", "sm_100f,sm_100a"):
        assert ("FP3304", "sm_100f") in codes(checked("x.so", required))


def test_python_takes_lists_with_commas_and_refuses_what_forbids_nothing(folder: Path) -> None:
    Path("x.so").write_bytes(library("90"))
    assert not fatpack.check("x.so", forbid="sm_8*,sm_9*")
    for wrong in ("", ["sm_5*", ""], "sm90", "9.0"):
        with pytest.raises(fatpack.UsageError):
            fatpack.check("x.so", forbid=wrong)
    with pytest.raises(TypeError, match="several patterns in a list"):
        fatpack.check("x.so", forbid="sm_8*", exclude="*.txt")
    with pytest.raises(TypeError, match="several patterns in a list"):
        fatpack.diff("x.so", "x.so", exclude="*.txt")


def test_names_that_are_no_text_stand_in_sarif(folder: Path) -> None:
    from fatpack.commands.check.formats import sarif_document

    name = b"\xff.so".decode("utf-8", "surrogateescape")
    Path(name).write_bytes(library("80"))
    assert "%FF.so" in json.dumps(sarif_document(checked(name, "sm_90")))


def test_what_no_rule_can_check_of_sycl_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Host code of SYCL has no table of the kernels that it launches, and SPIR-V is for no device."""
    path = tmp_path / "wrapper.o"
    fatpack.wrap([FIXTURES / "kernels" / "add_one.llvm22.spv"], path, kind="sycl", host_triple="x86_64-linux-gnu")
    made = fatpack.check(path, registered=True, uniform=True)
    assert made.verdict == "passed"
    (library,) = made.libraries
    assert [text.partition(",")[0] for text in library.unchecked] == [
        "kernels of each architecture",
        "the kernels that SYCL code launches",
    ]
    assert main(["check", "--registered", str(path)]) == 0
    assert "; not checked: the kernels that SYCL code launches" in capsys.readouterr().out
    assert main(["inspect", "--runtime", str(path)]) == 0
    assert "verdict: agrees; not checked: the kernels that SYCL" in capsys.readouterr().out
    assert any("SYCL code launches" in item.why for item in fatpack.doctor(path).not_verified)
