"""Packages for others' package managers: Debian's are installed, conda's is tested, a container's files are run."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests import reference
from tests.builders import conda_channel
from tests.builders.debian import Debian

import fatpack

ROOT = Path(__file__).parents[2]
PACKAGING = ROOT / "tools/packaging"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
NEEDED = dict(re.findall(r"^([\w-]+) >= ([\d.]+)", "\n".join(PROJECT["dependencies"]), re.MULTILINE))


def test_debian_has_what_the_project_needs() -> None:
    control = (PACKAGING / "debian/control").read_text(encoding="utf-8")
    for name, version in NEEDED.items():
        if name in (PACKAGING / "debian/py3dist-overrides").read_text(encoding="utf-8").split():
            continue  # no package of Debian's
        assert f" python3-{name}" in control
        # 8.1 of click and 2.10.68 of construct are the oldest that any supported release has.
        assert f"python3-{name} (>= {version})" in control or name in {"click", "construct"}


@pytest.fixture
def debian13(tmp_path: Path) -> Iterator[Debian]:
    debian = Debian(tmp_path)
    yield debian
    debian("dpkg --purge fatpack python3-fatpack 2>/dev/null")


@pytest.mark.slow
def test_debian_13_builds_checks_and_installs_both_packages(debian13: Debian) -> None:
    work = debian13.work
    command = [sys.executable, "-m", "build", "-q", "--sdist", "--outdir", str(work), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True)
    version = fatpack.__version__
    shutil.copy(PACKAGING / "debian/build.sh", work)
    debian13(f"bash build.sh fatpack-{version}.tar.gz out")
    said = debian13("cd out; lintian --allow-root --pedantic --display-info *.deb")
    # Only who uploads to Debian has the number of a bug there to close.
    assert [line for line in said.splitlines() if "initial-upload-closes-no-bugs" not in line] == []
    debian13("dpkg --install out/*.deb")
    assert debian13("fatpack --version") == f"fatpack {version}\n"
    assert "fatpack" in debian13("man --where fatpack fatpack-slim; ls /usr/share/zsh/vendor-completions/_fatpack")
    debian13("ls /usr/share/bash-completion/completions/fatpack /usr/share/fish/vendor_completions.d/fatpack.fish")
    tests = f"cd out/fatpack-{version}; mkdir /mnt/auto; AUTOPKGTEST_TMP=/mnt/auto sh debian/tests/command"
    assert "15 images extracted" in debian13(f"{tests} 2>&1")


#: Tests of what needs nothing that only wheels bring: Debian has no lief, an older click, no compiler of devices.
PARTS = "io formats concurrency codecs packages inputs registration scanner images text".split()
PARTS += [f"binary/elf/test_{name}.py" for name in ("file", "header", "layout", "sections")]
PARTS += ["library/test_buffers.py", "library/test_reading.py", "commands/explain/test_cases.py"]


@pytest.mark.slow
@pytest.mark.parametrize("suite", ["trixie", "sid"])
def test_newer_pythons_run_the_tests_of_readers_and_answers(tmp_path: Path, suite: str) -> None:
    """A change in a newer version of Python's library is detected: tarfile took damage for the end of an archive."""
    debian = Debian(tmp_path, suite)
    for name in ("src", "tests", "tools", "docs"):
        shutil.copytree(ROOT / name, debian.work / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", debian.work)
    pythons = sorted(path.name for path in (debian.root / "usr/bin").glob("python3.*") if path.name[8:].isdigit())
    assert pythons
    for python in pythons:
        run = f"PYTHONPATH=/mnt/src:/mnt PYTHONDONTWRITEBYTECODE=1 {python} -m pytest -q -p no:cacheprovider"
        said = debian(f"{run} -m 'not slow and not gpu' {' '.join(f'tests/{part}' for part in PARTS)}")
        (passed,) = re.findall(r"(\d+) passed", said)
        assert int(passed) > 4000


def test_the_recipe_of_conda_renders_with_version_and_needs_of_the_source() -> None:
    rattler_build = pytest.importorskip("rattler_build")
    variants = rattler_build.Stage0Recipe.from_file(PACKAGING / "conda/recipe.yaml").render()
    recipe = variants[0].recipe.to_dict()
    assert len(variants) == 1
    assert recipe["package"] == {"name": "fatpack", "version": fatpack.__version__}
    # conda-forge's name of lief for Python is another.
    wanted = {f"{'py-lief' if name == 'lief' else name} >={version}" for name, version in NEEDED.items()}
    assert set(recipe["requirements"]["run"]) == {f"python {PROJECT['requires-python']}", *wanted}
    (command,) = PROJECT["scripts"].items()
    assert recipe["build"]["python"]["entry_points"] == [" = ".join(command)]
    for test in recipe["tests"]:
        for path in test.get("files", {}).get("source", []):
            assert (ROOT / path).is_dir()
        for path in test.get("package_contents", {}).get("files", []):
            assert (ROOT / path).is_file()


@pytest.mark.slow
def test_the_recipe_of_conda_builds_and_its_tests_pass(tmp_path: Path) -> None:
    """No channel of conda's is used: packages come from PyPI's wheels, under the names of conda-forge."""
    rattler_build = reference.package("rattler_build")
    hatchling = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["build-system"]["requires"]
    channel = conda_channel.make(tmp_path, ["pip", *hatchling, *NEEDED], {"lief": "py-lief"})
    command = [sys.executable, "-m", "build", "-q", "--sdist", "--outdir", str(tmp_path), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True)
    shutil.unpack_archive(tmp_path / f"fatpack-{fatpack.__version__}.tar.gz", tmp_path, filter="data")
    recipe = tmp_path / f"fatpack-{fatpack.__version__}/tools/packaging/conda/recipe.yaml"
    (variant,) = rattler_build.Stage0Recipe.from_file(recipe).render()
    result = variant.run_build(
        rattler_build.ToolConfiguration(test_strategy="native"),
        output_dir=tmp_path / "out",
        channels=[channel.as_uri()],
    )
    (package,) = map(Path, result.packages)
    assert package.parent.name == "noarch"
    assert package.name.startswith(f"fatpack-{fatpack.__version__}-pyh")


def standard_modules() -> list[str]:
    """Return the modules of Python's own library that the command may import; of URLs the image reads none."""
    nodes = (node for path in (ROOT / "src/fatpack").rglob("*.py") for node in ast.walk(ast.parse(path.read_bytes())))
    names = {"tomllib"}  # imported by its name in a string
    for node in nodes:
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
    return sorted(name for name in names - {"asyncio"} if name.split(".")[0] in sys.stdlib_module_names)


@pytest.mark.slow
def test_the_files_of_the_container_image_run_and_are_30_mb_at_most(tmp_path: Path) -> None:
    for name in ("mmdebstrap", "unzip"):
        reference.tool(name)
    if os.geteuid():
        reference.missing("root, for chroot,")
    command = [sys.executable, "-m", "build", "-q", "--wheel", "--outdir", str(tmp_path), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    root = tmp_path / "root"
    subprocess.run([PACKAGING / "container/root.sh", wheel, root], check=True, capture_output=True)
    # The forms of an image's layer: plain, or compressed.
    assert len(subprocess.run(["tar", "-C", root, "-c", "."], capture_output=True, check=True).stdout) <= 30_000_000
    shutil.copytree(ROOT / "tests/fixtures/offload_binary", root / "given")

    def inside(*words: str) -> tuple[int, str]:
        """Run Python in the image; return its exit code and its output."""
        command = ["chroot", root, "/usr/bin/python3", "-B", *words]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        return done.returncode, done.stdout

    assert inside("-c", "import sys; [__import__(name) for name in sys.argv[1:]]", *standard_modules()) == (0, "")
    assert inside("-m", "fatpack", "--version") == (0, f"fatpack {fatpack.__version__}\n")
    code, said = inside("-m", "fatpack", "extract", "/given", "-d", "/made")
    assert code == 0 and "15 images extracted" in said
    code, said = inside("-m", "fatpack", "survey", "/given", "--format=jsonl", "-o", "/table")
    assert code in (0, 3), said
    code, said = inside("-m", "fatpack", "inspect", "--nope")
    assert code == 2 and said.startswith("fatpack: error: ")
