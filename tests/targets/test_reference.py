"""The vocabulary and the rules against the tools that define them: clang, llc and libLLVM 22, ptxas."""

from __future__ import annotations

import ctypes
import re
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.reference import library, run, tool

from fatpack.errors import TargetError
from fatpack.model import Target
from fatpack.targets.compatibility import find_conflicts, is_compatible_llvm22
from fatpack.targets.vocabulary import check_target_id, load_vocabulary

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

pytestmark = pytest.mark.reference

#: A driver that only prints what it would run: nothing is compiled, and no toolkit is needed.
DRIVER = ("-###", "-c", "-nogpulib", "-nogpuinc", "/dev/null")
HIP = (*DRIVER, "-x", "hip", "--offload-device-only")
CUDA = (*DRIVER, "-x", "cuda", "--offload-device-only", "--no-cuda-version-check", "--cuda-path=/nowhere")
SYCL = (*DRIVER, "-fsycl", "-x", "c++")


def clang_says(mode: Iterable[str], *archs: str) -> str:
    """Return what clang 22 prints for these architectures."""
    options = [f"--offload-arch={arch}" for arch in archs]
    # The inputs come last, or -x would not apply to them.
    arguments = [argument for argument in mode if argument != "/dev/null"]
    return run("clang-22", *arguments, *options, "/dev/null", check=False).stderr.decode()


def error_of(output: str) -> str:
    """Return the first error in clang's output, "" if there is none."""
    found = re.search(r"^[^\n\"]*error: (.*)$", output, re.MULTILINE)
    return found[1] if found else ""


def in_parallel(check: Callable[[str], str], names: Iterable[str]) -> dict[str, str]:
    names = list(names)
    with ThreadPoolExecutor(4) as pool:
        return dict(zip(names, pool.map(check, names), strict=True))


def test_clang_accepts_every_amd_name_that_the_vocabulary_says_it_accepts() -> None:
    tool("clang-22")
    accepted = [name for name, line in load_vocabulary().amd.items() if line.clang22]
    assert len(accepted) == 47 + 18 + 6 + 1
    assert error_of(clang_says(HIP, *accepted)) == ""


def test_clang_accepts_every_nvidia_name_that_the_vocabulary_says_it_accepts() -> None:
    tool("clang-22")
    accepted = [name for name, line in load_vocabulary().nvidia.items() if line.clang22]
    assert len(accepted) == 34
    assert error_of(clang_says(CUDA, *accepted)) == ""


def test_clang_accepts_two_intel_names() -> None:
    tool("clang-22")
    accepted = [name for name, line in load_vocabulary().intel.items() if line.clang22]
    assert sorted(accepted) == ["bmg_g21", "graniterapids"]
    assert error_of(clang_says(SYCL, *accepted)) == ""


#: One process for each name: some are enough to see that the words of the test are right, the sweep takes all.
SOME = pytest.mark.parametrize("step", [7, pytest.param(1, marks=pytest.mark.slow)])


@SOME
def test_clang_refuses_every_name_that_the_vocabulary_says_it_refuses(step: int) -> None:
    tool("clang-22")
    words = load_vocabulary()
    refused = [name for name in words.names() if not getattr(words, words.vendor(name))[name].clang22]
    assert len(refused) > 140
    refused = refused[::step]
    says = in_parallel(lambda name: error_of(clang_says(SYCL, name)), refused)
    assert says == {name: f"unsupported offload gpu architecture: {name}" for name in refused}


@pytest.mark.parametrize("sign", ["+", "-"])
def test_clang_accepts_every_feature_that_the_vocabulary_gives_a_processor(sign: str) -> None:
    tool("clang-22")
    lines = load_vocabulary().amd.values()
    given_ids = [
        ":".join((line.name, *(feature + sign for feature in line.features))) for line in lines if line.features
    ]
    assert error_of(clang_says(HIP, *given_ids)) == ""


@SOME
def test_clang_refuses_every_feature_that_the_vocabulary_does_not_give_a_processor(step: int) -> None:
    tool("clang-22")
    refused = [
        f"{line.name}:{feature}+"
        for name, line in load_vocabulary().amd.items()
        for feature in ("xnack", "sramecc", "wavefrontsize64")
        if line.clang22 and name == line.name and line.kind != "portable" and feature not in line.features
    ]
    assert len(refused) > 100
    says = in_parallel(lambda name: error_of(clang_says(HIP, name)), refused[::step])
    accepted = [name for name, error in says.items() if not error.startswith(f"invalid target ID '{name}'")]
    assert accepted == []


@pytest.mark.parametrize(
    "text",
    [
        "gfx90a:xnack+:sramecc-",
        "gfx90a:",
        "gfx90a:xnack+:",
        "gfx90a::xnack+",
        "gfx90a::",
        "gfx90a:xnack",
        "gfx90a:+",
        "gfx90a:xnack++",
        "gfx90a:XNACK+",
        "gfx90a:xnack+:xnack+",
        "gfx90a:xnack+:xnack-",
        ":xnack+",
        "tahiti:xnack+",
        "carrizo:xnack-",
    ],
)
def test_target_ids_are_read_and_spelled_as_clang_does(text: str) -> None:
    output = clang_says(HIP, text)
    stored = re.findall(r"hipv4-amdgcn-amd-amdhsa--([^\",]*)\"", output)
    try:
        ours = [str(check_target_id(text))]
    except TargetError:
        ours = []
    assert ours == stored
    assert bool(ours) == (error_of(output) == "")


