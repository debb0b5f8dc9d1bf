"""The page docs/how-to/put-in-place.md: its commands run with the compilers that are here."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests import reference

from fatpack.tools.install.messages import NVCC as NVCC_LINES

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "put-in-place.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```sh\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
(HIP,) = re.findall(r"^```c\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
PLACING, REMOVING, VERSIONS, WHICH, CLANG, NVCC, CMAKE = BLOCKS

KERNEL = "__global__ void k(int *p) { *p = 1; }\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with sources, and a `fatpack` to run in ``bin``."""
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "fatpack"
    program.write_text(
        f"#!{sys.executable}\nimport sys\nsys.path[:0] = {sys.path!r}\nfrom "
        "fatpack.main import main\nsys.exit(main())\n"
    )
    program.chmod(0o755)
    (tmp_path / "k.cu").write_text(KERNEL)
    (tmp_path / "k.hip").write_text(HIP)
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.20)\nproject(p LANGUAGES CXX CUDA)\nadd_library(k STATIC ../k.cu)\n"
    )
    return tmp_path


def run(folder: Path, script: str, *, code: int = 0) -> str:
    """Run lines of the page; return what they print."""
    path = os.pathsep.join([str(folder / "bin"), "/usr/bin", "/bin"])
    done = subprocess.run(
        ["sh", "-e", "-c", script], cwd=folder, env={**os.environ, "PATH": path}, capture_output=True, text=True
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


def test_links_are_placed_and_removed(folder: Path) -> None:
    run(folder, PLACING + VERSIONS)
    assert (folder / "stand-ins" / "llvm-offload-binary-23").is_symlink()
    assert "PATH      fatpack" in run(folder, f"PATH={folder}/stand-ins:$PATH {WHICH.replace('clang-off', '# ')}")
    run(folder, REMOVING)
    assert list((folder / "stand-ins").iterdir()) == []


@pytest.mark.reference
def test_clang_calls_them(folder: Path) -> None:
    os.symlink(reference.tool("clang"), folder / "bin" / "clang")
    run(folder, PLACING + CLANG)
    called = subprocess.run(
        ["sh", "-c", f"{CLANG.strip()} -###"],
        cwd=folder,
        capture_output=True,
        text=True,
        env={**os.environ, "PATH": f"{folder}/bin:/usr/bin:/bin"},
    )
    assert f'"{folder}/stand-ins/clang-offload-bundler"' in called.stderr


def test_installing_says_what_the_page_says_of_nvcc(folder: Path) -> None:
    assert "".join(f"{line}\n" for line in NVCC_LINES).replace("{place}", "stand-ins") in NVCC
    said = run(folder, f"({PLACING}) 2>&1")
    for line in NVCC_LINES:
        assert line.replace("{place}", f"{folder}/stand-ins") in said


def nvcc() -> Path:
    """Return the nvcc of a whole toolkit; skip the test without one."""
    found = shutil.which("nvcc")
    said = (
        subprocess.run([found, "--dryrun", "-c", "-x", "cu", os.devnull], capture_output=True, text=True).stderr
        if found
        else ""
    )
    here = re.search(r"_HERE_=(.*)", said)
    path = Path(here[1]) / "nvcc" if here else Path(reference.tool("nvcc"))
    if not list(path.parents[1].glob("lib*/libcudart_static.a")):
        reference.missing("nvcc with the libraries of a CUDA toolkit, which CMake looks for")
    return path


@pytest.mark.slow
@pytest.mark.reference
def test_nvcc_and_cmake_call_them(folder: Path) -> None:
    """A script tells what is called; fatbinary's file is the one that the original makes."""
    original = nvcc()
    (folder / "bin" / "nvcc").write_text(f'#!/bin/sh\nexec {original} "$@"\n')
    (folder / "bin" / "nvcc").chmod(0o755)
    run(folder, PLACING + NVCC)
    assert f"#$ PATH={folder}/stand-ins:" in run(folder, '"$PWD/stand-ins/nvcc" --dryrun -c k.cu 2>&1')
    run(folder, "nvcc -fatbin k.cu -o original.fatbin")
    assert (folder / "k.fatbin").read_bytes() == (folder / "original.fatbin").read_bytes()
    link = folder / "stand-ins" / "fatbinary"
    link.unlink()
    link.write_text('#!/bin/sh\necho called >> "$CALLS"\nexec fatpack tool fatbinary "$@"\n')
    link.chmod(0o755)
    calls = folder / "calls"
    run(folder, f"export CALLS={calls}\n{reference.tool('cmake') and CMAKE}")
    assert calls.read_text().startswith("called")
    assert (folder / "build" / "libk.a").exists()
