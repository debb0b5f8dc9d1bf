"""Inspecting a shared library of 1 GB with 1000 images, an object with 70,000 sections, and very many containers.

With ``FATPACK_BENCH_LIBRARY`` naming a library (libcublasLt.so.13 of CUDA 13.1 has 2,937 fat binaries), that one too.
"""

from __future__ import annotations

import os
import struct
from typing import TYPE_CHECKING

from tools.bench import inputs
from tools.bench.measure import Figure, Sample, against, command, fatpack, measure, memory, milliseconds, peer

from fatpack import magic_numbers

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ROUNDS = 8
COUNT, SIZE = 1000, 1 << 20
SECTIONS = 70_000
CONTAINERS = 96_000
#: fat binaries of a library of small cubins that are stored plain, and cubins of each
PLAIN, PLAIN_IMAGES = 100, 56

#: Milliseconds of processor time above the start-up in which a library is listed.
LIBRARY, MANY_IMAGES, SMALLEST, PLAIN_LIBRARY = 150, 100, 1500, 150


def run(scratch: Path) -> Iterator[Figure]:
    """Yield the figures."""
    images = inputs.images(scratch, len(inputs.CUBINS), SIZE)
    blob = inputs.container(scratch / "blob.bin", [images[n % len(images)] for n in range(COUNT)])
    library = inputs.shared_library(scratch, blob)
    blob.unlink()
    commands = {
        "fatpack": fatpack("inspect", library),
        "json": fatpack("inspect", "--json", library),
        "small": fatpack("inspect", inputs.SMALL_OBJECT),
    }
    objdump = peer("llvm-objdump")
    if objdump:
        commands["llvm"] = command(objdump, "--offloading", library)
    samples = measure(commands, ROUNDS)
    ours = samples["fatpack"]
    yield Figure("inspect 1 GB library, 1000 images", ours.seconds, "s", 0.25, milliseconds(ours))
    yield processor("inspect 1 GB: processor time", ours, samples["small"], MANY_IMAGES)
    yield memory("inspect 1 GB: peak", ours)
    yield against("inspect 1 GB: faster than", ours, samples.get("llvm"), "llvm-objdump --offloading", at_least=3)
    yield Figure("inspect --json 1 GB", samples["json"].seconds, "s", None, f"{samples['json'].peak / 1e6:.0f} MB")
    library.unlink()
    yield from _sections(scratch)
    yield from _containers(scratch)


def _containers(scratch: Path) -> Iterator[Figure]:
    """Yield the figures of very many small containers and cubins, and of a library from the environment."""
    smallest = scratch / "smallest.fatbin"
    smallest.write_bytes(_smallest() * CONTAINERS)
    plain = inputs.registered_library(scratch, PLAIN, PLAIN_IMAGES, 1 << 12)
    commands = {
        "small": fatpack("inspect", inputs.SMALL_OBJECT),
        "smallest": fatpack("inspect", smallest),
        "plain": fatpack("inspect", plain),
    }
    library = os.environ.get("FATPACK_BENCH_LIBRARY")
    if library:
        commands["library"] = fatpack("inspect", library)
    samples = measure(commands, ROUNDS // 2)
    what = f"inspect {CONTAINERS:,} small containers"
    yield processor(f"{what}: processor time", samples["smallest"], samples["small"], SMALLEST)
    yield memory(f"{what}: peak", samples["smallest"], 100)
    what = f"inspect {PLAIN * PLAIN_IMAGES:,} small cubins stored plain"
    yield processor(f"{what}: processor time", samples["plain"], samples["small"], PLAIN_LIBRARY)
    yield memory(f"{what}: peak", samples["plain"], 100)
    if library:
        what = f"inspect {os.path.basename(library)}"
        yield processor(f"{what}: processor time", samples["library"], samples["small"], LIBRARY)
        yield memory(f"{what}: peak", samples["library"], 100)
    smallest.unlink()
    plain.unlink()


def _smallest() -> bytes:
    """Return a fat binary of 112 bytes: a header, and an entry with the first lines of PTX."""
    image = b".version 8.0\n.target sm_90\n\0".ljust(32, b"\0")
    entry = struct.pack("<HHIQIIHHIIIQQQ", 1, 0x101, 64, len(image), 0, 0, 0, 8, 90, 0, 0, 0x11, 0, 0) + image
    return magic_numbers.FATBIN + struct.pack("<HHQ", 1, 16, len(entry)) + entry


def _sections(scratch: Path) -> Iterator[Figure]:
    large, out = inputs.many_sections(scratch, SECTIONS), scratch / "out.o"
    small, container = inputs.SMALL_OBJECT, inputs.SMALL_CONTAINER
    samples = measure(
        {
            "inspect small": fatpack("inspect", small),
            "inspect": fatpack("inspect", large),
            "embed small": fatpack("embed", "-q", small, container, "-o", out, outputs=[out]),
            "embed": fatpack("embed", "-q", large, container, "-o", out, outputs=[out]),
        },
        2 * ROUNDS,
    )
    for name in ("inspect", "embed"):
        yield over(f"{name} 70,000 sections", samples[name], samples[f"{name} small"], 100)
        yield memory(f"{name} 70,000 sections: peak", samples[name])


def over(what: str, ours: Sample, small: Sample, limit: float) -> Figure:
    """Return the additional time of a command, against the same on a small file, in milliseconds."""
    facts = f"{milliseconds(ours)}, on a small file {milliseconds(small)}"
    return Figure(what, (ours.seconds - small.seconds) * 1e3, "ms over start-up", limit, facts)


def processor(what: str, ours: Sample, small: Sample, limit: float) -> Figure:
    """Return the additional processor time of a command, against the same on a small file, in milliseconds."""
    facts = f"{milliseconds(ours)}, on a small file {milliseconds(small)}"
    return Figure(what, (ours.processor - small.processor) * 1e3, "ms over start-up", limit, facts)