def test_aliases_become_the_names_that_clang_writes() -> None:
    aliases = [name for name, line in load_vocabulary().amd.items() if name != line.name]
    output = clang_says(HIP, *aliases)
    stored = set(re.findall(r"hipv4-amdgcn-amd-amdhsa--([a-z0-9-]+)", output))
    assert stored == {str(check_target_id(alias)) for alias in aliases}


@pytest.mark.parametrize(
    ("archs", "is_refused", "is_conflict"),
    [
        (("gfx90a", "gfx90a:xnack+"), True, True),
        (("carrizo", "gfx801:xnack+"), True, True),
        (("gfx90a:xnack-", "gfx90a:xnack+"), False, False),
        (("gfx908", "gfx90a:xnack+"), False, False),
        # clang compares later target IDs with the first one of a processor only, and in one direction.
        (("gfx90a:xnack-", "gfx90a:sramecc+:xnack+"), False, True),
        (("gfx906:sramecc+", "gfx906:xnack+"), True, True),
    ],
)
def test_whatever_clang_refuses_to_combine_is_a_conflict(
    archs: tuple[str, ...], is_refused: bool, is_conflict: bool
) -> None:
    error = error_of(clang_says(HIP, *archs))
    assert error.startswith("invalid offload arch combinations") is is_refused
    assert bool(find_conflicts(Target("amdgcn-amd-amdhsa", arch, "hip") for arch in archs)) is is_conflict


def test_the_nvptx_back_end_knows_what_the_vocabulary_says_it_knows() -> None:
    version = run("llc", "--version").stdout.decode()
    if "LLVM version 22." not in version:
        pytest.skip(f"the table is for LLVM 22, llc is {version.split('version ')[1].split()[0]}")
    output = run("llc", "-march=nvptx64", "-mcpu=help", check=False).stderr.decode()
    known = set(re.findall(r"^\s+(sm_\w+)\s+- ", output, re.MULTILINE))
    assert known == {name for name, line in load_vocabulary().nvidia.items() if line.backend22}


def test_ptxas_accepts_exactly_the_names_of_its_release() -> None:
    found = re.search(r"release (\d+)\.(\d+)", run("ptxas", "--version").stdout.decode())
    assert found
    release = (int(found[1]), int(found[2]))
    if release < (12, 9):
        pytest.skip(f"ptxas {release} does not list all names it accepts")

    def number(version: str) -> tuple[int, ...]:
        return tuple(int(part) for part in version.split("."))

    listed = re.findall(r"'((?:sm|compute)_\w+)'", run("ptxas", "--help").stdout.decode())
    lines = load_vocabulary().nvidia.values()
    expected = {line.name for line in lines if number(line.since) <= release <= number(line.until or "99.0")}
    assert set(listed) == expected


class Text(ctypes.Structure):
    _fields_ = [("start", ctypes.c_char_p), ("size", ctypes.c_size_t)]


class Pair(ctypes.Structure):
    _fields_ = [("triple", Text), ("arch", Text)]


@pytest.fixture(scope="module")
def are_targets_compatible() -> Callable[[Target, Target], bool]:
    """LLVM 22's own function, called in its library."""
    function = ctypes.CDLL(library("libLLVM.so.22.1"))[
        "_ZN4llvm6object20areTargetsCompatibleERKSt4pairINS_9StringRefES2_ES5_"
    ]
    function.restype = ctypes.c_bool

    def text(value: str) -> Text:
        return Text(value.encode(), len(value.encode()))

    def call(first: Target, second: Target) -> bool:
        pairs = [Pair(text(target.triple), text(target.arch)) for target in (first, second)]
        return bool(function(ctypes.byref(pairs[0]), ctypes.byref(pairs[1])))

    return call


TRIPLES = ["amdgcn-amd-amdhsa", "amdgcn-amd-amdhsa-", "amdgcn", "r600--", "amdgpu-amd-amdhsa", "nvptx64-nvidia-cuda"]
TRIPLES += ["", "spirv64-amd-amdhsa", "x86_64-pc-linux-gnu", "amdgcnx"]
PROCESSORS = ["", "generic", "sm_80", "gfx90a", "gfx908", "gfx9-generic", "gfx900", "tahiti"]
FEATURES = ["xnack+", "xnack-", "sramecc+", "sramecc-", "other+", "other-", "", "axnack+", "xnack"]
ARCHES = st.builds(
    lambda processor, features: ":".join((processor, *features)),
    st.sampled_from(PROCESSORS),
    st.lists(st.sampled_from(FEATURES), max_size=3),
)


@settings(max_examples=500)
@given(
    triples=st.tuples(st.sampled_from(TRIPLES), st.sampled_from(TRIPLES)),
    archs=st.tuples(ARCHES, ARCHES),
    same=st.booleans(),
)
def test_the_old_rule_answers_as_llvm_22_does(
    are_targets_compatible: Callable[[Target, Target], bool],
    triples: tuple[str, str],
    archs: tuple[str, str],
    same: bool,
) -> None:
    first = Target(triples[0], archs[0])
    second = Target(triples[0] if same else triples[1], archs[1])
    assert is_compatible_llvm22(first, second) == are_targets_compatible(first, second)
