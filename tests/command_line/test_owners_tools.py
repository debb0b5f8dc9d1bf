"""Output is accepted by the format owner's tool; every command warns about input that this tool would refuse."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.builders.cir import HOST, SM_80, combined
from tests.conftest import Ran
from tests.laws.rooms import FIXTURES
from tests.reference import run, tool

from fatpack.binary import elf
from fatpack.io.source import BytesSource

Fatpack = Callable[..., Ran]
MODULE = 'module attributes {cir.triple = "nvptx64-nvidia-cuda"} {\n  cir.func @k() {\n    cir.return\n  }\n}\n'
BINARY = (FIXTURES / "offload_binary" / "llvm-22-one.bin").read_bytes()


def with_section(content: bytes) -> bytes:
    """Return an object with a section for offload binaries, of LLVM's type, whatever is in it."""
    host = BytesSource((FIXTURES / "demo" / "host.o").read_bytes()).view()
    return b"".join(
        bytes(piece if isinstance(piece, bytes) else piece.tobytes()) for piece in elf.embed(host, [content])
    )


def linker_wrapper(path: str) -> subprocess.CompletedProcess[bytes]:
    wrapper = tool("clang-linker-wrapper")
    arguments = [
        "--dry-run",
        "--host-triple=x86_64-unknown-linux-gnu",
        "--linker-path=/usr/bin/ld",
        path,
        "-o",
        "program",
    ]
    return subprocess.run([wrapper, *arguments], capture_output=True, check=False)


def test_a_cir_container_is_not_put_into_a_section(folder: Path, fatpack: Fatpack) -> None:
    Path("k.cir").write_text(MODULE)
    images = [f"--image=file=k.cir,id={spelling}" for spelling in (HOST, SM_80)]
    ran = fatpack("pack", "--format=cir", *images, "--host", "host.o", "-o", "fat.o")
    assert (ran.code, Path("fat.o").exists()) == (4, False)
    assert "a cir-offload-container is a file of its own, and not a section of an object" in ran.err
    assert "cir-offload-merge -split" in ran.err


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (combined((MODULE, HOST), (MODULE, SM_80)), "cir-offload-container in a section for offload binaries"),
        ((FIXTURES / "clang_bundle" / "llvm-22-hip.bundle").read_bytes(), "clang-offload-bundle in a section"),
        (bytes(4000), "4000 zero bytes in a section for offload binaries"),
        (BINARY + (FIXTURES / "cuda_fatbin" / "v130_size.fatbin").read_bytes(), "cuda-fatbin in a section"),
        (BINARY + b"int main(void);", "15 bytes that are no container"),
        (BINARY[:100], "the file looks cut short"),
    ],
    ids=["cir", "bundle", "zeros", "fatbin", "text", "cut"],
)
def test_what_the_linker_wrapper_refuses_is_reported_by_all(
    folder: Path, fatpack: Fatpack, content: bytes, words: str
) -> None:
    Path("bad.o").write_bytes(with_section(content))
    for command in ("inspect", "doctor"):
        ran = fatpack(command, "bad.o")
        assert ran.code in (1, 3), command
        assert words in ran.out + ran.err
    assert "healthy" not in fatpack("doctor", "bad.o").out
    assert linker_wrapper("bad.o").returncode != 0


def test_a_section_that_the_linker_wrapper_takes_is_healthy(folder: Path, fatpack: Fatpack) -> None:
    Path("good.o").write_bytes(with_section(BINARY))
    assert [fatpack(command, "good.o").code for command in ("inspect", "doctor")] == [0, 0]
    assert b"Invalid data" not in linker_wrapper("good.o").stderr


def test_a_cir_container_becomes_a_bundle_that_the_bundler_unbundles(folder: Path, fatpack: Fatpack) -> None:
    driver = "cuda-nvptx64-nvidia-cuda-unknown-sm_90"
    Path("k.cir").write_bytes(combined((MODULE, HOST), (MODULE, SM_80), (MODULE, driver)))
    ran = fatpack("convert", "k.cir", "--format=bundle", "-o", "k.bundle")
    assert ran.code == 1
    assert f"the kind of its ID {driver}, in place of which the bundle has openmp" in ran.err
    assert fatpack("convert", "k.cir", "--format=bundle", "--lossy", "-o", "k.bundle").code == 0
    for arch in ("sm_80", "sm_90"):
        target = f"openmp-nvptx64-nvidia-cuda--{arch}"
        bundler = [tool("clang-offload-bundler"), "-type=bc", "-unbundle", "-input=k.bundle", f"-targets={target}"]
        run(*bundler, "-output=k")
        assert "@k()" in Path("k").read_text()


def test_a_bundle_of_a_kind_that_the_bundler_does_not_know_is_refused(folder: Path, fatpack: Fatpack) -> None:
    ran = fatpack("pack", "--format=bundle", f"--image=file=a.cubin,id={SM_80}", "-o", "x.bundle")
    assert ran.code == 2
    assert "clang-offload-bundler knows no kind 'cuda'" in ran.err
    assert "id=openmp-nvptx64-nvidia-cuda-unknown-sm_80" in ran.err


@pytest.mark.parametrize("kind", ["openmp", "sycl"])
def test_a_host_object_is_no_image_to_register(folder: Path, fatpack: Fatpack, kind: str) -> None:
    ran = fatpack("wrap", "--kind", kind, "host.o", "-o", "wrapped.o")
    assert (ran.code, Path("wrapped.o").exists()) == (2, False)
    assert "host.o: ELF64 relocatable, x86_64, which is no device image" in ran.err
    shutil.copy(FIXTURES / "archive" / "llvm-22-gnu.a", "lib.a")
    assert "which is no device image" in fatpack("wrap", "--kind", kind, "lib.a", "-o", "wrapped.o").err


def test_a_shared_library_of_the_host_is_an_image_of_openmp(folder: Path, fatpack: Fatpack) -> None:
    shutil.copy(FIXTURES / "cuda_fatbin" / "hosts" / "librel.bare.so", "lib.so")
    assert fatpack("wrap", "--kind=openmp", "lib.so", "-o", "wrapped.o").code == 0


@pytest.mark.parametrize("host", ["clang_win.dll", "libtwo.so", "librel.so"])
def test_an_identical_image_in_a_linked_program_changes_nothing(folder: Path, fatpack: Fatpack, host: str) -> None:
    path = FIXTURES / "cuda_fatbin" / "hosts" / host
    assert fatpack("extract", path, "--container=0", "--index=0", "-o", "image").code == 0
    assert fatpack("replace", path, "image", "--container=0", "--index=0", "-o", "after").code == 0
    assert Path("after").read_bytes() == path.read_bytes()
