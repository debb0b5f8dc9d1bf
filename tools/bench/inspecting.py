"""Inspecting a shared library of 1 GB with 1000 images, and an object with 70,000 sections."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tools.bench import inputs
from tools.bench.measure import Figure, Sample, against, command, fatpack, measure, memory, milliseconds, peer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ROUNDS = 8
COUNT, SIZE = 1000, 1 << 20
SECTIONS = 70_000


def run(scratch: Path) -> Iterator[Figure]:
    """Yield the figures."""
    images = inputs.images(scratch, len(inputs.CUBINS), SIZE)
    blob = inputs.container(scratch / "blob.bin", [images[n % len(images)] for n in range(COUNT)])
    library = inputs.shared_library(scratch, blob)
    blob.unlink()
    commands = {"fatpack": fatpack("inspect", library), "json": fatpack("inspect", "--json", library)}
    objdump = peer("llvm-objdump")
    if objdump:
        commands["llvm"] = command(objdump, "--offloading", library)
    samples = measure(commands, ROUNDS)
    ours = samples["fatpack"]
    yield Figure("inspect 1 GB library, 1000 images", ours.seconds, "s", 0.25, milliseconds(ours))
    yield memory("inspect 1 GB: peak", ours)
    yield against("inspect 1 GB: faster than", ours, samples.get("llvm"), "llvm-objdump --offloading", at_least=3)
    yield Figure("inspect --json 1 GB", samples["json"].seconds, "s", None, f"{samples['json'].peak / 1e6:.0f} MB")
    library.unlink()
    yield from _sections(scratch)


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
    """Return by how many milliseconds a command takes longer than the same on a small file."""
    facts = f"{milliseconds(ours)}, on a small file {milliseconds(small)}"
    return Figure(what, (ours.seconds - small.seconds) * 1e3, "ms over start-up", limit, facts)
