"""Laws of what ``extract`` takes out: what is listed and called healthy comes out, and no damaged byte silently."""

from __future__ import annotations

import bz2
import gzip
import random
import tarfile
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.builders import conda, wheels
from tests.builders import packages as build
from tests.effort import some
from tests.laws.rooms import FIXTURES, format_fixtures
from tests.laws.test_verdicts import FILES

import fatpack
from fatpack.exit_codes import FINE
from fatpack.main import main

#: Containers whose images nothing but a package's checksum protects, and one bare image.
CONTENT = {
    "lib/four.so": (FIXTURES / "offload_binary/llvm-22-four.bin").read_bytes(),
    "lib/host.so": (FIXTURES / "demo/host.o").read_bytes(),
    "lib/k1.cubin": (FIXTURES / "cuda/cubin/k1.cuda13.0.sm_80.cubin").read_bytes(),
}


def extracted(path: Path, out: Path) -> tuple[int, Counter[bytes]]:
    """Return the exit code of ``extract`` and the contents of the files that it wrote."""
    code = main(["extract", str(path), "-q", "-d", str(out)])
    return code, Counter(each.read_bytes() for each in out.rglob("*") if each.is_file())


#: Packages in which each byte of content lies under a checksum, some of them twice.
NESTED: dict[str, Callable[[], bytes]] = {
    "a.whl": lambda: wheels.wheel(CONTENT),
    "stored.zip": lambda: build.zipped(CONTENT, zipfile.ZIP_STORED),
    "zip-in-zip.zip": lambda: build.zipped({"a.zip": build.zipped(CONTENT)}, zipfile.ZIP_STORED),
    "wheel-in-tar.tar.gz": lambda: gzip.compress(build.tarred({"a.whl": wheels.wheel(CONTENT)}), mtime=0),
    "tar.bz2": lambda: bz2.compress(build.tarred(CONTENT, tarfile.PAX_FORMAT)),
    "a-1-0.conda": lambda: conda.package(CONTENT, "a", "1", "0"),
}


def flip(name: str, places: int, tmp_path: Path) -> None:
    data, chosen = NESTED[name](), random.Random(name)
    path = tmp_path / name
    path.write_bytes(data)
    code, expected = extracted(path, tmp_path / "whole")
    assert (code, len(expected)) == (FINE, 5)
    for number, at in enumerate(sorted(chosen.sample(range(len(data)), places))):
        path.write_bytes(data[:at] + bytes([data[at] ^ 1 << chosen.randrange(8)]) + data[at + 1 :])
        code, found = extracted(path, tmp_path / str(number))
        assert code or found == expected, f"{name}: byte {at:#x}"


@pytest.mark.parametrize("name", NESTED)
def test_a_flipped_bit_is_told_or_changes_nothing(name: str, tmp_path: Path) -> None:
    flip(name, 12, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", NESTED)
def test_each_of_many_flipped_bits_is_told_or_changes_nothing(name: str, tmp_path: Path) -> None:
    flip(name, 300, tmp_path)


def test_what_is_healthy_is_extracted_and_what_is_listed_comes_out(tmp_path: Path) -> None:
    """Of each fixture ``extract`` writes as many files as rows list images, if it is healthy."""
    healthy = 0
    for number, path in enumerate(some(FILES)):
        if fatpack.doctor(path).verdict == "healthy":
            healthy += 1
            out = tmp_path / str(number)
            listed = sum(row.row == "image" for row in fatpack.rows([path]))
            code, found = extracted(path, out)
            assert (code, found.total()) == (FINE, listed), path
    assert healthy > 15


def flip_container(path: Path, places: int, tmp_path: Path) -> int:
    """Flip a bit at each of some places, and return how many of the files are healthy, and were extracted."""
    healthy = 0
    data, chosen = path.read_bytes(), random.Random(path.name)
    broken = tmp_path / path.name
    tmp_path.mkdir(exist_ok=True)
    for number in range(places):
        at = chosen.randrange(len(data))
        broken.write_bytes(data[:at] + bytes([data[at] ^ 1 << chosen.randrange(8)]) + data[at + 1 :])
        if fatpack.doctor(broken).verdict == "healthy":
            healthy += 1
            listed = sum(row.row == "image" for row in fatpack.rows([broken]))
            code, found = extracted(broken, tmp_path / str(number))
            assert (code, found.total()) == (FINE, listed), f"{path.name}: byte {at:#x}"
    return healthy


CONTAINERS = [path for _, path in format_fixtures()]


def test_a_flipped_container_that_is_healthy_is_extracted(tmp_path: Path) -> None:
    # Few bits are in what nothing vouches for.
    assert sum(flip_container(path, 8, tmp_path / path.parent.name) for path in CONTAINERS[::4]) > 2


@pytest.mark.slow
@pytest.mark.parametrize("path", CONTAINERS, ids=lambda path: path.name)
def test_each_of_many_flipped_containers_that_is_healthy_is_extracted(path: Path, tmp_path: Path) -> None:
    flip_container(path, 30, tmp_path)
