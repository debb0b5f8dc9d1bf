"""Images that inflate to more than what is kept in memory: every command ends, in a process that is watched."""

from __future__ import annotations

import random
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import zstandard
from tests.builders import fatbin

from fatpack import limits

#: seconds after which a command hangs: the slowest of them takes three on an idle core
PATIENCE = 120

#: name → words; OUT is a folder that is not there yet
COMMANDS = {
    "doctor": ["doctor", "FILE"],
    "inspect": ["inspect", "-v", "--kernels", "FILE"],
    "rows": ["inspect", "--rows", "jsonl", "--digests", "FILE"],
    "deep": ["inspect", "--deep", "FILE"],
    "check": ["check", "--verify", "FILE"],
    "require": ["check", "--require", "sm_80", "FILE"],
    "extract": ["extract", "FILE", "-d", "OUT"],
    "slim": ["slim", "FILE", "--for", "sm_80,sm_90", "-o", "OUT"],
    "explain": ["explain", "FILE", "--device", "sm_90"],
    "report": ["report", "FILE", "-o", "OUT"],
    "survey": ["survey", "FILE", "-o", "OUT"],
    "kernels": ["survey", "--kernels", "FILE", "-o", "OUT"],
    "diff": ["diff", "--kernels", "FILE", "OTHER"],
    "map": ["map", "FILE", "-d", "OUT", "--", "cp", "{in}", "{out}"],
}

NVSHMEM = "nvidia-nvshmem-cu12==3.4.5"


def large_cubin(sm: int) -> bytes:
    """Return a cubin that is larger than what is kept, whose tables are at its end."""
    return fatbin.cubin(sm, code=random.Random(sm).randbytes(128 << 10) * (5 * limits.INFLATED_KEPT // (4 << 17)))


def slow_cubin(sm: int) -> bytes:
    """Return one whose tables are in its middle: what follows them is inflated, slowly, while nobody waits for it."""
    random_bytes = random.Random(sm).randbytes(4 << 20)
    image = fatbin.cubin(sm, code=random_bytes[: 128 << 10] * 160)
    return image + random_bytes.translate(bytes(range(16)) * 16) * 3 + bytes(limits.INFLATED_KEPT)


def compressed(image: bytes, sm: int) -> bytes:
    stream = zstandard.ZstdCompressor(level=1).compress(image)
    return fatbin.entry(stream, sm=sm, flags=0x8011, inflated=len(image))


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fat binary of seven images, and another of six."""
    folder = tmp_path_factory.mktemp("large")
    entries = [compressed(large_cubin(sm), sm) for sm in (75, 80)]
    entries += [compressed(slow_cubin(sm), sm) for sm in (86, 89, 90, 100, 120)]
    (folder / "large.fatbin").write_bytes(fatbin.fatbin(*entries))
    (folder / "other.fatbin").write_bytes(fatbin.fatbin(*entries[1:]))
    return folder


def ends(words: list[str], values: dict[str, str], codes: tuple[int, ...]) -> None:
    arguments = [values.get(word, word) for word in words]
    ended = subprocess.run(
        [sys.executable, "-m", "fatpack", *arguments], capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert ended.returncode in codes, ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_ends(name: str, large: Path, tmp_path: Path) -> None:
    file, other = large / "large.fatbin", large / "other.fatbin"
    ends(COMMANDS[name], {"FILE": str(file), "OTHER": str(other), "OUT": str(tmp_path / "out")}, (0, 1))


@pytest.fixture(scope="module")
def nvshmem(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("nvshmem")
    pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:", "-d", str(folder)]
    pip += ["--platform", "manylinux2014_x86_64", "--python-version", "3.12", NVSHMEM]
    if subprocess.run(pip, capture_output=True, check=False).returncode:
        pytest.skip(f"{NVSHMEM} cannot be downloaded here")
    with zipfile.ZipFile(next(folder.glob("*.whl"))) as wheel:
        return Path(wheel.extract("nvidia/nvshmem/lib/libnvshmem_host.so.3", folder))


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in COMMANDS if name not in ("deep", "diff", "map")])
def test_every_command_ends_on_a_real_library(name: str, nvshmem: Path, tmp_path: Path) -> None:
    ends(COMMANDS[name], {"FILE": str(nvshmem), "OUT": str(tmp_path / "out")}, (0, 1))
