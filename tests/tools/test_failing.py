"""Messages of stand-ins if standard output, an output or an input fails: in the form of their originals."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.laws.rooms import FIXTURES
from tests.reference import llvm_tool

from fatpack.tools import TOOLS

#: Copied: llvm-objdump writes beside what it reads.
HIP = "clang-22-hip.o"
TABLE = FIXTURES / "file_table" / "images.table"
FATBIN = FIXTURES / "cuda_fatbin" / "v130_size.fatbin"
CUDA = FIXTURES / "cuda_fatbin" / "hosts" / "clang_min.o"

#: A file that is there, can be opened, and cannot be read.
UNREADABLE = "/proc/self/mem"

pytestmark = pytest.mark.skipif(not os.path.exists("/dev/full"), reason="the system has no /dev/full")

#: What LLVM's library says, which DPC++'s tools are linked with.
LLVM = "LLVM ERROR: IO failure on output stream: No space left on device"

#: stand-in → a command line that prints, and what it says where that fails
PRINTING = {
    "llvm-offload-binary": (["--help"], LLVM),
    "clang-offload-bundler": (["--help"], LLVM),
    "llvm-objdump": (["--offloading", HIP], LLVM),
    "llvm-readobj": (["--offloading", HIP], LLVM),
    "llvm-offload-wrapper": (["--help"], LLVM),
    "clang-offload-wrapper": (["-kind=sycl", "-o", "-", "in"], LLVM),
    "clang-offload-deps": (["-targets=sycl-spir64", "-outputs=-", HIP], LLVM),
    "clang-offload-extract": (["--help"], LLVM),
    "llvm-foreach": (["--help"], LLVM),
    "cuobjdump": (["-lelf", str(FATBIN)], "cuobjdump fatal   : standard output: No space left on device"),
    "fatbinary": (["--help"], "fatbinary fatal   : standard output: No space left on device"),
    "nvprune": (["--help"], "nvprune fatal   : standard output: No space left on device"),
    "roc-obj-ls": ([HIP], "Error: standard output: No space left on device"),
    "roc-obj-extract": (["-o", "-", "file://in#offset=0&size=4"], "Error: standard output: No space left on device"),
}

#: stand-in → a command line with a device for an output, or an input that cannot be read, and how its words begin
OTHERS = [
    ("llvm-offload-binary", ["-o", "/dev/full", "--image=file=in,triple=t"], "llvm-offload-binary: error: "),
    ("llvm-offload-binary", ["-o", "x", f"--image=file={UNREADABLE},triple=t"], "llvm-offload-binary: error: "),
    ("clang-offload-bundler", ["-type=o", "-list", f"-input={UNREADABLE}"], "clang-offload-bundler: error: "),
    ("llvm-objdump", ["--offloading", UNREADABLE], f"llvm-objdump: error: '{UNREADABLE}': "),
    ("llvm-readobj", ["--offloading", UNREADABLE], f"llvm-readobj: error: '{UNREADABLE}': "),
    ("clang-offload-wrapper", ["-kind=sycl", "-o", "/dev/full", "in"], "clang-offload-wrapper: error: '/dev/full': "),
    ("clang-offload-deps", ["-targets=sycl-spir64", "-outputs=/dev/full", HIP], "clang-offload-deps: error: "),
    ("clang-offload-extract", [UNREADABLE], "error     "),
    ("file-table-tform", ["-extract=Code", "-o", "/dev/full", str(TABLE)], "error: '/dev/full': "),
    ("file-table-tform", ["-extract=Code", "-o", "x", UNREADABLE], "error: "),
    ("llvm-foreach", [f"--in-file-list={UNREADABLE}", "--in-replace={}", "--", "true", "{}"], "llvm-foreach: "),
    ("cuobjdump", ["-lelf", UNREADABLE], "cuobjdump fatal   : "),
    ("fatbinary", ["--create=x", f"--image3=kind=elf,sm=80,file={UNREADABLE}"], "fatbinary fatal   : "),
    ("nvprune", ["-arch", "sm_80", "-o", "x", UNREADABLE], "nvprune fatal   : "),
    (
        "nvprune",
        ["-arch", "sm_80", "-o", "/dev/full", str(CUDA)],
        "nvprune fatal   : Could not open output file '/dev/full'",
    ),
    ("roc-obj-ls", [UNREADABLE], "Error: failed to open file: "),
    ("roc-obj-extract", ["-o", "-", f"file://{UNREADABLE}#offset=0&size=4"], f"Error: {UNREADABLE}: "),
    ("cir-offload-merge", ["-split", f"-input={UNREADABLE}", "-output=x", "-targets=host-x"], "error: "),
]


def test_every_family_of_stand_ins_is_tried() -> None:
    assert {TOOLS[name].partition(".")[0] for name in PRINTING} == {
        module.partition(".")[0] for module in TOOLS.values()
    }


@pytest.mark.parametrize("name", PRINTING)
def test_a_full_disk_at_standard_output_is_reported_like_the_original(name: str, tmp_path: Path) -> None:
    arguments, said = PRINTING[name]
    code, error = _run([sys.executable, "-m", "fatpack", "tool", name, *arguments], tmp_path, full=True)
    assert (code, error) == (1, said)


@pytest.mark.reference
@pytest.mark.parametrize("version", ["22", "23"])
@pytest.mark.parametrize("name", ["llvm-offload-binary", "llvm-objdump", "llvm-readobj"])
def test_llvms_own_tools_say_the_same(name: str, version: str, tmp_path: Path) -> None:
    arguments, said = PRINTING[name]
    assert _run([llvm_tool(name, version), *arguments], tmp_path, full=True) == (1, said)


@pytest.mark.parametrize(("name", "arguments", "beginning"), OTHERS, ids=[f"{row[0]} {row[1][0]}" for row in OTHERS])
def test_files_that_fail_are_reported_in_the_form_of_the_original(
    name: str, arguments: list[str], beginning: str, tmp_path: Path
) -> None:
    code, error = _run([sys.executable, "-m", "fatpack", "tool", name, *arguments], tmp_path)
    assert code and error.startswith(beginning) and "fatpack" not in error
    assert code == (5 if name == "roc-obj-ls" else 1), "that script exits with the number of the system's error"
    assert {path.name for path in tmp_path.iterdir()} == {"in", HIP}


def _run(command: list[str], folder: Path, *, full: bool = False) -> tuple[int, str]:
    """Run a command and return its exit code, and the last line that it says of an error."""
    (folder / "in").write_text("text")
    shutil.copy(FIXTURES / "elf" / HIP, folder)
    with open("/dev/full" if full else os.devnull, "w") as stdout:
        done = subprocess.run(command, cwd=folder, stdout=stdout, stderr=subprocess.PIPE, text=True, check=False)
    lines = [line for line in done.stderr.splitlines() if "warning" not in line and "standing in" not in line]
    return done.returncode, lines[0] if lines else ""
