"""Every model by every compiler for every kind of object: whole ones are silent, and damage has the finding it should.

The damage is done to the host's IR, which is compiled again; to objects of nvcc by objcopy. OpenMP's and SYCL's
descriptors are in ``test_described.py``, linked programs in ``test_programs.py``.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests import reference
from tests.builders import registration
from tests.registration.analysis.test_described import ARM, LINUX, WINDOWS, openmp_host, without

import fatpack
from fatpack.commands.inspect.registration import registration_record
from fatpack.io.open import open_source
from fatpack.registration.analysis import objects
from fatpack.registration.analysis.entries import OffloadEntry
from fatpack.scanner.context import detect_host

pytestmark = pytest.mark.reference

LEVELS = [("-O0",), ("-O2",), ("-Os",), ("-O2", "-fPIC"), ("-O2", "-ffunction-sections")]
TARGETS = (LINUX, ARM, WINDOWS)
#: with LLVM 22, :mod:`test_reference` tries more targets
COMPILERS = ("22", "23")

#: the part that the device lacks → the edit of the source of the image
LACKING = {
    "image of another source": lambda source: registration.OTHER,
    "image with part of the kernels": lambda source: (
        source.replace('extern "C" __global__ void plain(int *p)', "void plain(int *p)")
        .replace("= counter", "= 1")
        .replace("plain<<<a, a>>>(p); ", "")
    ),
    "template only on the host": lambda source: source.replace("many<<<a, a>>>((float *)p);", ""),
}


def codes(path: Path) -> list[str]:
    with fatpack.open(path) as file:
        return sorted({item.code for item in file.findings})


def entries(path: Path) -> list[OffloadEntry]:
    with open_source(str(path)) as source:
        view = source.view()
        return objects.object_evidence(objects.read_object(view, detect_host(view))).entries


def expected(name: str, code: str, found: list[str], *, is_optimised: bool) -> bool:
    """Return whether the findings are those of a damage; the optimiser may drop what only a constructor has used."""
    if name == "no constructor" and is_optimised:
        return found in (["FP3043"], ["FP3041"])
    if name in ("bad magic", "null pointer"):
        return any(re.fullmatch(code, each) for each in found) and not any(each > "FP3040" for each in found)
    return found == [code]


def check(folder: Path, model: str, target: str, level: tuple[str, ...], version: str) -> int:
    """Check one compiler with one set of options on whole and broken objects, and return how many there were."""
    options = tuple(option for option in level if target != WINDOWS or option != "-fPIC")
    embedded = registration.image(folder, model, version=version)
    text = registration.host_ir(folder, model, target, *options, embedded=embedded, version=version)

    def made(ir: str) -> list[str]:
        return codes(registration.compiled(folder, ir, target, "unit", *options, version=version))

    assert made(text) == []
    broken = {**registration.BROKEN, **(registration.BROKEN_PLAIN if level[0] == "-O0" else {})}
    for name, (edit, code) in broken.items():
        found = made(edit(text))
        assert expected(name, code, found, is_optimised=level[0] != "-O0"), (name, found)
    for name, cut in LACKING.items():
        image = registration.image(folder, model, cut(registration.SOURCE), name.replace(" ", "-"), version=version)
        ir = registration.host_ir(folder, model, target, *options, embedded=image, version=version)
        assert made(ir) == ["FP3046"], name
    # Without an image, HIP code looks like that of relocatable device code: nothing can be said of it.
    alone = registration.host_ir(folder, model, target, *options, version=version)
    assert made(alone) == (["FP3041"] if model == "cuda" else [])
    return 2 + len(broken) + len(LACKING)


@pytest.mark.parametrize(("model", "target"), [("hip", LINUX), ("cuda", ARM)])
def test_one_of_each_by_llvm_23(tmp_path: Path, model: str, target: str) -> None:
    assert check(tmp_path, model, target, ("-O0",), "23") == 12


@pytest.mark.slow
@pytest.mark.parametrize("version", COMPILERS)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("model", registration.MODELS)
def test_all_options(tmp_path: Path, model: str, target: str, version: str) -> None:
    # Left out here: the cases that test_reference.py tries with LLVM 22.
    for level in LEVELS if version != "22" else LEVELS[2:5:2]:
        assert check(tmp_path, model, target, level, version) >= 11


def check_relocatable(folder: Path, model: str, target: str, level: str, version: str) -> None:
    rdc = ["-fgpu-rdc", "--offload-new-driver", level]
    text = registration.host_ir(folder, model, target, *rdc, version=version)
    whole = registration.compiled(folder, text, target, "whole", level, version=version)
    assert codes(whole) == []
    kernels = {entry.name for entry in entries(whole) if entry.is_kernel}
    assert {"plain", "_Z5firstPi", "_Z4manyIiEvPT_"} <= kernels
    lines = text.splitlines()
    entry = next(line for line in lines if re.match(r"@\.offloading\.entry\.plain", line))
    name = entry.partition(" ")[0]
    dropped = [re.sub(rf"(, )?ptr {re.escape(name)}\b", "", line) for line in lines if line != entry]
    broken = "\n".join(dropped).replace("[, ", "[")
    count = re.compile(r"(@llvm\.(?:compiler\.)?used = appending global \[)(\d+)( x ptr\] \[)(.*)\]")
    broken = count.sub(lambda found: f"{found[1]}{found[4].count('ptr @')}{found[3]}{found[4]}]", broken)
    path = registration.compiled(folder, broken, target, "broken", level, version=version)
    assert codes(path) == ["FP3045"]


@pytest.mark.parametrize(
    ("model", "target", "level", "version"),
    [
        ("cuda", LINUX, "-O2", "22"),
        *(
            pytest.param(model, target, level, version, marks=pytest.mark.slow)
            for model in registration.MODELS
            for target in TARGETS
            for level in ("-O0", "-O2")
            for version in COMPILERS
        ),
    ],
)
def test_relocatable_device_code_by_entries(tmp_path: Path, model: str, target: str, level: str, version: str) -> None:
    check_relocatable(tmp_path, model, target, level, version)


@pytest.mark.parametrize(
    ("target", "level"),
    [
        (WINDOWS, ("-O2",)),
        *(pytest.param(target, level, marks=pytest.mark.slow) for target in TARGETS for level in LEVELS),
    ],
)
def test_objects_of_openmp(tmp_path: Path, target: str, level: tuple[str, ...]) -> None:
    options = tuple(option for option in level if target != WINDOWS or option != "-fPIC")
    text = openmp_host(tmp_path, target, *options)
    whole = registration.compiled(tmp_path, text, target, "whole", *options)
    assert codes(whole) == []
    assert [entry.kind for entry in entries(whole) if entry.is_kernel] == ["openmp", "openmp"]
    lost = without(text, r"^@\.offloading\.entry\.")
    lost = re.sub(r"^@llvm\.(compiler\.)?used.*$", "", lost, flags=re.MULTILINE)
    assert codes(registration.compiled(tmp_path, lost, target, "lost", *options)) == ["FP3050"]


#: entries of LLVM 20 and older, packed as clang 16 writes them (host-embedding.md)
OLD = """
target triple = "TRIPLE"
%entry = type { ptr, ptr, WORD, i32, i32 }
@.omp_offloading.entry_name = internal unnamed_addr constant [7 x i8] c"region\\00"
@.omp_offloading.entry_name.1 = internal unnamed_addr constant [9 x i8] c"variable\\00"
@.region_id = weak constant i8 0
@variable = global i32 1
@.omp_offloading.entry.region = weak constant %entry {
  ptr @.region_id, ptr @.omp_offloading.entry_name, WORD 0, i32 0, i32 0 }, section "SECTION", align 1
