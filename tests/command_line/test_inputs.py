"""No command writes over a file that it reads, whatever is allowed with --force."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.conftest import Ran

import fatpack as library
from fatpack.binary import archive
from fatpack.errors import UsageError
from fatpack.io.source import BytesSource
from fatpack.io.write import write_pieces

Fatpack = Callable[..., Ran]
CUBIN = "--image=file=a.cubin,triple=nvptx64-nvidia-cuda,arch=sm_80,kind=cuda"
HIP = "--image=file=a.cubin,id=hip-amdgcn-amd-amdhsa--gfx90a"


def made(folder: Path, fatpack: Fatpack) -> None:
    assert fatpack("pack", CUBIN, "-o", "one.bin", "-q").code == 0
    assert fatpack("embed", "host.o", "one.bin", "-o", "fat.o", "-q").code == 0
    assert fatpack("pack", "--format=bundle", "--compress", HIP, "-o", "small.bundle", "-q").code == 1
    # A name made of the member's, the target and a number can be that of the archive itself.
    member = (b"own.a", BytesSource((folder / "one.bin").read_bytes(), "own.a").view())
    with open(folder / "own-nvptx64-nvidia-cuda-sm_80.0.cubin", "wb") as file:
        write_pieces(file.fileno(), archive.build_archive([member]))


@pytest.mark.parametrize(
    ("arguments", "read"),
    [
        (["pack", CUBIN, "--host=host.o", "-o", "a.cubin"], "a.cubin"),
        (["embed", "host.o", "one.bin", "-o", "one.bin"], "one.bin"),
        (["replace", "fat.o", "one.bin", "-o", "one.bin"], "one.bin"),
        (["extract", "small.bundle", "--index=0", "-o", "small.bundle"], "small.bundle"),
        (["extract", "own-nvptx64-nvidia-cuda-sm_80.0.cubin"], "own-nvptx64-nvidia-cuda-sm_80.0.cubin"),
    ],
)
def test_an_input_is_no_output(folder: Path, fatpack: Fatpack, arguments: list[str], read: str) -> None:
    made(folder, fatpack)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    ran = fatpack(*arguments, "--force")
    assert (ran.code, f"{read} is an input of this command" in ran.err) == (2, True)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_the_library_does_not_write_over_what_it_reads(folder: Path, fatpack: Fatpack) -> None:
    made(folder, fatpack)
    images = [library.ImageFile("a.cubin", triple="nvptx64-nvidia-cuda", arch="sm_80")]
    with pytest.raises(UsageError, match="is an input"):
        library.pack(images, "a.cubin", host="host.o", overwrite=True)
    with pytest.raises(UsageError, match="is an input"):
        library.embed("host.o", "one.bin", "one.bin", overwrite=True)
    with pytest.raises(UsageError, match="is an input"):
        library.replace("fat.o", "one.bin", "one.bin", overwrite=True)
    with pytest.raises(UsageError, match="is an input"):
        library.extract("own-nvptx64-nvidia-cuda-sm_80.0.cubin", ".", overwrite=True)
