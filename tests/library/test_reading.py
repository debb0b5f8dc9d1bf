"""Looking at files from Python, and taking images out of them."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest
from tests.builders import elf
from tests.laws.rooms import FIXTURES

import fatpack
from fatpack import Selector

CONTAINER = FIXTURES / "offload_binary" / "llvm-22-four.bin"


@pytest.mark.parametrize(
    "data",
    [CONTAINER, str(CONTAINER), CONTAINER.read_bytes(), bytearray(CONTAINER.read_bytes()), io.BytesIO],
    ids=["path", "str", "bytes", "bytearray", "stream"],
)
def test_every_kind_of_input_shows_the_same(data: object) -> None:
    given = io.BytesIO(CONTAINER.read_bytes()) if data is io.BytesIO else data
    with fatpack.open(given) as file:  # type: ignore[arg-type]
        assert (file.host, file.size, len(list(file.images()))) == ("raw", CONTAINER.stat().st_size, 4)
        assert file.items == (*file.containers, *file.findings)


def test_where_no_image_is_meant_there_are_no_paths(tmp_path: Path) -> None:
    assert fatpack.extract(CONTAINER, tmp_path, Selector(arch="no such")) == []
    assert fatpack.extract(b"no container", tmp_path) == []
    assert not list(tmp_path.iterdir())


def test_a_bundle_id_that_no_image_serves_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(fatpack.UsageError, match="no image for the bundle ID hip-amdgcn-amd-amdhsa--gfx90a"):
        fatpack.extract(CONTAINER, tmp_path, Selector(id="hip-amdgcn-amd-amdhsa--gfx90a"))
    assert not list(tmp_path.iterdir())


def test_a_member_that_is_not_there_leaves_no_file_open(tmp_path: Path) -> None:
    before = os.listdir("/proc/self/fd")
    with pytest.raises(fatpack.UsageError, match="no archive"):
        fatpack.open(CONTAINER, member="a.o")
    assert os.listdir("/proc/self/fd") == before


def test_a_file_says_what_was_not_searched() -> None:
    made = elf.Elf()
    made.add(".llvm.offloading", (FIXTURES / "offload_binary" / "llvm-22-four.bin").read_bytes())
    made.add(".text", b"code")
    data = made.build()
    with fatpack.open(data) as file:
        assert file.not_searched == (fatpack.NotSearched(".text", 1, 4),)
    with fatpack.open(data, deep=True) as file:
        assert file.not_searched == ()
