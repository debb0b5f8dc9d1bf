"""Looking at files from Python, and taking images out of them."""

from __future__ import annotations

import io
import os
import re
from pathlib import Path

import pytest
from tests.builders import elf
from tests.laws.rooms import FIXTURES

import fatpack
from fatpack import Selector
from fatpack.selectors.no_match import right_spelling

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


def test_where_no_image_is_selected_there_are_no_paths(tmp_path: Path) -> None:
    assert fatpack.extract(CONTAINER, tmp_path, Selector(arch="no such")) == ()
    assert fatpack.extract(b"no container", tmp_path) == ()
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


def test_a_file_and_its_images_are_as_python_has_files_and_sequences() -> None:
    with fatpack.open(CONTAINER) as file:
        assert list(file) == list(file.images())
        assert (file.name, file.closed) == (str(CONTAINER), False)
        images = file.images()
        assert images[:2] == (images[0], images[1]) and images[::-1][0] is images[3] and images[9:] == ()
        assert all(isinstance(image, fatpack.Image) for image in images)
        assert all(isinstance(found, fatpack.Container) for found in file.containers)
        assert isinstance(file.containers[0].images[0], fatpack.Image)
        for image in images:
            data = image.data.tobytes()
            assert image.read() == data and image.read(5) == data[:5] and image.read(1 << 40) == data
            for part in (slice(4), slice(-4, None), slice(2, 9), slice(7, 3), slice(0, 40, 3), slice(None, None, -1)):
                assert image.data[part] == data[part]
            assert [image.data[at] for at in (0, -1) if data] == [data[at] for at in (0, -1) if data]
            for outside in (len(data), ~len(data)):
                with pytest.raises(IndexError):
                    image.data[outside]
    assert file.closed
    for each in (found := fatpack.files([CONTAINER, CONTAINER])):
        last, closed = each, each.closed
        assert not closed
    assert last.closed and not found.unread


def test_extract_returns_paths(tmp_path: Path) -> None:
    paths = fatpack.extract(CONTAINER, tmp_path, arch="sm_80")
    (path,) = paths
    assert isinstance(path, Path) and path.parent == tmp_path
    assert (paths.unreadable, paths.unread) == ((), ())
    with pytest.raises(fatpack.UsageError, match="state all of them in the Selector"):
        fatpack.extract(CONTAINER, tmp_path, Selector(arch="sm_80"), form="cubin")


@pytest.mark.parametrize(
    ("pattern", "right"),
    [
        ("sm80", "sm_80"),
        ("SM_80", "sm_80"),
        ("sm-90a", "sm_90a"),
        ("sm8*", "sm_8*"),
        ("80", "sm_80"),
        ("8.0", "sm_80"),
        ("compute80", "compute_80"),
        ("gfx_90a", "gfx90a"),
        ("gfx90A", "gfx90a"),
        ("GFX90a", "gfx90a"),
    ],
)
def test_an_architecture_that_is_misspelled_is_reported(pattern: str, right: str, tmp_path: Path) -> None:
    with fatpack.open(CONTAINER) as file, pytest.warns(UserWarning, match=f"did you mean {re.escape(right)}\\?"):
        assert list(file.images(arch=pattern)) == []
    with pytest.warns(UserWarning, match="did you mean"):
        assert fatpack.extract(CONTAINER, tmp_path, arch=pattern) == ()
    with pytest.raises(fatpack.UsageError, match=f"did you mean {re.escape(right)}\\?"):
        fatpack.remove(CONTAINER, tmp_path / "x", Selector(arch=pattern))


@pytest.mark.parametrize("pattern", ["sm_70", "sm_*", "gfx90a", "gfx90a:xnack+", "!sm_80", "compute_80", "spirv64"])
def test_a_right_architecture_has_no_hint(pattern: str) -> None:
    assert right_spelling(pattern) == ""
