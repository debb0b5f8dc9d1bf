"""Real builds, whole and with one thing lost at one stage: the check names it, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.builders.pipeline import KERNELS, Unit
from tests.reference import package, run

from fatpack.commands.check_stages.run import check_stages

ARCHS = {"cuda": ("sm_80", "sm_90"), "hip": ("gfx90a", "gfx1100")}
BOTH = tuple(sorted(KERNELS.values()))

Lost = list[tuple[str, str, str, tuple[str, ...]]]


@pytest.fixture(params=["cuda", "hip"])
def unit(request: pytest.FixtureRequest, tmp_path: Path) -> Unit:
    return Unit(tmp_path, request.param, ARCHS[request.param])


def lost(*paths: str) -> Lost:
    """Return what was lost: what, the stage that lacks it, the architecture and the kernels."""
    found = check_stages(paths)
    assert [item for item in found.findings if item.severity == "error"] == []
    return [(item.what, item.lost.kind, item.arch, item.kernels) for item in found.lost]


def test_a_whole_unit_loses_nothing_at_any_stage(unit: Unit) -> None:
    package("capstone")
    images = [unit.image(arch) for arch in unit.archs]
    container = unit.container(images)
    host = unit.host(container)
    program = unit.program(host)
    run("llvm-ar", "rcs", unit.folder / "libk.a", host)
    files = [unit.cir(), *images, container, host, program]
    found = check_stages(files)
    assert [stage.kind for stage in found.stages] == ["modules", "images", "containers", "objects", "programs"]
    assert [item.text for item in found.findings] == []
    assert [sorted(stage.kernels) for stage in found.stages] == [list(BOTH)] * 5
    hosts = [stage.host for stage in found.stages if stage.host is not None]
    assert [sorted(host.launched) for host in hosts] == [list(BOTH)] * 3
    # In any order, and with any of them left out; a name says nothing.
    assert lost(*reversed(files)) == []
    for left in files:
        assert lost(*(each for each in files if each != left)) == []
    odd = unit.folder / "x.txt"
    odd.write_bytes(Path(container).read_bytes())
    assert lost(files[0], str(odd), str(unit.folder / "libk.a")) == []


def _no_arch(unit: Unit) -> tuple[list[str], Lost]:
    container = unit.container([unit.image(unit.archs[0])])
    return [container, unit.host(container)], [("arch", "containers", unit.archs[1], BOTH)]


def _no_arch_in_the_object(unit: Unit) -> tuple[list[str], Lost]:
    whole = unit.container([unit.image(arch) for arch in unit.archs])
    half = unit.container([unit.image(unit.archs[1])], "half")
    return [whole, unit.host(half)], [("arch", "objects", unit.archs[0], BOTH)]


def _no_kernel(unit: Unit) -> tuple[list[str], Lost]:
    images = [unit.image(unit.archs[0]), unit.image(unit.archs[1], "old", ["one"])]
    container = unit.container(images)
    return [container, unit.host(container)], [("kernels", "containers", unit.archs[1], (KERNELS["two"],))]


def _no_kernel_in_an_image(unit: Unit) -> tuple[list[str], Lost]:
    images = [unit.image(unit.archs[0], "old", ["two"]), unit.image(unit.archs[1])]
    return images, [("kernels", "images", unit.archs[0], (KERNELS["one"],))]


def _host_of_another_source(unit: Unit) -> tuple[list[str], Lost]:
    container = unit.container([unit.image(arch) for arch in unit.archs])
    host = unit.host(container, kernels=["one"])
    return [container, host], [("registration", "objects", "", (KERNELS["two"],))]


def _host_without_its_container(unit: Unit) -> tuple[list[str], Lost]:
    container = unit.container([unit.image(arch) for arch in unit.archs])
    gone = [("code", "objects", "", BOTH), ("registration", "objects", "", BOTH)]
    # An object of HIP registers its kernels all the same, and waits for the device code that a link brings.
    return [container, unit.host(None)], gone if unit.model == "cuda" else []


def _program_of_another_object(unit: Unit) -> tuple[list[str], Lost]:
    container = unit.container([unit.image(arch) for arch in unit.archs])
    program = unit.program(unit.host(None, "plain"), name="plain")
    gone = [("code", "programs", "", BOTH), ("registration", "programs", "", BOTH)]
    return [unit.host(container), program], gone if unit.model == "cuda" else gone[:1]


@pytest.mark.sweep(3)
@pytest.mark.parametrize(
    "broken",
    [
        _no_arch,
        _no_arch_in_the_object,
        _no_kernel,
        _no_kernel_in_an_image,
        _host_of_another_source,
        _host_without_its_container,
        _program_of_another_object,
    ],
)
def test_what_one_stage_loses_is_named(unit: Unit, broken: Callable[[Unit], tuple[list[str], Lost]]) -> None:
    package("capstone")
    files, expected = broken(unit)
    assert lost(unit.cir(), *files) == expected


def codes(*paths: str) -> list[tuple[str, str]]:
    """Return the codes of all findings, with the names of their files."""
    return [(Path(item.span.source[0]).name, item.code) for item in check_stages(paths).findings]


def test_what_no_constructor_leads_to_is_not_registered(unit: Unit) -> None:
    package("capstone")
    host = unit.host(unit.container([unit.image(arch) for arch in unit.archs]))
    idle = str(unit.folder / "idle.o")
    sections = [f"--remove-section={relocations}.init_array" for relocations in (".rela", "")]
    run("objcopy", *sections, host, idle)
    program = unit.program(idle)
    assert lost(host, program) == [("registration", "programs", "", BOTH)]
    assert codes(host, program) == [("libk.so", "FP3043"), ("libk.so", "FP3203")]
    # An object is judged like a program, a member of an archive like an object.
    archive = str(unit.folder / "idle.a")
    run("llvm-ar", "rcs", archive, idle)
    for path, name in ((idle, "idle.o"), (archive, "idle.a(idle.o)")):
        found = check_stages([path])
        (stage,) = found.stages
        assert stage.host is not None
        assert stage.host.registered == frozenset()
        assert codes(path) == [(name, "FP3043"), (Path(path).name, "FP3206")]


def test_names_that_no_image_has_are_reported_with_the_file(unit: Unit) -> None:
    package("capstone")
    less = unit.container([unit.image(arch, kernels=["one"]) for arch in unit.archs])
    host = unit.host(less)
    assert codes(host, unit.program(host)) == [("host.o", "FP3046"), ("libk.so", "FP3046")]


OPENMP = "void f(int *p) {\n#pragma omp target map(tofrom: p[0:1])\n  p[0] = 1;\n}\n"


def test_openmp_names_its_kernels_where_they_are_linked(tmp_path: Path) -> None:
    source, path = tmp_path / "k.c", tmp_path / "k.o"
    source.write_text(OPENMP)
    options = ["-fopenmp", "--offload-arch=gfx90a", "-nogpulib", "-fPIC", "-O1"]
    run("clang", *options, "-c", source, "-o", path)
    linking = ["-fuse-ld=lld", "-shared", "-nostdlib", "-Xoffload-linker", "--unresolved-symbols=ignore-all"]
    run("clang", *options, *linking, path, "-o", tmp_path / "libk.so")
    found = check_stages([str(path), str(tmp_path / "libk.so")])
    compiled, linked = found.stages
    assert [(part.title, part.is_whole, part.forms) for part in compiled.parts] == [("gfx90a", False, ("bitcode",))]
    assert compiled.host is not None
    assert linked.host is not None
    assert compiled.host.registered == linked.host.registered == linked.kernels
    assert [item.code for item in found.findings] == ["FP3205"]
    # A linker alone drops the section of device code, and nothing registers the entries.
    run("ld.lld", "-shared", path, "-o", tmp_path / "plain.so")
    gone = [("code", "programs", "", ()), ("registration", "programs", "", tuple(sorted(linked.kernels)))]
    assert lost(str(path), str(tmp_path / "plain.so")) == gone
