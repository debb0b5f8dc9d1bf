"""The walk of docs/how-to/compile-what-is-in-a-file.md, with the compilers that it names."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest
from tests.laws.rooms import FIXTURES
from tests.reference import run, tool

import fatpack
from fatpack.main import main

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "compile-what-is-in-a-file.md"


def commands() -> list[list[str]]:
    """Return the arguments of all commands of the page."""
    blocks = re.findall(r"```console\n(.*?)```", PAGE.read_text(), re.DOTALL)
    return [shlex.split(line)[2:] for block in blocks for line in block.splitlines()]


def test_every_command_of_the_page_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    folders = {str(Path(tool(name)).parent) for name in ("ptxas", "nvdisasm", "cuobjdump", "llc", "ld.lld")}
    monkeypatch.setenv("PATH", ":".join([*folders, "/usr/bin", "/bin"]))
    shutil.copy(FIXTURES / "cuda_fatbin" / "hosts" / "single.o", "fat.o")
    Path("k.c").write_text("__attribute__((amdgpu_kernel)) void add(int *p) { *p += 1; }\n")
    flags = ["-target", "amdgcn-amd-amdhsa", "-mcpu=gfx90a", "-nogpulib", "-c", "-emit-llvm"]
    run(tool("clang"), *flags, "k.c", "-o", "k.bc")
    image = "--image=file=k.bc,triple=amdgcn-amd-amdhsa,arch=gfx90a,kind=openmp"
    assert main(["pack", image, "-qo", "k.offload"]) == 0
    (script,) = re.findall(r"```sh\n(.*?)```", PAGE.read_text(), re.DOTALL)
    Path("compile.sh").write_text(script)
    walked = commands()
    assert [command[0] for command in walked] == ["map", "inspect", "map", "map", "map"]
    for command in walked:
        assert main(command) == 0, (command, capfd.readouterr().err)
    with fatpack.open("new.o") as file:
        assert [image.target.arch for image in file.images(form="cubin")] == ["sm_80", "sm_90", "sm_120"]
    with fatpack.open("k.new.offload") as file:
        assert [(image.target.arch, image.form) for image in file.images()] == [("gfx90a", "code-object")]
    assert len(list(Path("disassembled").iterdir())) == 2
    assert "REG:" in capfd.readouterr().out, "what the program printed is the result where nothing is written"
