"""The wheel of bitsandbytes 0.50.2, slimmed for one NVIDIA and one AMD device: installed, loaded, proved.

It is looked for in ``.corpus/.download``, where ``make corpus ARGS="--keep-downloads bnb-cuda118"`` leaves it, and in
the folder that ``FATPACK_WHEELS`` names. Its package needs torch, which is not installed for this: its libraries are
loaded.
"""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from tests.builders import stub_runtime
from tests.reference import package, tool

import fatpack as library
from fatpack import proof
from fatpack.io.open import open_source
from fatpack.main import main

pytestmark = [pytest.mark.slow, pytest.mark.reference]

NAME = "bitsandbytes-0.50.2-py3-none-manylinux_2_24_x86_64.whl"
FOLDERS = (os.environ.get("FATPACK_WHEELS"), Path(__file__).parents[3] / ".corpus" / ".download")

#: containers that libraries keep among their own data, where nobody follows the records
XPU = ("libbitsandbytes_xpu2025.so", "libbitsandbytes_xpu2026.so")


@pytest.fixture(scope="module")
def old() -> Path:
    for folder in filter(None, FOLDERS):
        found = [*Path(folder).rglob(NAME)]
        if found:
            return found[0]
    pytest.skip(f"{NAME} is not here: make corpus ARGS='--keep-downloads bnb-cuda118', or set FATPACK_WHEELS")


@pytest.fixture(scope="module")
def new(old: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    options = ["--for", "sm_90,gfx942", "--local-version", "sm90.gfx942", "-d", str(out), "-q"]
    assert main(["slim", str(old), *options]) == 0
    return out / NAME.replace("0.50.2", "0.50.2+sm90.gfx942")


@pytest.fixture(scope="module")
def libraries(old: Path, new: Path, tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Path, Path]]:
    """The libraries before and after, unpacked and installed."""
    folder = tmp_path_factory.mktemp("installed")
    with zipfile.ZipFile(old) as archive:
        archive.extractall(folder / "old")
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "-q", "--no-index", "--no-deps", "--target", folder / "new", new],
        check=True,
        env={"PIP_CONFIG_FILE": "/dev/null", "PATH": "/usr/bin:/bin", "HOME": str(folder)},
    )
    found = sorted((folder / "old").rglob("*.so"))
    assert len(found) == 16
    return [(path, folder / "new" / path.relative_to(folder / "old")) for path in found]


def test_it_is_a_quarter_of_what_it_was(old: Path, new: Path) -> None:
    assert old.stat().st_size == 43_139_553
    assert new.stat().st_size * 4 < old.stat().st_size


def test_every_container_keeps_what_the_devices_take_and_newer_ptx(libraries: list[tuple[Path, Path]]) -> None:
    for _, path in libraries:
        with library.open(path) as file:
            kept = {
                (image.form, image.target.arch)
                for found in file.containers
                for image in found.images
                if image.target.offload != "host"
            }
        if "_cuda" in path.name:
            assert {arch for form, arch in kept if form == "cubin"} == {"sm_90"}
            assert len({arch for form, arch in kept if form == "ptx"}) == 1
        elif "_rocm" in path.name:
            assert {arch for _, arch in kept} == {"gfx942"}


def test_wheel_and_auditwheel_say_what_they_said_before(old: Path, new: Path, tmp_path: Path) -> None:
    run = [sys.executable, "-m"]
    subprocess.run([*run, "wheel", "unpack", "-d", tmp_path, new], check=True, capture_output=True)
    package("check_wheel_contents")
    subprocess.run([*run, "check_wheel_contents", "--no-config", new], check=True, capture_output=True)
    package("auditwheel")
    tool("patchelf")
    shows = [*run, "auditwheel", "show"]
    said = [subprocess.run([*shows, path], check=True, capture_output=True, text=True).stdout for path in (old, new)]
    # Sets are printed in any order.
    words = [sorted(word.strip("{},'.") for word in text.split()[1:]) for text in said]
    assert words[0] == words[1]


def test_the_libraries_register_what_they_registered_before(libraries: list[tuple[Path, Path]], tmp_path: Path) -> None:
    total = 0
    for before, after in libraries:
        counts = stub_runtime.registered(before, tmp_path / before.stem)
        assert stub_runtime.registered(after, tmp_path / before.stem) == counts, after.name
        total += counts[0]
        if before.name not in (*XPU, "libbitsandbytes_cpu.so"):
            assert counts[0] and counts[1], before.name
    assert total == 7 + 2 * 6  # a device link of CUDA registers one, each unit of HIP one


def test_a_second_implementation_proves_every_library(libraries: list[tuple[Path, Path]]) -> None:
    for before, after in libraries:
        with open_source(str(before)) as one, open_source(str(after)) as other:
            verdict = proof.prove(one.view(), other.view())
        assert verdict.is_proved, verdict.differences
        if before.name not in (*XPU, "libbitsandbytes_cpu.so"):
            assert verdict.kept and verdict.dropped


def test_slimming_again_changes_nothing(new: Path, tmp_path: Path) -> None:
    assert main(["slim", str(new), "--for", "sm_90,gfx942", "-d", str(tmp_path), "-q"]) == 0
    assert (tmp_path / new.name).read_bytes() == new.read_bytes()
