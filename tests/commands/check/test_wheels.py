"""Lists of architectures of public wheels agree with cuobjdump; ``FATPACK_WHEELS`` names a folder of them."""

from __future__ import annotations

import os
import re
import subprocess
import zipfile
from pathlib import Path

import pytest
from tests import reference

import fatpack

WHEELS = sorted(Path(os.environ.get("FATPACK_WHEELS", "nowhere")).glob("*.whl"))

#: bytes of a library that cuobjdump lists here within a minute
_MOST = 512 << 20


def listed(library: Path) -> set[str] | None:
    """Return what cuobjdump lists of a library: ``sm_90a`` for cubins, ``compute_90`` for PTX; None where it fails.

    It names cubins for sm_100f as those for sm_100 (cupy-cuda12x 14.2.0, nvidia-nccl-cu12 2.32.3), and ends at an
    image that it calls an invalid ELF, as in the library of bitsandbytes 0.50.2 for CUDA 12.1.
    """
    found = set()
    for option, word in (("--list-elf", "sm_"), ("--list-ptx", "compute_")):
        done = subprocess.run([reference.tool("cuobjdump"), option, str(library)], capture_output=True, text=True)
        if done.returncode and "No PTX file found" not in done.stdout + done.stderr:
            return None
        found |= {word + name for name in re.findall(r"\.sm_(\d+a?)f?\.(?:cubin|ptx)$", done.stdout, re.MULTILINE)}
    return found


@pytest.mark.slow
@pytest.mark.reference
@pytest.mark.skipif(not WHEELS, reason="FATPACK_WHEELS names no folder with wheels")
@pytest.mark.parametrize("wheel", WHEELS, ids=lambda path: path.name)
def test_architectures_of_a_wheel_are_those_that_cuobjdump_lists(wheel: Path, tmp_path: Path) -> None:
    made = fatpack.check(wheel, forbid="sm_52")
    ours = {item.path.partition("!")[2]: {arch for arch in item.archs if "_" in arch} for item in made.libraries}
    compared = 0
    with zipfile.ZipFile(wheel) as archive:
        for name, archs in ours.items():
            if archive.getinfo(name).file_size > _MOST or not any(arch.startswith("sm_") for arch in archs):
                continue
            archive.extract(name, tmp_path)
            theirs = listed(tmp_path / name)
            if theirs is not None:
                assert {arch.removesuffix("f") for arch in archs} == theirs, name
                compared += 1
    assert compared
