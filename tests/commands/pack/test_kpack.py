"""The images that a kpack archive is packed from."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.builders.kpack_site import code

from fatpack.main import main


@pytest.mark.parametrize(
    ("triple", "exit_code"),
    [("amdgcn-amd-amdhsa", 0), ("amdgpu9.0a-amd-amdhsa", 0), ("amdgcn", 0), ("amdgcnx-amd-amdhsa", 2), ("nvptx64", 2)],
)
def test_an_archive_holds_code_for_amd_processors_alone(tmp_path: Path, triple: str, exit_code: int) -> None:
    image = tmp_path / "a.hsaco"
    image.write_bytes(code("gfx90a"))
    option = f"--image=file={image},binary=lib/libx.so,triple={triple}"
    assert main(["pack", "--format=kpack", option, "-o", str(tmp_path / "x.kpack")]) == exit_code