@.omp_offloading.entry.variable = weak constant %entry {
  ptr @variable, ptr @.omp_offloading.entry_name.1, WORD 4, i32 0, i32 0 }, section "SECTION", align 1
define void @run() {
  %1 = call i32 @__tgt_target_kernel(ptr null, i64 -1, i32 0, i32 0, ptr @.region_id, ptr null)
  ret void
}
declare i32 @__tgt_target_kernel(ptr, i64, i32, i32, ptr, ptr)
"""


@pytest.mark.parametrize(
    ("target", "word", "section", "layout"),
    [
        (LINUX, "i64", "omp_offloading_entries", 32),
        (ARM, "i64", "omp_offloading_entries", 32),
        ("i386-linux-gnu", "i32", "omp_offloading_entries", 20),
        (WINDOWS, "i64", "omp_offloading_entries$OE", 32),
        ("i686-pc-windows-msvc", "i32", "omp_offloading_entries$OE", 20),
    ],
)
def test_entries_of_older_compilers(tmp_path: Path, target: str, word: str, section: str, layout: int) -> None:
    text = OLD.replace("TRIPLE", target).replace("WORD", word).replace("SECTION", section)
    if section.endswith("$OE"):  # the bounds of the table: a record of zeros each
        bounds = [
            f'@{name} = constant [{layout} x i8] zeroinitializer, section "{section[:-2]}{name}"'
            for name in ("OA", "OZ")
        ]
        text += "\n".join(bounds) + "\n"
    path = registration.compiled(tmp_path, text, target, "old", "-O1")
    found = [(entry.layout, entry.kind, entry.name, entry.size, entry.is_kernel) for entry in entries(path)]
    assert found == [(layout, "openmp", "region", 0, True), (layout, "openmp", "variable", 4, False)]
    assert codes(path) == []
    with open_source(str(path)) as source:
        (unit,) = registration_record(source.view())["units"]
    assert (unit["producer"], unit["kernel_count"], unit["variable_count"]) == ("clang ≤ 20 entries", 1, 1)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("-fgpu-rdc", "--offload-new-driver"), ["clang-linker-wrapper registers its entries"]),
        (("-fgpu-rdc", "--no-offload-new-driver"), ["the device link makes __hip_fatbin_"]),
        (("--no-offload-new-driver",), ["the device link makes __hip_fatbin_"]),
    ],
    ids=["new driver", "old driver", "host only"],
)
def test_what_the_link_adds_is_reported(tmp_path: Path, options: tuple[str, ...], words: list[str]) -> None:
    text = registration.host_ir(tmp_path, "hip", LINUX, *options)
    path = registration.compiled(tmp_path, text, LINUX, "unit")
    with open_source(str(path)) as source:
        (unit,) = registration_record(source.view())["units"]
    assert len(unit["awaited"]) == len(words)
    assert all(found.startswith(word) for found, word in zip(unit["awaited"], words, strict=True))
    assert codes(path) == []


def test_lto_objects_are_not_looked_at(tmp_path: Path) -> None:
    image = registration.image(tmp_path, "cuda")
    text = registration.host_ir(tmp_path, "cuda", LINUX, "-O1", embedded=image)
    (tmp_path / "unit.ll").write_text(text)
    reference.run("llvm-as", "unit.ll", "-o", "unit.o", cwd=tmp_path)
    assert [code for code in codes(tmp_path / "unit.o") if code.startswith("FP30")] == []
    with open_source(str(tmp_path / "unit.o")) as source:
        units = registration_record(source.view())["units"]
    assert [unit["read"] for unit in units] == ["lto"]


NVCC = """
__device__ int counter;
__global__ void first(int *p) { *p += 1; }
extern "C" __global__ void plain(int *p) { *p = counter; }
namespace { __global__ void hidden(int *p, float q) { *p = 3 * q; } }
template <class T> __global__ void many(T *p) { *p = 7; }
void launch(int *p) {
  first<<<1, 1>>>(p); plain<<<1, 1>>>(p); hidden<<<1, 1>>>(p, 1); many<<<1, 1>>>(p); many<<<1, 1>>>((float *)p);
}
"""


def objcopied(path: Path, *options: str) -> list[str]:
    broken = path.with_suffix(".broken.o")
    reference.run("objcopy", *options, path, broken)
    return codes(broken)


@pytest.mark.parametrize(
    "options",
    [
        (),
        *(
            pytest.param(option, marks=pytest.mark.slow)
            for option in [
                ("-Xcompiler=-O0",),
                ("-O2",),
                ("-Xcompiler=-Os",),
                ("-Xcompiler=-fPIC",),
                ("-O2", "-Xcompiler=-ffunction-sections"),
                ("-rdc=true",),
            ]
        ),
    ],
)
def test_objects_of_nvcc(tmp_path: Path, options: tuple[str, ...]) -> None:
    source, path = tmp_path / "unit.cu", tmp_path / "unit.o"
    source.write_text(NVCC)
    reference.run("nvcc", "-arch=sm_80", *options, "-c", source, "-o", path)
    assert codes(path) == []
    with open_source(str(path)) as opened:
        (unit,) = registration_record(opened.view())["units"]
    assert (unit["producer"], unit["kernel_count"], unit["unread"]) == ("nvcc calls", 5, 0)
    without_constructor = [f"--remove-section={name}.init_array" for name in (".rela", "")]
    assert objcopied(path, *without_constructor) == ["FP3043"]
    renamed = "--redefine-sym=__cudaRegisterFunction=__cudaRegisterVar"
    assert objcopied(path, renamed) == ["FP3042"]
    if "-rdc=true" in options:
        return
    assert objcopied(path, "--remove-section=.rela.nvFatBinSegment") == ["FP3032", "FP3033"]
    data = path.read_bytes()
    (tmp_path / "named.o").write_bytes(data.replace(b"\0plain\0", b"\0plaim\0"))
    changed = data.replace(b"\xb1\x43\x62\x46\x01", b"\xb2\x43\x62\x46\x01")
    (tmp_path / "magic.o").write_bytes(changed)
    assert "FP3031" in codes(tmp_path / "magic.o")
