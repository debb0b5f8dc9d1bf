"""Linked programs and libraries, whole and broken, as they are and stripped: by following their code."""

from __future__ import annotations

import json
import re
from pathlib import Path

import jsonschema
import pytest
from tests import reference
from tests.builders import registration
from tests.builders.broken_programs import LINUX, runtime

import fatpack
from fatpack.commands.inspect.registration import registration_record
from fatpack.io.open import open_source
from fatpack.main import main
from fatpack.registration.analysis import x86
from fatpack.text.schemas import schema_text

pytestmark = pytest.mark.reference

RUNTIME = "".join(
    f"int {name}() {{ return 0; }}\n"
    for model in registration.MODELS
    for name in (
        f"{model}LaunchKernel",
        f"__{model}PushCallConfiguration",
        f"__{model}PopCallConfiguration",
        f"__{model}RegisterFunction",
        f"__{model}RegisterVar",
        f"__{model}RegisterFatBinary",
        f"__{model}RegisterFatBinaryEnd",
        f"__{model}UnregisterFatBinary",
    )
)
LINKS = {
    "shared": ["-shared"],
    "relr": ["-shared", "--pack-dyn-relocs=relr", "--gc-sections"],
    "position-independent": ["-pie", "-e", "0", "--dynamic-linker=/none", "librt.so"],
    "static": ["-static", "-e", "0", "rt.o"],
    "static, position-independent": ["-pie", "--no-dynamic-linker", "-e", "0", "rt.o"],
    "static, without a table of frames": ["-static", "--no-eh-frame-hdr", "-e", "0", "rt.o"],
}
#: programs with a static runtime: stripped, they have no names
STATIC = {name for name in LINKS if name.startswith("static")}


def judged(path: Path) -> tuple[set[str], list[str]]:
    """Return the kernels that are registered, and the codes of findings."""
    with open_source(str(path)) as source:
        record = registration_record(source.view())
    names = {each["name"] for unit in record["units"] for each in unit.get("kernels", ())}
    return names, sorted({item["code"] for item in record["findings"]})


def test_without_capstone_what_is_read_is_right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(x86, "is_available", lambda: False)
    check(tmp_path, "cuda", "x86_64-linux-gnu", ("-O2", "-fPIC"), ["shared"])


def test_what_capstone_would_read_is_reported_to_be_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(x86, "is_available", lambda: False)
    embedded = registration.image(tmp_path, "cuda")
    text = registration.host_ir(tmp_path, "cuda", "x86_64-linux-gnu", "-O1", "-fPIC", embedded=embedded)
    registration.compiled(tmp_path, text, "x86_64-linux-gnu", "unit", "-mcmodel=large", "-fPIC")
    reference.run("ld.lld", "-shared", "--eh-frame-hdr", "unit.o", "-o", "library.so", cwd=tmp_path)
    assert main(["inspect", "--runtime", str(tmp_path / "library.so")]) == 0
    out = capsys.readouterr().out
    assert "read in part: pip install capstone (the extra fatpack[code])" in out
    assert "not followed: " in out


def test_code_of_the_large_model_is_followed(tmp_path: Path) -> None:
    check(tmp_path, "cuda", "x86_64-linux-gnu", ("-O1", "-fPIC", "-mcmodel=large"), ["shared"])


def check(folder: Path, model: str, target: str, level: tuple[str, ...], links: list[str]) -> None:
    reference.package("capstone")
    embedded = registration.image(folder, model)
    (folder / "rt.c").write_text(f"{RUNTIME}int atexit() {{ return 0; }}\n")
    compile_runtime = [f"--target={target}", "-fPIC", "-w", "-ffreestanding", "-c", "rt.c", "-o", "rt.o"]
    reference.run("clang", *compile_runtime, cwd=folder)
    reference.run("ld.lld", "-shared", "rt.o", "-o", "librt.so", cwd=folder)
    text = registration.host_ir(folder, model, target, *level, embedded=embedded)
    broken = {**registration.BROKEN, **(registration.BROKEN_PLAIN if level[0] == "-O0" else {})}
    cases = {"whole": (str, ""), **broken}
    for name, (edit, code) in cases.items():
        registration.compiled(folder, edit(text), target, "unit", *level)
        for link in links:
            reference.run("ld.lld", "--eh-frame-hdr", "unit.o", *LINKS[link], "-o", "program", cwd=folder)
            for is_stripped in (False, True):
                if is_stripped:
                    reference.run("llvm-strip", "program", cwd=folder)
                names, found = judged(folder / "program")
                case = (name, link, is_stripped)
                is_nameless = link in STATIC and is_stripped
                if is_nameless and name == "no constructor":
                    # The optimiser drops what only a constructor used: nothing that has a shape is left.
                    assert found in (["FP3043"], []), case
                elif is_nameless and code == "FP3044":
                    assert found == ["FP3042"], case  # what nobody calls has no shape either
                elif name == "whole":
                    assert (names, found) == (registration.KERNELS, []), case
                elif name in ("bad magic", "null pointer"):
                    assert any(re.fullmatch(code, each) for each in found), case
                elif name == "no constructor":
                    assert found in (["FP3043"], ["FP3041"]), case
                else:
                    assert found == [code], case


@pytest.mark.parametrize(("model", "target"), [("cuda", "x86_64-linux-gnu"), ("hip", "aarch64-linux-gnu")])
def test_what_is_broken_is_found_in_linked_code(tmp_path: Path, model: str, target: str) -> None:
    check(tmp_path, model, target, ("-O0", "-fPIC"), ["shared"])


