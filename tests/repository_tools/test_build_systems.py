"""Files for build systems: the function for CMake run by ctest, the script of the action for GitHub, the hook."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests import reference
from tests.builders import wheels
from tests.builders.policy_files import library
from tests.laws.rooms import FIXTURES

from fatpack.commands.check.command import command

ROOT = Path(__file__).parents[2]

_PROJECT = """
cmake_minimum_required(VERSION 3.18)
project(demo NONE)
enable_testing()
set(FATPACK_COMMAND {command})
include({module})
add_library(kernels SHARED IMPORTED)
set_target_properties(kernels PROPERTIES IMPORTED_LOCATION {library})
fatpack_check(kernels ARCHS {archs})
"""


@pytest.fixture
def fatpack(tmp_path: Path) -> Path:
    """The command, as a program of its own."""
    path = tmp_path / "bin" / "fatpack"
    path.parent.mkdir()
    code = f"import sys; sys.path[:0] = {sys.path!r}; from fatpack.main import main; sys.exit(main())"
    path.write_text(f"#!{sys.executable} -I\n{code}\n")
    path.chmod(0o755)
    return path


@pytest.mark.reference
@pytest.mark.parametrize(
    ("archs", "passes"),
    [("sm_80 sm_90", True), ("80-real 90-virtual", True), ("sm_80 sm_100", True), ("sm_75 sm_90", False)],
)
def test_ctest_runs_the_check_of_a_target(tmp_path: Path, fatpack: Path, archs: str, passes: bool) -> None:
    cmake, ctest = reference.tool("cmake"), reference.tool("ctest")
    (tmp_path / "libkernels.so").write_bytes(library("80 90 p90"))
    module = ROOT / "tools" / "cmake" / "FatpackCheck.cmake"
    text = _PROJECT.format(command=fatpack, module=module, library=tmp_path / "libkernels.so", archs=archs)
    (tmp_path / "CMakeLists.txt").write_text(text)
    build = tmp_path / "build"
    subprocess.run([cmake, "-S", str(tmp_path), "-B", str(build)], check=True, capture_output=True)
    done = subprocess.run([ctest, "--test-dir", str(build), "-V"], capture_output=True, text=True)
    assert (done.returncode == 0) is passes, done.stdout
    assert "fatpack_check.kernels" in done.stdout
    assert ("lacks sm_75" in done.stdout) is not passes


def test_the_script_of_the_action_takes_inputs_as_words(tmp_path: Path, fatpack: Path) -> None:
    text = (ROOT / "tools" / "ci" / "action.yml").read_text()
    script = text.rpartition("run: |\n")[2]
    (tmp_path / "a b.so").write_bytes(library("80"))
    (tmp_path / "$(touch hurt).so").write_bytes(library("80 90"))
    environment = {
        "PATH": f"{fatpack.parent}:/usr/bin:/bin",
        "FATPACK_PATHS": "a b.so\n$(touch hurt).so\n",
        "FATPACK_REQUIRE": "sm_80,sm_90",
        "FATPACK_ARGUMENTS": "--no-config --per unit",
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"),
    }
    done = subprocess.run(["bash", "-e", "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stdout.startswith("::error title=fatpack FP3303::a b.so: lacks sm_90")) == (1, True)
    assert "### fatpack check: failed" in (tmp_path / "summary.md").read_text()
    assert not (tmp_path / "hurt").exists()


@pytest.mark.parametrize("folder", ["", "slim"])
@pytest.mark.parametrize("version", ["", "git+https://example.com/fatpack"])
def test_the_action_installs_the_fatpack_that_it_is_part_of(tmp_path: Path, version: str, folder: str) -> None:
    """The public index has an unrelated project of this name."""
    text = (ROOT / "tools" / "ci" / folder / "action.yml").read_text()
    (script,) = re.findall(r"run: (python3 .*)", text)
    python = tmp_path / "python3"
    python.write_text('#!/bin/sh\nfor last; do :; done; echo "$last"\n')
    python.chmod(0o755)
    action = ROOT / "tools" / "ci" / folder
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "FATPACK_VERSION": version, "FATPACK_ACTION": str(action)}
    done = subprocess.run(["bash", "-e", "-c", script], env=environment, capture_output=True, text=True, check=True)
    installed = done.stdout.strip()
    assert installed == version if version else Path(installed).resolve() == ROOT.resolve()
    assert "FATPACK_ACTION: ${{ github.action_path }}\n" in text


@pytest.mark.parametrize(
    ("inputs", "code", "said"),
    [
        ({"FATPACK_DEVICES": "sm_90", "FATPACK_REQUIRE": "sm_90"}, 0, "passed"),
        ({"FATPACK_DEVICES": "sm_90", "FATPACK_REQUIRE": "sm_80"}, 1, "lacks sm_80"),
        ({}, 0, "less device code, and nothing else"),
        ({"FATPACK_ARGUMENTS": "--drop sm_99"}, 1, ""),
        ({"FATPACK_PATHS": "missing*.whl"}, 2, "no file is missing*.whl"),
    ],
)
def test_the_script_of_the_action_slims_proves_and_checks(
    tmp_path: Path, fatpack: Path, inputs: dict[str, str], code: int, said: str
) -> None:
    script = (ROOT / "tools" / "ci" / "slim" / "action.yml").read_text().rpartition("run: |\n")[2]
    (tmp_path / "my dist").mkdir()
    files = {"demo/libtwo.so": (FIXTURES / "cuda_fatbin" / "hosts" / "libtwo.so").read_bytes()}
    (tmp_path / "my dist" / "demo-1.5-py3-none-any.whl").write_bytes(wheels.wheel(files))
    (tmp_path / "pyproject.toml").write_text('[tool.fatpack.slim]\ndevices = "sm_90"\nkeep-ptx = "none"\n')
    environment = {
        "PATH": f"{fatpack.parent}:/usr/bin:/bin",
        "TMPDIR": str(tmp_path),
        "FATPACK_PATHS": "my dist/*.whl\n",
        "FATPACK_DIRECTORY": "slim wheels",
        **dict.fromkeys(("FATPACK_DEVICES", "FATPACK_REQUIRE", "FATPACK_ARGUMENTS"), ""),
        **inputs,
    }
    done = subprocess.run(["bash", "-e", "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert (done.returncode, said in done.stdout) == (code, True), (done.stdout, done.stderr)
    names = [path.name for path in (tmp_path / "slim wheels").iterdir()]
    tags = "1sm90" if inputs.get("FATPACK_DEVICES") else "1sm90.noptx"
    assert names == ([f"demo-1.5-{tags}-py3-none-any.whl"] if "demo" in " ".join(names) else [])
    assert bool(names) is (code == 0 or bool(inputs.get("FATPACK_REQUIRE")))


def test_the_hook_calls_a_command_that_is_there() -> None:
    text = (ROOT / ".pre-commit-hooks.yaml").read_text()
    assert "entry: fatpack check\n" in text
    (pattern,) = re.findall(r"files: '(.*)'", text)
    taken = ("x.so", "lib/libx.so.12", "a.dll", "dist/x-1.0-py3-none-any.whl", "k.cubin")
    assert all(re.search(pattern, name) for name in taken)
    assert not any(re.search(pattern, name) for name in ("x.py", "so.txt", "whl"))
    assert {option.name for option in command.options} >= {"require", "output", "no_config"}
