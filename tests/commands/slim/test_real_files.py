"""Libraries and wheels that other people made, slimmed for one device: proved, and sound to readers of such files.

Libraries are looked for below the folder that ``FATPACK_LIBRARIES`` names and in ``.corpus``, wheels below
``FATPACK_WHEELS``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from tests.reference import package, run, tool

from fatpack.main import main

pytestmark = [pytest.mark.slow, pytest.mark.reference]

CORPUS = Path(__file__).parents[3] / ".corpus"

#: name → options, the share of the old size that is left at most, and images that stay
LIBRARIES = {
    "libtorch_cuda.so": (["--for", "sm_90"], 0.25, 397),
    "libcublasLt.so.13": (["--for", "sm_90", "--allow-empty"], 0.85, 1911),
    "librocrand.so.1.1": (["--for", "gfx90a"], 0.66, 3),
}
#: the beginning of the name → options, the share of the old size, changed libraries, and how they end
WHEELS = {
    "bitsandbytes-0.50.2-py3-none-win_amd64": (["--for", "sm_90,gfx1100"], 0.3, 10, ".dll"),
    "nvidia_cublas-13.10.0.20-": (["--for", "sm_90", "--allow-empty"], 0.85, 2, ".so.13"),
}


def found(pattern: str, *folders: str | Path | None) -> Path:
    """Return the first file of a name below folders; skip the test if there is none."""
    for folder in filter(None, folders):
        for path in sorted(Path(folder).rglob(pattern)):
            return path
    pytest.skip(f"{pattern} is not here: make corpus, or set FATPACK_LIBRARIES and FATPACK_WHEELS")


def complaints(path: Path) -> list[bytes]:
    """Return what readers have to say against a library."""
    if path.suffix == ".dll":
        listed = run("llvm-readobj", "--file-headers", "--sections", "--coff-imports", "--coff-exports", path)
        return [listed.stderr.replace(os.fsencode(path), b"")]
    read = run("readelf", "-lSdW", path, check=False).stderr
    listed = run("llvm-readobj", "-l", "-S", "-d", "--notes", path, check=False).stderr
    return [read, listed.replace(os.fsencode(path), b"")]


@pytest.mark.parametrize("name", LIBRARIES)
def test_a_library_is_smaller_and_the_same(name: str, tmp_path: Path) -> None:
    options, share, kept = LIBRARIES[name]
    old, new, proof = found(name, os.environ.get("FATPACK_LIBRARIES"), CORPUS), tmp_path / name, tmp_path / "proof"
    assert main(["slim", str(old), *options, "-o", str(new), "--certificate", str(proof), "-q"]) in (0, 1)
    assert new.stat().st_size < share * old.stat().st_size
    assert len(json.loads(proof.read_text())["kept"]) == kept
    assert complaints(new) == complaints(old)
    again = tmp_path / "again"
    assert main(["slim", str(new), *options, "-o", str(again), "-q"]) in (0, 1)
    assert run("cmp", new, again).returncode == 0


@pytest.mark.parametrize("name", WHEELS)
def test_a_wheel_is_smaller_and_the_same(name: str, tmp_path: Path) -> None:
    options, share, count, ending = WHEELS[name]
    old = found(f"{name}*.whl", os.environ.get("FATPACK_WHEELS"), CORPUS / ".download")
    proof, dist = tmp_path / "proof", tmp_path / "dist"
    more = ["--local-version", "slim", "-d", str(dist), "--certificate", str(proof), "-q"]
    assert main(["slim", str(old), *options, *more]) in (0, 1)
    (new,) = dist.iterdir()
    assert new.stat().st_size < share * old.stat().st_size
    libraries = [item["path"] for item in json.loads(proof.read_text())["libraries"]]
    assert len(libraries) == count and all(path.endswith(ending) for path in libraries)
    folders = [tmp_path / "old", tmp_path / "new"]
    for wheel, folder in zip((old, new), folders, strict=True):
        with zipfile.ZipFile(wheel) as archive:
            for path in libraries:
                archive.extract(path, folder)
    for path in libraries:
        assert complaints(folders[1] / path) == complaints(folders[0] / path)
    check_tools(old, new, ending, tmp_path)


def check_tools(old: Path, new: Path, ending: str, folder: Path) -> None:
    """Tools for wheels take a new one, and say of it what they say of the old one."""
    python = [sys.executable, "-m"]
    package("check_wheel_contents")
    said = []
    for path in (old, new):
        done = subprocess.run([*python, "check_wheel_contents", "--no-config", path], capture_output=True)
        said.append((done.returncode, done.stdout.replace(os.fsencode(path), b"")))
    assert said[0] == said[1]
    subprocess.run([*python, "wheel", "unpack", "-d", folder / "unpacked", new], check=True, capture_output=True)
    if ending != ".dll":
        package("auditwheel")
        tool("patchelf")
        subprocess.run([*python, "auditwheel", "show", new], check=True, capture_output=True)
    platform = ["--platform", "win_amd64", "--only-binary=:all:"] if ending == ".dll" else []
    where = ["--no-index", "--no-deps", "--target", str(folder / "installed"), str(new)]
    environment = {"PIP_CONFIG_FILE": "/dev/null", "PATH": "/usr/bin:/bin", "HOME": str(folder)}
    subprocess.run([*python, "pip", "install", "-q", *platform, *where], check=True, env=environment)
    assert any(path.name.endswith(ending) for path in (folder / "installed").rglob("*"))
