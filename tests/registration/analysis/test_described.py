"""OpenMP and SYCL: descriptors found by their shape, and findings about missing registrations of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests import reference

import fatpack
from fatpack.commands.inspect.registration import registration_record
from fatpack.io.open import open_source
from fatpack.registration.analysis import analyze
from fatpack.registration.analysis.model import RegistrationEvidence
from fatpack.scanner.context import detect_host

pytestmark = pytest.mark.reference

LINUX, ARM, WINDOWS = "x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu", "x86_64-pc-windows-msvc"
TARGETS = (LINUX, ARM, WINDOWS)

SOURCE = """
int main(void) {
  int x = 0;
#pragma omp target map(tofrom : x)
  x = 1;
#pragma omp target map(tofrom : x)
  x += 2;
  return x;
}
"""

RUNTIME = """
void __tgt_register_lib(void *p) {}
void __tgt_unregister_lib(void *p) {}
int __tgt_target_kernel(void *a, long b, int c, int d, void *e, void *f) { return 0; }
void __sycl_register_lib(void *p, long n) {}
void __sycl_unregister_lib(void *p, long n) {}
int atexit(void (*f)(void)) { return 0; }
"""

#: what LLVM 22's clang-linker-wrapper makes for a SYCL program with two images (OffloadWrapper.cpp)
SYCL22 = """
target triple = "TRIPLE"
%entry = type { i64, i16, i16, i32, ptr, ptr, i64, i64, ptr }
%image = type { i16, i8, i8, ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr }
%desc = type { i16, i16, ptr, ptr, ptr }
@target = internal constant [9 x i8] c"spir64-a\\00"
@options = internal constant [1 x i8] c"\\00"
@one = internal constant [16 x i8] c"abcdefghabcdefgh", section ".llvm.offloading", align 16
@two = internal constant [32 x i8] c"abcdefghabcdefghabcdefghabcdefgh", section ".llvm.offloading", align 16
@images = internal constant [2 x %image] [
  %image { i16 3, i8 8, i8 0, ptr @target, ptr @options, ptr @options, ptr @one,
    ptr getelementptr (i8, ptr @one, i64 16), ptr null, ptr null, ptr null, ptr null },
  %image { i16 3, i8 8, i8 0, ptr @target, ptr @options, ptr @options, ptr @two,
    ptr getelementptr (i8, ptr @two, i64 32), ptr null, ptr null, ptr null, ptr null } ]
