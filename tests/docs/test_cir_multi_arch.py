"""The walk of docs/how-to/cir-multi-arch.md, run as written there, except the commands of ClangIR."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests import reference
from tests.laws.rooms import FIXTURES

import fatpack
from fatpack.main import main

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "cir-multi-arch.md").read_text()
CUDA, HIP = PAGE.split("## The same for HIP")

Walk = Callable[[str], None]


@pytest.fixture
def walk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Walk:
    """Run what a part of the page says in an empty folder: scripts as they are, commands of fatpack in this process.

    What the page shows below a command is what it has to print.
    """
    monkeypatch.chdir(tmp_path)
    tools = os.pathsep.join({os.path.dirname(reference.tool(name)) for name in ("clang", "ptxas", "ld.lld")})
    monkeypatch.setenv("PATH", f"{tools}{os.pathsep}{os.environ['PATH']}")

    def run(part: str) -> None:
        for language, block in re.findall(r"^```(sh|console)\n(.*?)^```$", part, re.MULTILINE | re.DOTALL):
            if language == "sh":
                done = subprocess.run(["bash", "-e", "-c", block], capture_output=True, text=True)
                assert (done.returncode, done.stderr) == (0, ""), block
                continue
            for shown in re.split(r"^\$ ", block.replace("\\\n", " "), flags=re.MULTILINE)[1:]:
                command, _, expected = shown.partition("\n")
                assert command.startswith("fatpack ")
                capsys.readouterr()
                assert main(shlex.split(command)[1:]) == 0, command
                assert not expected or capsys.readouterr().out == expected

    return run


def test_the_walk_from_modules_to_a_host_object(walk: Walk, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    walk(CUDA)
    assert ".nv_fatbin" in capsys.readouterr().out
    for name in ("d80", "d90", "h"):
        reference.run("mlir-opt", "--allow-unregistered-dialect", f"{name}.cir", cwd=tmp_path)
    with fatpack.open("host.o") as file:
        images = [(image.target.arch, image.data.tobytes()) for image in file.images()]
    assert images == [(arch, (tmp_path / f"{arch}.cubin").read_bytes()) for arch in ("sm_80", "sm_90")]
    registers = reference.run("llvm-nm", "host.o", cwd=tmp_path).stdout
    assert all(name in registers for name in (b"t __cuda_module_ctor", b"U __cudaRegisterFunction"))
    assert main(["inspect", "h.cir"]) == 0
    assert "the module knows no GPU binary" in capsys.readouterr().out
    # What the page says of an object that was compiled without the option.
    (line,) = re.findall(r"^clang [^$\n]* \\\n.*-o host\.o$", CUDA, re.MULTILINE)
    without = line.replace("-Xclang -fcuda-include-gpubinary -Xclang k.fatbin", "")
    subprocess.run(["bash", "-e", "-c", without], check=True)
    assert main(["inspect", "host.o"]) == 1
    said = capsys.readouterr().out
    assert "no device code found" in said
    assert "FP3041" in said


def test_the_walk_for_hip(walk: Walk, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    walk(HIP)
    assert ".hip_fatbin" in capsys.readouterr().out
    for name in ("d90a", "d942", "hhip"):
        reference.run("mlir-opt", "--allow-unregistered-dialect", f"{name}.cir", cwd=tmp_path)
    with fatpack.open("hiphost.o") as file:
        images = {image.target.arch: image.data.tobytes() for image in file.images() if image.size}
    assert images == {arch: (tmp_path / f"{arch}.hsaco").read_bytes() for arch in ("gfx90a", "gfx942")}
    registers = reference.run("llvm-nm", "hiphost.o", cwd=tmp_path).stdout
    assert all(name in registers for name in (b"t __hip_module_ctor", b"U __hipRegisterFunction"))


def test_modules_of_the_walk_may_have_other_ids_and_forms_before(
    walk: Walk, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    walk(CUDA.partition("## Split")[0])
    main(["convert", "k.cir", "--format=cir", "--cir-form=op-string", "-o", "old.cir"])
    old = (tmp_path / "old.cir").read_text()
    (tmp_path / "old.cir").write_text(re.sub(r'cir\.offload\.bundle_id = "[^"]*", ', "", old))
    (command,) = re.findall(r"`fatpack (convert old\.cir [^`]*)`", CUDA)
    ids = "host-x86_64-unknown-linux-gnu,cuda-nvptx64-nvidia-cuda--sm_80,cuda-nvptx64-nvidia-cuda--sm_90"
    before = (tmp_path / "k.cir").read_bytes()
    assert main([*command.replace("ID,ID,…", ids).split(), "-f"]) == 0
    assert (tmp_path / "k.cir").read_bytes() == before


def test_vendors_are_not_mixed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(FIXTURES / "cuda" / "cubin" / "k1.cuda13.0.sm_80.cubin", "a.cubin")
    code_object = next((FIXTURES).rglob("*.hsaco"), None) or next((FIXTURES).rglob("*gfx*.o"))
    shutil.copy(code_object, "a.hsaco")
    assert main(["pack", "--format=fatbin", "--image=file=a.cubin", "--image=file=a.hsaco", "-o", "x"]) == 2
    mixed = ["--image=file=a.cubin,kind=cuda,triple=nvptx64-nvidia-cuda,arch=sm_80"]
    assert main(["pack", "--format=bundle", *mixed, "-o", "x"]) == 2
    (tmp_path / "m.cir").write_text("module {\n}\n")
    ids = ("host-x86_64-unknown-linux-gnu", "cuda-nvptx64-nvidia-cuda--sm_80", "hip-amdgcn-amd-amdhsa--gfx90a")
    assert main(["pack", "--format=cir", *(f"--image=file=m.cir,id={id}" for id in ids), "-o", "x"]) == 2
    assert "CUDA and for HIP" in capsys.readouterr().err
    assert not (tmp_path / "x").exists()
