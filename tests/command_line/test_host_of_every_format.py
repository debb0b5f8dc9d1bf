"""``pack --host``: every container format goes into every kind of host, out again, and past every linker."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests import reference
from tests.conftest import Ran

import fatpack as library

Fatpack = Callable[..., Ran]

#: options of pack → section the container goes into
FORMATS = {
    ("--image=file=a.cubin,kind=cuda,triple=nvptx64-nvidia-cuda,arch=sm_80",): ".llvm.offloading",
    ("--format=bundle", "--image=file=a.cubin,id=openmp-nvptx64-nvidia-cuda--sm_80"): ".hip_fatbin",
    ("--format=bundle", "--compress", "--image=file=a.cubin,id=hip-amdgcn-amd-amdhsa--gfx90a"): ".hip_fatbin",
}
HOSTS = {
    "x86_64-unknown-linux-gnu": ("ld.lld", "-shared", "-o"),
    "aarch64-unknown-linux-gnu": ("ld.lld", "-shared", "-o"),
    "x86_64-pc-windows-msvc": ("lld-link", "/dll", "/noentry", "/Brepro", "/opt:noref"),
}


def linked(command: tuple[str, ...], path: Path) -> bytes:
    # The image can hold its own name, so both have the same.
    image = path.parent / "image"
    output = [f"/out:{image}"] if command[0] == "lld-link" else [str(image)]
    reference.run(*command, *output, path, cwd=path.parent)
    return image.read_bytes()


@pytest.mark.parametrize("triple", HOSTS)
@pytest.mark.parametrize("options", FORMATS, ids=lambda options: " ".join(options[:-1]) or "offload-binary")
def test_a_container_goes_in_and_out_and_changes_no_program(
    folder: Path, fatpack: Fatpack, triple: str, options: tuple[str, ...]
) -> None:
    (folder / "host.c").write_text("int value = 42; int work(int x) { return x * value; }\n")
    (folder / "plain").mkdir()
    (folder / "fat").mkdir()
    plain, fat = folder / "plain" / "host.obj", folder / "fat" / "host.obj"
    pic = () if "windows" in triple else ("-fPIC",)
    reference.run("clang", f"--target={triple}", "-O1", *pic, "-c", folder / "host.c", "-o", plain)
    ran = fatpack("pack", *options, f"--host={plain}", "-o", fat)
    # Only clang-linker-wrapper takes containers out of objects, and it knows offload binaries.
    assert ran.code == int("warning" in ran.err)
    assert ran.err.count("no code registers it") == int("bundle" in options[0])
    with library.open(fat) as file:
        assert [found.section for found in file.containers] == [FORMATS[options]]
        assert [image.data.tobytes() for image in file.images()] == [(folder / "a.cubin").read_bytes()]
        assert [item for item in file.findings if item.severity == "error"] == []
    assert linked(HOSTS[triple], fat) == linked(HOSTS[triple], plain)
    assert fatpack("remove", fat, "-o", folder / "slim.obj").code == 0
    assert "no device code found" in fatpack("inspect", folder / "slim.obj").out
    assert fatpack("embed", plain, "a.cubin", "-o", folder / "wrong.obj").code == 2
