"""Images that LLVM's linkers make of objects with device code."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tests.reference import run, tool

from fatpack.binary import CodeSection, pe
from fatpack.io.open import open_source

pytestmark = pytest.mark.reference

SOURCE = """
    .section .llvm.offloading,"dr"
    .p2align 3
    .incbin "container"
    .section .llvm.rodata.offloading,"dr"
    .asciz "kernel"
    .section .hip_fatbin,"dr"
    .p2align 4
    .incbin "bundle"
    .section .nv_fatbin,"dr"
    .p2align 3
    .incbin "fatbin"
    .section .hipFatBinSegment,"dw"
    .long 0x48495046
    .section .data,"dw"
    .globl f
f:  .long 1
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "image").write_bytes(b"image" * 100)
    run("llvm-offload-binary", "-o", tmp_path / "container", f"--image=file={tmp_path / 'image'},triple=t")
    (tmp_path / "bundle").write_bytes(b"__CLANG_OFFLOAD_BUNDLE__" + bytes(16))
    (tmp_path / "fatbin").write_bytes(b"\x50\xed\x55\xba\x01\x00\x10\x00" + bytes(8))
    return tmp_path


def assembled(folder: Path, target: str) -> Path:
    path = folder / "source.obj"
    command = [tool("llvm-mc"), "-filetype=obj", f"--triple={target}", "-o", str(path)]
    subprocess.run(command, input=SOURCE.encode(), check=True, cwd=folder)
    return path


def sites(path: Path) -> dict[str | None, bytes]:
    with open_source(path) as source:
        assert pe.detect(source.view())
        located = [site for site in pe.locate(source.view()) if isinstance(site, CodeSection)]
        # Tables describe device code in other sections, and contain none.
        return {site.section: site.data.tobytes() for site in located if site.content != "table"}


@pytest.mark.parametrize("target", ["x86_64", "i686", "aarch64"])
def test_lld_link_cuts_names_and_we_find_the_containers(folder: Path, target: str) -> None:
    image = folder / "image.dll"
    objects = assembled(folder, f"{target}-pc-windows-msvc")
    run("lld-link", "/dll", "/noentry", "/safeseh:no", f"/out:{image}", objects)
    found = sites(image)
    container, bundle, fatbin = ((folder / name).read_bytes() for name in ("container", "bundle", "fatbin"))
    assert found[".hip_fat"] == bundle
    assert found[".nv_fatb"] == fatbin
    assert found[".llvm"].startswith(container)
    assert b"kernel\0" in found[".llvm"][len(container) :]
    assert set(found) == {".hip_fat", ".nv_fatb", ".llvm"}


def test_lld_cuts_names_for_mingw_too(folder: Path) -> None:
    image = folder / "image.exe"
    run("ld.lld", "-m", "i386pep", "--shared", "-e", "f", "-o", image, assembled(folder, "x86_64-w64-mingw32"))
    found = sites(image)
    assert found[".hip_fat"] == (folder / "bundle").read_bytes()
    assert found[".nv_fatb"] == (folder / "fatbin").read_bytes()
    assert found[".llvm"].startswith((folder / "container").read_bytes())


def test_gnu_ld_cuts_names_to_eight_bytes(folder: Path) -> None:
    image = folder / "image.dll"
    run("ld", "-m", "i386pep", "--shared", "-e", "f", "-o", image, assembled(folder, "x86_64-w64-mingw32"))
    assert sites(image) == {
        ".llvm.of": (folder / "container").read_bytes(),
        ".hip_fat": (folder / "bundle").read_bytes(),
        ".nv_fatb": (folder / "fatbin").read_bytes(),
    }


@pytest.mark.parametrize("target", ["x86_64", "i686"])
def test_lief_sees_the_same_sections(folder: Path, target: str) -> None:
    import lief

    image = folder / "image.dll"
    run("lld-link", "/dll", "/noentry", "/safeseh:no", f"/out:{image}", assembled(folder, f"{target}-pc-windows-msvc"))
    binary = lief.PE.parse(str(image))
    contents = {section.name: bytes(section.content)[: section.virtual_size] for section in binary.sections}
    found = sites(image)
    assert found == {name: contents[str(name)] for name in found}


def test_llvms_own_tool_finds_nothing(folder: Path) -> None:
    """The reason why editing an image is refused, and why the replacement of that tool must not read one."""
    image = folder / "image.dll"
    run("lld-link", "/dll", "/noentry", f"/out:{image}", assembled(folder, "x86_64-pc-windows-msvc"))
    done = run("llvm-offload-binary", image, f"--image=file={folder / 'out'},triple=t", check=False)
    assert (done.returncode, (folder / "out").exists()) == (0, False)