@descriptor = internal constant %desc { i16 1, i16 2, ptr @images, ptr null, ptr null }
%ctor = type { i32, ptr, ptr }
@llvm.global_ctors = appending global [1 x %ctor] [%ctor { i32 1, ptr @sycl.descriptor_reg, ptr null }]
define internal void @sycl.descriptor_reg() section ".text.startup" {
  call void @__sycl_register_lib(ptr @descriptor)
  ret void
}
declare void @__sycl_register_lib(ptr)
"""


def evidence_of(path: Path) -> RegistrationEvidence:
    with open_source(str(path)) as source:
        view = source.view()
        evidence, _ = analyze.read_evidence(view, detect_host(view))
    assert evidence is not None
    return evidence


def codes(path: Path) -> list[str]:
    """Return the codes of registration that a file has, all that is read of it taken together."""
    with open_source(str(path)) as source:
        found = registration_record(source.view())["findings"]
    return sorted({item["code"] for item in found if item["code"].startswith(("FP304", "FP305"))})


def wrapped(folder: Path, version: str, kind: str, target: str) -> str:
    """Return the IR that llvm-offload-wrapper makes of an image."""
    image = folder / "image"
    image.write_bytes(b"\x7fimage 0" * 12)
    packed = folder / "image.bin"
    fatpack.pack([fatpack.ImageFile(image, triple="spir64", arch="")], packed)
    wrapper, code, text = reference.llvm_tool("llvm-offload-wrapper", version), folder / "w.bc", folder / "w.ll"
    reference.run(wrapper, f"--triple={target}", f"--kind={kind}", "-o", code, packed)
    reference.run(reference.llvm_tool("llvm-dis", version), code, "-o", text)
    return text.read_text()


def compiled(folder: Path, text: str, target: str, name: str, version: str = "22") -> Path:
    source, out = folder / f"{name}.ll", folder / f"{name}.o"
    source.write_text(text)
    reference.run(
        reference.llvm_tool("llc", version),
        f"-mtriple={target}",
        "-filetype=obj",
        "-relocation-model=pic",
        source,
        "-o",
        out,
    )
    return out


def without(text: str, word: str) -> str:
    kept = [line for line in text.splitlines() if not re.search(word, line)]
    assert len(kept) < len(text.splitlines())
    return "\n".join(kept) + "\n"


BROKEN = {"no constructor": (r"^@llvm.global_ctors", "FP3043"), "not called": (r"call .*_register_lib\(", "FP3053")}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("version", ["22", "23"])
def test_the_linker_wrapper_for_openmp(tmp_path: Path, version: str, target: str) -> None:
    text = wrapped(tmp_path, version, "openmp", target)
    whole = compiled(tmp_path, text, target, "whole", version)
    (descriptor,) = evidence_of(whole).descriptors
    size = (tmp_path / "image").stat().st_size
    assert [image.end - image.begin for image in descriptor.images] == [size]
    assert evidence_of(whole).binaries[0].wrapper == descriptor.at
    assert codes(whole) == []
    for name, (word, code) in BROKEN.items():
        assert codes(compiled(tmp_path, without(text, word), target, "broken", version)) == [code], name


@pytest.mark.parametrize("target", TARGETS)
def test_the_linker_wrapper_for_sycl(tmp_path: Path, target: str) -> None:
    older = SYCL22.replace("TRIPLE", target)
    whole = compiled(tmp_path, older, target, "older")
    (descriptor,) = evidence_of(whole).descriptors
    assert [(image.end - image.begin, image.target) for image in descriptor.images] == [
        (16, "spir64-a"),
        (32, "spir64-a"),
    ]
    assert codes(whole) == []
    for name, (word, code) in BROKEN.items():
        assert codes(compiled(tmp_path, without(older, word), target, "broken")) == [code], name
    newer = wrapped(tmp_path, "23", "sycl", target)
    whole = compiled(tmp_path, newer, target, "newer", "23")
    assert evidence_of(whole).descriptors == ()
    assert codes(whole) == []
    broken = compiled(tmp_path, without(newer, BROKEN["no constructor"][0]), target, "broken", "23")
    assert codes(broken) == ["FP3043"]


def openmp_host(folder: Path, target: str, *options: str) -> str:
    """Return the IR of host code with two regions."""
    (folder / "o.c").write_text(SOURCE)
    offload = ["-fopenmp", "-fopenmp-targets=amdgcn-amd-amdhsa", "-nogpulib", "--offload-host-only"]
    device = ["-Xopenmp-target", "-march=gfx90a", f"--target={target}", *options]
    reference.run("clang", *offload, *device, "-S", "-emit-llvm", "o.c", "-o", "o.ll", cwd=folder)
    return (folder / "o.ll").read_text()


LINKS = {
    "shared": ["-shared"],
    "static": ["-static", "-e", "main", "rt.o"],
    "relr": ["-shared", "-z", "pack-relative-relocs"],
}


@pytest.mark.parametrize("target", [LINUX, pytest.param(ARM, marks=pytest.mark.slow)])
def test_linked_programs_of_openmp(tmp_path: Path, target: str) -> None:
    reference.package("capstone")
    host = openmp_host(tmp_path, target, "-fPIC", "-O1")
    compiled(tmp_path, host, target, "o")
    assert codes(tmp_path / "o.o") == []
    lost = re.sub(r"^@\.offloading\.entry\..*$", "", host, flags=re.MULTILINE)
    lost = re.sub(r"^@llvm.used.*$|^@llvm.compiler.used.*$", "", lost, flags=re.MULTILINE)
    assert codes(compiled(tmp_path, lost, target, "lost")) == ["FP3050"]
    (tmp_path / "rt.c").write_text(RUNTIME)
    reference.run(
        "clang", f"--target={target}", "-fPIC", "-w", "-ffreestanding", "-c", "rt.c", "-o", "rt.o", cwd=tmp_path
    )
    text = wrapped(tmp_path, "22", "openmp", target)
    wrappers = {
        "whole": (text, []),
        "no constructor": (without(text, BROKEN["no constructor"][0]), ["FP3043"]),
        "not called": (without(text, BROKEN["not called"][0]), ["FP3053"]),
        "no wrapper": ("", ["FP3049"]),
    }
    for name, (wrapper, expected) in wrappers.items():
        inputs = ["o.o"]
        if wrapper:
            compiled(tmp_path, wrapper, target, "w")
            inputs.append("w.o")
        for link, options in LINKS.items():
            reference.run("ld.lld", "--eh-frame-hdr", *inputs, *options, "-o", "program", cwd=tmp_path)
            for is_stripped in (False, True):
                if is_stripped:
                    reference.run("llvm-strip", "program", cwd=tmp_path)
                found = codes(tmp_path / "program")
                has_no_names = link == "static" and is_stripped and wrapper
                if name == "not called" and not has_no_names:
                    found = [code for code in found if code != "FP3049"]  # by its names nothing registers them
                # Without names the descriptor is registered if code refers to it that constructors reach.
                nameless = ["FP3053"] if name == "no constructor" else []
                assert found == (nameless if has_no_names else expected), (name, link, is_stripped)
                if wrapper:
                    assert len(evidence_of(tmp_path / "program").descriptors) == 1, (name, link, is_stripped)


def test_a_hip_bundle_that_the_link_lacks(tmp_path: Path) -> None:
    source = ".globl f\nf:\n lea __hip_fatbin_0123456789abcdef(%rip), %rdi\n call __hipRegisterFatBinary@PLT\n"
    (tmp_path / "h.s").write_text(f".text\n{source}")
    reference.run("llvm-mc", "-filetype=obj", "-triple=x86_64-linux-gnu", "h.s", "-o", "h.o", cwd=tmp_path)
    reference.run("ld.lld", "-shared", "-z", "undefs", "--noinhibit-exec", "h.o", "-o", "h.so", cwd=tmp_path)
    assert "FP3051" in codes(tmp_path / "h.so")
