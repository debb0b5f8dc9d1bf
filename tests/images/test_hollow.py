"""Kernels that do nothing, compiled by the vendors' compilers for every architecture, and kernels that do something."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tests import reference
from tests.builders import fatbin

import fatpack

#: body of PTX → the word for it; the last does something
BODIES = {
    "ret;": "returns",
    "exit;": "returns",
    "trap;": "traps",
    ".reg .b32 %r<2>;\n$L__BB0_0:\nret;": "returns",
    "st.global.u32 [%rd1], 3;\nret;": None,
}

SMS = ("75", "80", "86", "88", "89", "90", "90a", "100", "100a", "103", "110", "120", "121")


def text(arch: str, body: str) -> str:
    """Return PTX with one kernel of this body."""
    number = int(arch.rstrip("a"))
    version = "9.0" if number in (88, 110) else "8.8" if number >= 100 else "8.0"
    registers = "" if "st.global" not in body else ".reg .b64 %rd<2>;\nld.param.u64 %rd1, [p];\n"
    return (
        f".version {version}\n.target sm_{arch}\n.address_size 64\n"
        f".visible .entry kernel(.param .u64 p)\n{{\n{registers}{body}\n}}\n"
    )


def bodies(path: Path) -> list[str | None]:
    """Return the word for each kernel of a file."""
    return [row.body for row in fatpack.rows(path, of="kernels") if row.kernel]


@pytest.mark.parametrize("body", BODIES)
def test_texts(tmp_path: Path, body: str) -> None:
    path = tmp_path / "k.ptx"
    path.write_text(text("80", body))
    assert bodies(path) == [BODIES[body]]


def test_a_text_that_is_cut_gets_no_word(tmp_path: Path) -> None:
    path = tmp_path / "k.ptx"
    path.write_text(text("80", "ret;").rpartition("ret;")[0])
    assert bodies(path) == [None]


@pytest.mark.reference
@pytest.mark.parametrize("arch", SMS)
def test_what_ptxas_makes_of_them(tmp_path: Path, arch: str) -> None:
    source, cubin = tmp_path / "k.ptx", tmp_path / "k.cubin"
    for body, word in {**BODIES, "L: bra L;": "loops"}.items():
        source.write_text(text(arch, body))
        reference.run("ptxas", f"-arch=sm_{arch}", source, "-o", cubin)
        assert bodies(cubin) == [word], body


@pytest.mark.reference
@pytest.mark.parametrize("processor", ["gfx803", "gfx906", "gfx90a", "gfx942", "gfx1030", "gfx1100", "gfx1201"])
def test_what_clang_makes_for_amd(tmp_path: Path, processor: str) -> None:
    source, path = tmp_path / "k.c", tmp_path / "k.hsaco"
    # gfx803 loads the queue's address before it traps, which is not judged.
    for body, word in (("", "returns"), ("__builtin_trap();", "traps"), ("*p = 1;", None)):
        source.write_text(f"__attribute__((amdgpu_kernel)) void kernel(int *p) {{ {body} }}\n")
        command = [reference.tool("clang"), "--target=amdgcn-amd-amdhsa", f"-mcpu={processor}", "-nogpulib", "-O2"]
        subprocess.run([*command, str(source), "-o", str(path)], check=True, capture_output=True)
        assert bodies(path) == [None if (processor, word) == ("gfx803", "traps") else word], body


@pytest.mark.reference
def test_check_fails_where_a_body_is_missing(tmp_path: Path) -> None:
    source, path = tmp_path / "k.cu", tmp_path / "k.o"
    source.write_text(
        "__global__ void guarded(float *p) {\n#if __CUDA_ARCH__ >= 800\n  *p = 1;\n#endif\n}\n"
        "__global__ void empty(float *p) {}\n"
    )
    codes = [f"-gencode=arch=compute_{arch},code=sm_{arch}" for arch in ("75", "80")]
    reference.run("nvcc", *codes, "-c", source, "-o", path)
    (violation,) = fatpack.check(path, no_hollow=True).violations
    assert (violation.code, violation.subject) == ("FP3323", "sm_75")
    assert (
        violation.message
        == "1 kernel certainly does nothing for sm_75, and something for sm_80: _Z7guardedPf only returns"
    )
    assert fatpack.check(path, no_hollow=True, allow_hollow=["guarded"])


def test_a_long_name_is_shown_without_its_middle(tmp_path: Path) -> None:
    name = "_Z" + "".join(f"part{number}" for number in range(99))
    entries = []
    for arch, body in ((75, "ret;"), (80, "st.global.u32 [%rd1], 3;\nret;")):
        made = text(str(arch), body).replace("kernel(", f"{name}(").encode()
        entries.append(fatbin.entry(made + bytes(-len(made) % 8), kind=fatbin.PTX, sm=arch))
    path = tmp_path / "k.fatbin"
    path.write_bytes(fatbin.fatbin(*entries))
    (violation,) = fatpack.check(path, no_hollow=True).violations
    shown = violation.message.rpartition(": ")[2].partition(" ")[0]
    assert len(shown) == 60
    assert (shown[:40], shown[40], shown[41:]) == (name[:40], "…", name[-19:])
    assert fatpack.check(path, no_hollow=True, allow_hollow=[name[200:300]])
