"""The files that are measured on, made from the test fixtures with GNU binutils and fatpack itself.

Fillers are pseudo-random with a fixed seed, so that every run has the same bytes and no file system can shrink them.
"""

from __future__ import annotations

import random
import subprocess
from typing import TYPE_CHECKING

from tools.bench.measure import FIXTURES, need

import fatpack
from fatpack import formats
from fatpack.io.atomic_write import write_file
from fatpack.io.open import open_source
from fatpack.io.source import Span
from fatpack.model import Container, Image, Target

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

CUBINS = sorted((FIXTURES / "cuda" / "cubin").glob("*.cubin"))
SMALL_OBJECT = FIXTURES / "elf" / "clang-22-openmp-gfx90a.o"
SMALL_CONTAINER = FIXTURES / "offload_binary" / "llvm-22-four.bin"
ONE_CONTAINER = FIXTURES / "offload_binary" / "llvm-22-one.bin"

#: The section type of LLVM's offload binaries, which GNU as takes as a number.
OFFLOADING = "0x6fff4c0b"

_BLOCK = 1 << 20


def filler(path: Path, size: int, *, head: bytes = b"", seed: int = 0) -> Path:
    """Write a file of ``size`` bytes: ``head``, then pseudo-random bytes without the magic of any container."""
    # Every magic has a letter or a byte above 0x3f in it.
    block = random.Random(seed).randbytes(_BLOCK).translate(bytes(range(0x40)) * 4)
    with path.open("wb") as file:
        file.write(head)
        left = size - len(head)
        while left > 0:
            left -= file.write(block[:left])
    return path


def images(folder: Path, count: int, size: int) -> list[tuple[Path, str]]:
    """Write images of ``size`` bytes with real cubins at their heads; return their paths and archs."""
    made = []
    for number in range(count):
        cubin = CUBINS[number % len(CUBINS)]
        arch = cubin.name.removesuffix(".cubin").rpartition(".")[2]
        made.append((filler(folder / f"image{number}.cubin", size, head=cubin.read_bytes(), seed=number), arch))
    return made


def container(path: Path, parts: Sequence[tuple[Path, str]]) -> Path:
    """Pack images into LLVM offload binaries of version 1, one each."""
    files = [fatpack.ImageFile(file, triple="nvptx64-nvidia-cuda", arch=arch, offload="cuda") for file, arch in parts]
    fatpack.pack(files, path, overwrite=True)
    return path


def shared_library(folder: Path, content: Path) -> Path:
    """Link a shared library that holds ``content`` in a loaded section of LLVM's type."""
    source, library = folder / "library.s", folder / "library.so"
    source.write_text(
        f'.section .llvm.offloading,"a",@{OFFLOADING}\n.balign 8\n.incbin "{content}"\n'
        '.section .note.GNU-stack,"",@progbits\n'
    )
    _tool("as", source, "-o", folder / "library.o")
    _tool("ld", "-shared", folder / "library.o", "-o", library)
    (folder / "library.o").unlink()
    return library


def registered_library(folder: Path, count: int, images_each: int, size: int) -> Path:
    """Link a shared library with ``count`` fat binaries of ``images_each`` images, each registered by a record."""
    made = []
    for path, arch in images(folder, images_each, size):
        view = open_source(path, may_close=True).view()
        made.append(
            Image(Target("nvptx64-nvidia-cuda", arch, "cuda"), "cubin", view, len(view), len(view), view.span())
        )
    fatbin, source, library = folder / "registered.fatbin", folder / "registered.s", folder / "libregistered.so"
    content = Container("cuda-fatbin", 1, tuple(made), Span(0, 0))
    write_file(fatbin, formats.get_format("cuda-fatbin").write(content), force=True)
    with source.open("w") as file:
        file.write('.section .nv_fatbin, "a", @progbits\n')
        file.writelines(f'.balign 8\ncontainer{number}:\n.incbin "{fatbin}"\n' for number in range(count))
        file.write('.section .nvFatBinSegment, "aw", @progbits\n.balign 8\n')
        file.writelines(f".4byte 0x466243b1, 1\n.8byte container{number}, 0\n" for number in range(count))
        file.write('.section .note.GNU-stack, "", @progbits\n')
    _tool("as", source, "-o", folder / "registered.o")
    _tool("ld", "-shared", folder / "registered.o", "-o", library)
    for path in (fatbin, source, folder / "registered.o", *folder.glob("image*.cubin")):
        path.unlink()
    return library


def large_object(folder: Path, size: int) -> Path:
    """Make a relocatable object around ``size`` bytes of data."""
    data = filler(folder / "data.bin", size)
    _tool("ld", "-r", "-b", "binary", "-z", "noexecstack", data, "-o", folder / "large.o")
    data.unlink()
    return folder / "large.o"


def many_sections(folder: Path, count: int) -> Path:
    """Assemble an object with ``count`` sections of code and one of device code."""
    source, made = folder / "sections.s", folder / "sections.o"
    with source.open("w") as file:
        file.writelines(f'.section .text.function{number},"ax",@progbits\n.byte 0xc3\n' for number in range(count))
        file.write(f'.section .llvm.offloading,"e",@{OFFLOADING}\n.balign 8\n.incbin "{SMALL_CONTAINER}"\n')
        file.write('.section .note.GNU-stack,"",@progbits\n')
    _tool("as", source, "-o", made)
    return made


def _tool(name: str, *words: str | Path) -> None:
    subprocess.run([need(name), *map(str, words)], check=True)
