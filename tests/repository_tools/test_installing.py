"""Installing: a wheel and an sdist that others like, from any checkout, with the tools that users install with."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

#: Packages with wheels on PyPI for the machines of their marker only (2026: lief 1.0, lz4 4.4, zstandard 0.25).
WHEELS = {
    "lief": {"x86_64", "AMD64", "aarch64", "arm64", "ARM64"},
    "lz4": {"x86_64", "AMD64", "aarch64", "arm64", "ARM64"},
    "zstandard": {"x86_64", "AMD64", "aarch64", "arm64", "ARM64", "ppc64le", "s390x"},
}


@pytest.mark.parametrize("machine", ["x86_64", "AMD64", "aarch64", "arm64", "ARM64", "ppc64le", "s390x", "riscv64"])
def test_no_machine_needs_a_compiler(machine: str) -> None:
    packaging = pytest.importorskip("packaging.requirements")
    needed = {
        requirement.name
        for requirement in map(packaging.Requirement, PROJECT["dependencies"])
        if requirement.marker is None or requirement.marker.evaluate({"platform_machine": machine})
    }
    assert needed == {"click", "construct", "packaging", "pyelftools"} | {
        name for name, have in WHEELS.items() if machine in have
    }


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that a build needs, without git and its tags."""
    folder = tmp_path_factory.mktemp("checkout")
    ignored = shutil.ignore_patterns("__pycache__", "*.pyc", "fixtures")
    for name in ("src", "share", "docs", "tools", "tests"):
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    for path in ROOT.iterdir():
        if path.is_file() and path.name != ".git":
            shutil.copy(path, folder)
    return folder


def built(source: Path, target: Path, *kinds: str) -> list[Path]:
    """Build in an environment of its own, as users' tools do."""
    command = [sys.executable, "-m", "build", "-q", *kinds, "--outdir", str(target), str(source)]
    done = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, "SOURCE_DATE_EPOCH": "1700000000"}
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return sorted(target.iterdir())


@pytest.fixture(scope="module")
def distributions(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A wheel and an sdist; the wheel is built from the sdist."""
    sdist, wheel = sorted(built(checkout, tmp_path_factory.mktemp("dist")), key=lambda path: path.suffix != ".gz")
    return wheel, sdist


@pytest.mark.slow
def test_two_builds_give_one_digest(distributions: tuple[Path, Path], checkout: Path, tmp_path: Path) -> None:
    for path in (checkout / "src").rglob("*.py"):
        os.utime(path, (1_000_000_000, 1_000_000_000))
    for first in distributions:
        again = next(path for path in built(checkout, tmp_path / first.suffix[1:]) if path.name == first.name)
        assert again.read_bytes() == first.read_bytes(), first.name


@pytest.mark.slow
def test_checkers_like_both(distributions: tuple[Path, Path]) -> None:
    wheel, sdist = map(str, distributions)
    for command in (["twine", "check", "--strict", wheel, sdist], ["check_wheel_contents", wheel]):
        done = subprocess.run([sys.executable, "-m", *command], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    # No address of people or of a page is public: pyroma wants both, and has nothing else to say.
    done = subprocess.run([sys.executable, "-m", "pyroma", sdist], capture_output=True, text=True)
    assert "Final rating" in done.stdout, done.stdout + done.stderr
    complaints = re.split(r"-{20,}\n", done.stdout)[-3].splitlines()
    assert [line for line in complaints if "author-email" not in line and "home page" not in line] == []


@pytest.mark.slow
def test_a_wheel_brings_what_shells_and_man_read(distributions: tuple[Path, Path]) -> None:
    names = {name.partition(".data/data/")[2] for name in zipfile.ZipFile(distributions[0]).namelist()}
    wanted = {path.relative_to(ROOT).as_posix() for path in (ROOT / "share").rglob("*") if path.is_file()}
    assert wanted <= names
    assert "share/man/man1/fatpack.1" in wanted


@pytest.mark.slow
@pytest.mark.parametrize("tool", ["uv", "pipx"])
def test_tools_install_a_command_that_places_stand_ins(
    distributions: tuple[Path, Path], tmp_path: Path, tool: str
) -> None:
    wheel = str(distributions[0])
    folders = {"UV_TOOL_DIR": "tools", "UV_TOOL_BIN_DIR": "bin", "PIPX_HOME": "tools", "PIPX_BIN_DIR": "bin"}
    folders |= {"PIPX_MAN_DIR": "man"}
    environment = {**os.environ, **{name: str(tmp_path / folder) for name, folder in folders.items()}}
    command = {
        "uv": ["uv", "tool", "install", "-q", "--python", sys.executable, wheel],
        "pipx": ["pipx", "install", "--python", sys.executable, wheel],
    }[tool]
    done = subprocess.run([sys.executable, "-m", *command], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    program = tmp_path / "bin" / "fatpack"
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    subprocess.run([program, "tool", "--install", tmp_path / "in"], capture_output=True, check=True)
    placed = subprocess.run([tmp_path / "in" / "fatbinary", "--version"], capture_output=True, text=True, check=True)
    assert said.split()[1] in placed.stdout
    assert (tmp_path / "in" / "fatbinary").readlink() == program
