"""Link lines for tests: a folder of objects, archives and libraries with device images, and random lines over it.

Every file holds images whose bytes name the file and the target, so that a group of them tells where each came from.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Sequence
from pathlib import Path

import fatpack

FIXTURES = Path(__file__).parents[1] / "fixtures"
HOST = FIXTURES / "demo" / "host.o"

AMD, NVIDIA, X86 = "amdgcn-amd-amdhsa", "nvptx64-nvidia-cuda", "x86_64-unknown-linux-gnu"

#: what objects are for: names of targets that meet in one link in every way that upstream tells apart
TARGETS: dict[str, Sequence[tuple[str, str, str]]] = {
    "a": [(AMD, "gfx90a", "hip")],
    "p": [(AMD, "gfx90a:xnack+", "hip")],
    "m": [(AMD, "gfx90a:xnack-", "openmp")],
    "s": [(AMD, "gfx90a:sramecc+", "hip")],
    "q": [(AMD, "gfx90a:sramecc+:xnack+", "hip"), (NVIDIA, "sm_80", "cuda")],
    "r": [(AMD, "gfx90a:xnack+:sramecc+", "hip"), (AMD, "gfx908", "hip")],
    "n": [(AMD, "gfx908:xnack+", "openmp"), (NVIDIA, "sm_90", "openmp")],
    "g": [(AMD, "generic", "openmp"), (X86, "generic", "openmp")],
    "e": [(AMD, "", "openmp"), (X86, "", "openmp")],  # as LLVM's tools write it; ours warn
    "f": [(AMD, "gfx9-generic", "hip"), (AMD, "gfx900", "hip")],
    "u": [(AMD, "gfx777:xnack+", "hip"), (AMD, "gfx777", "openmp")],
    "v": [(NVIDIA, "sm_80", "cuda"), (NVIDIA, "sm_90", "cuda"), (AMD, "gfx90a", "openmp")],
    "d": [(f"{AMD}-", "gfx90a", "hip")],
    "k": [(NVIDIA, "generic", "openmp")],
}

#: members of archives → their objects
ARCHIVES = {"one": "ap", "two": "qmn", "three": "vge", "four": "fu", "five": "srk", "six": "d"}


def images(name: str) -> list[fatpack.ImageFile]:
    """Return the images of an object; their bytes say which object and target they are of."""
    return [
        fatpack.ImageFile(f"{name} {triple} {arch}".encode(), triple=triple, arch=arch, offload=offload)
        for triple, arch, offload in TARGETS[name]
    ]


def make_folder(folder: Path) -> None:
    """Write the objects into a folder, and below ``lib`` archives of them."""
    (folder / "lib").mkdir(parents=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in TARGETS:
            fatpack.pack(images(name), folder / f"{name}.o", host=HOST)
            fatpack.pack(images(name), folder / f"{name}.bin")
    for name, members in ARCHIVES.items():
        objects = [(f"{each}_{name}.o", folder / f"{each}.o") for each in members]
        _archive(folder / "lib" / f"lib{name}.a", objects)
    (folder / "plain.o").write_bytes(HOST.read_bytes())
    (folder / "script.txt").write_text("INPUT(a.o)\n")
    (folder / "empty").write_bytes(b"")


def _archive(path: Path, members: Sequence[tuple[str, Path]]) -> None:
    from fatpack.binary import archive
    from fatpack.io.atomic_write import write_file
    from fatpack.io.open import open_source

    write_file(path, archive.build_archive([(name.encode(), open_source(str(file)).view()) for name, file in members]))


def random_line(chance: random.Random, extra: Sequence[str] = (), *, asks: bool = True) -> list[str]:
    """Return a link line over the folder; ``extra`` are further files in it. ``asks``: now and then for an arch."""
    objects = [*(f"{name}.o" for name in TARGETS), *(f"{name}.bin" for name in TARGETS), *extra]
    archives = list(ARCHIVES)
    words: list[str] = []
    for _ in range(chance.randint(1, 7)):
        kind = chance.random()
        if kind < 0.45:
            words.append(chance.choice(objects))
        elif kind < 0.75:
            name = chance.choice(archives)
            words += chance.choice([[f"lib/lib{name}.a"], [f"-l{name}"], ["-l", name], [f"-l:lib{name}.a"]])
        elif kind < 0.87:
            words.append(chance.choice(["--whole-archive", "--no-whole-archive", "-whole-archive"]))
        else:
            words += chance.choice([["plain.o"], ["script.txt"], ["empty"], ["-z", "relro"], ["none.o"], ["lib"]])
    words.insert(chance.randint(0, len(words)) if words[-1] != "-l" else 0, "-Llib")
    if asks and chance.random() < 0.5:
        words.append(f"--should-extract={chance.choice(['gfx90a', 'gfx908', 'gfx90a:xnack+', 'sm_80', 'none'])}")
    return _separated(words)


def _separated(words: list[str]) -> list[str]:
    """Return words in which no option stands between ``-l`` and the name of its library."""
    for at, word in enumerate(words[:-1]):
        if word == "-l" and words[at + 1] == "-Llib":
            words[at + 1], words[at] = words[at], words[at + 1]
    return words
