"""Linked PE programs and libraries, by lld and GNU ld, whole and broken, as they are and stripped."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests import reference
from tests.builders import registration
from tests.registration.analysis.test_programs import RUNTIME, judged

pytestmark = pytest.mark.reference

MSVC, MINGW, ARM = "x86_64-pc-windows-msvc", "x86_64-w64-windows-gnu", "aarch64-pc-windows-msvc"
MACHINES = {MSVC: "i386:x86-64", MINGW: "i386:x86-64", ARM: "arm64"}

#: what host objects need beside the runtime
REST = "int atexit() { return 0; }\nint _fltused;\nint DllMainCRTStartup() { return 1; }\nint start() { return 0; }\n"


def prepare(folder: Path, target: str) -> None:
    """Make the runtime as an import library and as an object."""
    names = re.findall(r"int (\w+)\(\)", RUNTIME)
    (folder / "rt.def").write_text("LIBRARY rt.dll\nEXPORTS\n" + "".join(f"{name}\n" for name in names))
    reference.run("llvm-dlltool", "-m", MACHINES[target], "-d", "rt.def", "-l", "rt.lib", cwd=folder)
    for name, text in (("rt", RUNTIME + REST), ("rest", REST)):
        (folder / f"{name}.c").write_text(text)
        options = [f"--target={target}", "-w", "-O1", "-ffreestanding", "-c", f"{name}.c", "-o", f"{name}.o"]
        reference.run("clang", *options, cwd=folder)


LLD = ["/nodefaultlib", "/subsystem:console", "/opt:noref"]
LINKS = {
    "program": ["lld-link", *LLD, "/entry:start", "unit.o", "rest.o", "rt.lib", "/out:program"],
    "library": ["lld-link", *LLD, "/dll", "/noentry", "unit.o", "rest.o", "rt.lib", "/out:program"],
    "static": ["lld-link", *LLD, "/entry:start", "/debug:symtab", "unit.o", "rt.o", "/out:program"],
    "mingw lld": ["ld.lld", "-m", "i386pep", "-e", "start", "unit.o", "rest.o", "rt.lib", "-o", "program"],
    "mingw ld": ["x86_64-w64-mingw32-ld", "-e", "start", "unit.o", "rest.o", "rt.lib", "-o", "program"],
}


def check(folder: Path, model: str, target: str, level: tuple[str, ...], links: list[str]) -> None:
    if "x86_64" in target:
        reference.package("capstone")
    embedded = registration.image(folder, model)
    prepare(folder, target)
    text = registration.host_ir(folder, model, target, *level, embedded=embedded)
    broken = {**registration.BROKEN, **(registration.BROKEN_PLAIN if level[0] == "-O0" else {})}
    for name, (edit, code) in {"whole": (str, ""), **broken}.items():
        registration.compiled(folder, edit(text), target, "unit", *level)
        for link in links:
            reference.run(*LINKS[link], cwd=folder)
            for is_stripped in (False, True) if link != "static" else (False,):
                if is_stripped:
                    reference.run("llvm-strip", "program", cwd=folder)
                names, found = judged(folder / "program")
                case = (name, link, is_stripped)
                if name == "whole":
                    assert (names, found) == (registration.KERNELS, []), case
                elif name in ("bad magic", "null pointer"):
                    assert any(re.fullmatch(code, each) for each in found), case
                elif name == "no constructor":
                    assert found in (["FP3043"], ["FP3041"]), case
                else:
                    assert found == [code], case


@pytest.mark.parametrize(("model", "target"), [("cuda", MSVC)])
def test_what_is_broken_is_found_in_linked_code(tmp_path: Path, model: str, target: str) -> None:
    check(tmp_path, model, target, ("-O0",), ["program"])


@pytest.mark.slow
@pytest.mark.parametrize("level", ["-O0", "-O2"])
@pytest.mark.parametrize(
    ("target", "links"),
    [(MSVC, ["program", "library", "static"]), (MINGW, ["mingw lld", "mingw ld"]), (ARM, ["program", "library"])],
)
@pytest.mark.parametrize("model", registration.MODELS)
def test_every_way_to_link(tmp_path: Path, model: str, target: str, links: list[str], level: str) -> None:
    check(tmp_path, model, target, (level,), links)


#: what nvcc compiles for a device link: a constructor that ends in a jump, without an entry in the table of unwinding
LINKED = """
  .text
  .p2align 4
sti:
  leaq wrapper(%rip), %rcx
  leaq callback(%rip), %rdx
  jmp registers
  .p2align 4
  .def registers; .scl 3; .type 32; .endef
  .seh_proc registers
registers:
  subq $40, %rsp
  .seh_stackalloc 40
  .seh_endprologue
  leaq wrapper(%rip), %rcx
  callq __cudaRegisterFatBinary
  addq $40, %rsp
  ret
  .seh_endproc
  .p2align 4
callback:
  ret
  .section .nvFatBinSegment,"dw"
  .p2align 3
wrapper:
  .long 0x466243b1, 1
  .quad container, 0
  .section .nv_fatbin,"dr"
  .p2align 3
container:
  .incbin "image.fatbin"
  .section .CRT$XCU,"dr"
  .p2align 3
  .quad POINTER
"""


def test_a_constructor_that_ends_in_a_jump(tmp_path: Path) -> None:
    reference.package("capstone")
    prepare(tmp_path, MSVC)
    image = registration.image(tmp_path, "cuda", "__attribute__((device)) int counter;\n")
    (tmp_path / "image.fatbin").write_bytes(image.read_bytes())
    for pointer, expected in (("sti", []), ("0", ["FP3043"])):
        (tmp_path / "unit.s").write_text(LINKED.replace("POINTER", pointer))
        reference.run("clang", f"--target={MSVC}", "-c", "unit.s", "-o", "unit.o", cwd=tmp_path)
        reference.run(*LINKS["program"], cwd=tmp_path)
        assert judged(tmp_path / "program")[1] == expected
