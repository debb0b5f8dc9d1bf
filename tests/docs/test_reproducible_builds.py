"""The page docs/how-to/reproducible-builds.md: its commands make two builds one file, and diffoscope sees images."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests import reference

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "how-to" / "reproducible-builds.md").read_text(encoding="utf-8")
SOURCE = 'extern "C" __global__ void twice(int *p) { p[threadIdx.x] *= 2; }\n'
COMMANDS = [
    re.sub(r"\n?$", "", block).split("\n")
    for block in re.findall(r"^```console\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with two builds of one source."""
    (tmp_path / "k.cu").write_text(SOURCE)
    for name in ("first.o", "second.o"):
        command = [reference.tool("nvcc"), "-c", "-arch=sm_80", "k.cu", "-o", name]
        subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    (tmp_path / "fatpack").symlink_to(Path(sys.executable).parent / "fatpack")
    return tmp_path


def run(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a line of the page; what it prints is both of its outputs."""
    path = f"{folder}:{os.environ['PATH']}"
    return subprocess.run(
        ["bash", "-c", f"{command} 2>&1"], cwd=folder, env={**os.environ, "PATH": path}, capture_output=True, text=True
    )


@pytest.mark.reference
def test_the_commands_make_two_builds_one_file(folder: Path) -> None:
    said = ""
    for line in COMMANDS[0]:
        if line.startswith("$ "):
            done = run(line[2:], folder)
            assert done.returncode == 0, done.stdout
            said = done.stdout
            continue
        assert re.search(re.escape(line).replace("…", "[^ \n]+"), said), (line, said)
    assert (folder / "first.o").read_bytes() == (folder / "other.o").read_bytes() != (folder / "second.o").read_bytes()


@pytest.mark.slow
@pytest.mark.reference
def test_diffoscope_compares_each_image(folder: Path) -> None:
    reference.tool("diffoscope")
    script = ROOT / "examples" / "diffoscope" / "fatpack_diffoscope.py"
    (line,) = COMMANDS[1]
    command = line[2:].replace("python3 fatpack_diffoscope.py", f"/usr/bin/python3 {script}")
    assert run(command, folder).returncode == 1
    assert "tmpxft_" in (folder / "report.txt").read_text()
    (folder / "k.cu").write_text(SOURCE.replace("2", "3"))
    again = [reference.tool("nvcc"), "-c", "-arch=sm_80", "k.cu", "-o", "second.o"]
    subprocess.run(again, cwd=folder, check=True, capture_output=True)
    assert run(command, folder).returncode == 1
    report = (folder / "report.txt").read_text()
    assert re.search(r"── \S*sm_80\S*\.cubin", report) and "fp1:sha256:" in report
    run("fatpack normalize first.o -o other.o && cp first.o second.o && fatpack normalize second.o --in-place", folder)
    assert run(command.replace("first.o", "other.o"), folder).returncode == 0
