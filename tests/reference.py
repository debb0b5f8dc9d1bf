"""The tools that own the formats, for reference tests.

A missing tool skips the test with the reason on a user's machine and fails it where ``FATPACK_REQUIRE_REFERENCE=1``
(CI): a reference test can never pass by not running.
"""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any, NoReturn

import pytest

#: nvprune and AMD's scripts: where ``tools/reference/get_vendor_tools.sh`` put them.
VENDOR = os.environ.get("FATPACK_REFERENCE_VENDOR") or str(Path(__file__).parents[1] / ".reference/vendor/bin")

#: Where tools are looked for before PATH: a Debian LLVM 22, and the environment that ``.ci/run`` makes. Several folders
#: are separated as in PATH.
FOLDERS = ("/usr/lib/llvm-22/bin", *os.environ.get("FATPACK_REFERENCE_BIN", "").split(os.pathsep), VENDOR)


#: LLVM 23, which distributions do not install yet: where ``tools/reference/get_llvm23.sh`` put it.
LLVM23 = Path(os.environ.get("FATPACK_REFERENCE_LLVM23") or Path(__file__).parents[1] / ".reference/llvm23/bin")

#: LLVM 19, as Debian installs it.
LLVM19 = Path(os.environ.get("FATPACK_REFERENCE_LLVM19") or "/usr/lib/llvm-19/bin")


#: uv, variantlib and Hugging Face's kernels, each of one version: the environment that ``.ci/run`` makes for them.
VARIANTS = Path(os.environ.get("FATPACK_REFERENCE_VARIANTS") or Path(__file__).parents[1] / ".reference/variants/bin")


def missing(name: str) -> NoReturn:
    """Skip the running test for want of a tool; fail it where the tools are required."""
    reason = f"reference tool {name} is not installed (CONTRIBUTING.md lists the packages)"
    if os.environ.get("FATPACK_REQUIRE_REFERENCE") == "1":
        pytest.fail(reason)
    pytest.skip(reason)


def library(name: str) -> str:
    """Return the path of a shared library of LLVM 22; skip or fail the running test when it is missing.

    Debian keeps it in the folder of the release or in that of the machine's architecture.
    """
    folders = [Path("/usr/lib/llvm-22/lib"), *sorted(Path("/usr/lib").glob("*-linux-gnu"))]
    return next((str(folder / name) for folder in folders if (folder / name).exists()), None) or missing(name)


def nvvm_library() -> str:
    """Return the path of libnvvm, with which nvlink compiles LTO-IR; skip or fail the running test when it is missing.

    A toolkit has it in ``nvvm/lib64``, the packages of PyPI in ``lib``.
    """
    folder = Path(tool("nvlink")).resolve().parents[1]
    paths = [*folder.glob("nvvm/lib64/libnvvm.so*"), *folder.glob("lib/libnvvm.so*")]
    return str(paths[0]) if paths else missing("libnvvm.so")


def nvidia_library(name: str) -> str:
    """Return the path of a library of NVIDIA's packages; skip or fail the running test when it is missing.

    The packages of PyPI have it in ``lib`` beside the ``bin`` of the tools; a name with a version follows ``.so``.
    """
    for folder in filter(None, FOLDERS):
        found = sorted((Path(folder).parent / "lib").glob(f"{name}.*"))
        if found:
            return str(found[0])
    missing(name)


def tool(name: str) -> str:
    """Return the path of a reference tool; skip or fail the running test when it is missing.

    None runs on Windows: under wine those of the machine are seen, and take none of its paths.
    """
    if os.name == "nt":
        missing(name)
    for folder in filter(None, FOLDERS):
        path = Path(folder) / name
        if path.exists():
            return str(path)
    return shutil.which(name) or missing(name)


def llvm_tool(name: str, version: str) -> str:
    """Return the path of a tool of LLVM 19, 22 or 23; skip or fail the running test when it is missing."""
    if version == "22" or os.name == "nt":
        return tool(name)
    path = (LLVM19 if version == "19" else LLVM23) / name
    return str(path) if path.exists() else missing(f"{name} of LLVM {version}")


def variant_tool(name: str) -> str:
    """Return the path of uv, variantlib or the Python with them; skip or fail the running test when it is missing."""
    path = VARIANTS / name
    return str(path) if path.exists() and os.name != "nt" else missing(f"{name} of .reference/variants")


def package(name: str) -> Any:
    """Return a package of Python's, imported; skip or fail the running test when it is missing."""
    try:
        return importlib.import_module(name)
    except ImportError:
        missing(f"(Python package) {name}")


def run(
    *command: str | os.PathLike[str], cwd: Path | None = None, check: bool = True
) -> subprocess.CompletedProcess[bytes]:
    """Run a reference tool by name with arguments; return the finished process with its output as bytes."""
    name, *arguments = command
    done = subprocess.run([tool(str(name)), *map(str, arguments)], cwd=cwd, capture_output=True)
    if check and done.returncode:
        pytest.fail(f"{name} failed with {done.returncode}: {done.stderr.decode(errors='replace')}")
    return done