@pytest.mark.slow
@pytest.mark.parametrize("level", [("-O0", "-fPIC"), ("-O2", "-fPIC")], ids=" ".join)
@pytest.mark.parametrize("target", ["x86_64-linux-gnu", "aarch64-linux-gnu"])
@pytest.mark.parametrize("model", registration.MODELS)
def test_every_way_to_link(tmp_path: Path, model: str, target: str, level: tuple[str, ...]) -> None:
    check(tmp_path, model, target, level, list(LINKS))


def test_the_record_of_a_library_is_as_its_schema_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reference.package("capstone")
    embedded = registration.image(tmp_path, "cuda")
    text = registration.host_ir(tmp_path, "cuda", "x86_64-linux-gnu", "-O1", "-fPIC", embedded=embedded)
    registration.compiled(tmp_path, text, "x86_64-linux-gnu", "unit")
    reference.run("ld.lld", "-shared", "--eh-frame-hdr", "unit.o", "-o", "library.so", cwd=tmp_path)
    reference.run("llvm-ar", "rc", "both.a", "unit.o", "unit.o", cwd=tmp_path)
    names = [str(tmp_path / name) for name in ("library.so", "unit.o", "both.a")]
    assert main(["inspect", "--runtime", "--json", *names]) == 0
    document = json.loads(capsys.readouterr().out)
    jsonschema.validate(document, json.loads(schema_text("runtime")))
    units = [unit for file in document["files"] for unit in file["units"]]
    assert [(unit["linked"], unit["kernel_count"], unit["compared"]) for unit in units] == [
        (True, 6, True),
        *[(False, 6, True)] * 3,
    ]
    assert main(["inspect", "--runtime", names[0]]) == 0
    out = capsys.readouterr().out
    assert "registered: 6 kernels, 1 variable, by clang" in out
    assert all(f"kernel cuda {name} at 0x" in out for name in registration.KERNELS)


#: what nvcc compiles of two units of relocatable device code, and of their device link, with a runtime inside
DEVICE_LINK = r"""
struct record { int magic, version; const void *data, *more; };
__asm__(".section .nv_fatbin,\"a\"\n.balign 8\nimage: .incbin \"image.fatbin\"\n.previous");
extern const char image[];
static struct record units[2] __attribute__((section(".nvFatBinSegment"), used)) = {
  {0x466243b1, 1, image, 0}, {0x466243b1, 1, image, 0}};
static const void *joined[3];
static struct record linked __attribute__((section(".nvFatBinSegment"), used)) = {0x466243b1, 2, image, joined};
typedef void (*callback)(void **);
void **__cudaRegisterFatBinary(void *);
void __cudaRegisterFunction(void **, const void *, char *, const char *, int);
int cudaLaunchKernel(const void *, int, int, void **);
int calls;
__attribute__((noinline)) void a(int *p) { void *args[] = {&p}; cudaLaunchKernel(a, 1, 2, args); }
__attribute__((noinline)) void b(int *p) { void *args[] = {&p}; cudaLaunchKernel(b, 3, 4, args); }
static void register_a(void **h) { __cudaRegisterFunction(h, a, "a", "a", -1); }
static void register_b(void **h) { __cudaRegisterFunction(h, b, "b", "b", -1); }
static callback all[2];
static volatile int count;
#define UNIT(NAME, NUMBER) \
  __attribute__((noinline)) \
  void __cudaRegisterLinkedBinary_##NAME(callback call, void *data, void *module, void (*more)(void *)) { \
    more(module); \
    joined[NUMBER] = ((struct record *)data)->data; \
    all[count++] = call; \
    if (count == 2) { \
      void **h = __cudaRegisterFatBinary(&linked); \
      for (int i = 0; i < 2; i++) all[i](h); \
    } \
  } \
  static void use_##NAME(void *p) { calls += p != 0; } \
  __attribute__((constructor)) static void start_##NAME(void) { \
    __cudaRegisterLinkedBinary_##NAME(register_##NAME, &units[NUMBER], &calls, use_##NAME); \
  }
UNIT(a, 0)
UNIT(b, 1)
int begin(void) { int x; a(&x); b(&x); return 0; }
"""
PTX = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry a() { ret; }\n.visible .entry b() { ret; }\n"


@pytest.mark.parametrize("lost", ["", "b", "constructor"])
def test_kernels_of_a_device_link_are_read_without_names(tmp_path: Path, lost: str) -> None:
    """A stripped program passes the functions that register to those of nvcc's device link, as addresses."""
    reference.package("capstone")
    (tmp_path / "image.ptx").write_text(PTX)
    image = fatpack.ImageFile(tmp_path / "image.ptx", arch="sm_80")
    fatpack.pack([image], tmp_path / "image.fatbin", options=fatpack.FatbinOptions())
    source = DEVICE_LINK
    if lost == "b":
        source = source.replace('__cudaRegisterFunction(h, b, "b", "b", -1);', "calls++;")
    elif lost == "constructor":
        source = source.replace("constructor", "used")
    runtime(tmp_path, LINUX)
    (tmp_path / "u.c").write_text(source)
    options = [f"--target={LINUX}", "-O2", "-fPIC", "-w", "-funwind-tables", "-c", "u.c", "-o", "u.o"]
    reference.run("clang", *options, cwd=tmp_path)
    link = ["--eh-frame-hdr", "-static", "-e", "begin", "u.o", "rt.o", "-o", "program"]
    reference.run("ld.lld", *link, cwd=tmp_path)
    reference.run("llvm-strip", "program", cwd=tmp_path)
    names, found = judged(tmp_path / "program")
    assert (names, found) == ({"a", "b"} - {lost}, {"": [], "b": ["FP3045"], "constructor": ["FP3044"]}[lost])
