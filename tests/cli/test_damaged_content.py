"""Compressed content that does not have its stored hash is told of, and never written anew with a right one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.conftest import Ran

Fatpack = Callable[..., Ran]
ID = "hip-amdgcn-amd-amdhsa--gfx90a"


@pytest.fixture(params=[3_000, 300_000], ids=["small", "large"])
def damaged(request: pytest.FixtureRequest, folder: Path, fatpack: Fatpack) -> Path:
    """A compressed bundle, alone and in an object, whose stored hash is another one."""
    (folder / "image").write_bytes(bytes(range(250)) * (request.param // 250))
    (folder / "other").write_bytes(b"other")
    images = [f"--image=file=image,id={ID}", "--image=file=other,id=hip-amdgcn-amd-amdhsa--gfx1030"]
    assert fatpack("pack", "--format=bundle", "--compress", *images, "-o", "good").code == 0
    data = bytearray((folder / "good").read_bytes())
    data[24] ^= 0xFF
    (folder / "bad").write_bytes(data)
    assert fatpack("embed", "host.o", "bad", "-o", "bad.o", "--force").code == 0
    return folder


def test_extracting_says_so_and_still_writes(damaged: Path, fatpack: Fatpack) -> None:
    for selected in ((), ("--arch=gfx90a",)):
        ran = fatpack("extract", "bad", *selected, "-d", f"out{len(selected)}")
        assert (ran.code, ran.err.count("error FP1304")) == (3, 1)
        assert len(list((damaged / f"out{len(selected)}").iterdir())) == 2 - len(selected)


def test_converting_is_refused_unless_told(damaged: Path, fatpack: Fatpack) -> None:
    ran = fatpack("convert", "bad", "--format=bundle", "--compress", "-o", "x")
    assert (ran.code, "FP1304" in ran.err) == (3, True)
    assert not (damaged / "x").exists()
    assert fatpack("convert", "bad", "--format=bundle", "-o", "x", "--lossy").code == 0


def test_removing_is_refused(damaged: Path, fatpack: Fatpack) -> None:
    ran = fatpack("remove", "bad.o", "--arch=gfx1030", "-o", "x.o")
    assert (ran.code, "the hash is" in ran.err) == (3, True)
    assert not (damaged / "x.o").exists()
