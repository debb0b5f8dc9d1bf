"""Embedding a container into a copy of a host object of 1 GB: the copy and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tools.bench import inputs
from tools.bench.measure import Figure, against, command, fatpack, measure, memory, milliseconds, peer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ROUNDS = 4
SIZE = 1 << 30


def run(scratch: Path) -> Iterator[Figure]:
    """Yield the figures."""
    host, out = inputs.large_object(scratch, SIZE), scratch / "out.o"
    container = inputs.SMALL_CONTAINER
    commands = {
        "start": fatpack("embed", "-q", inputs.SMALL_OBJECT, container, "-o", out, outputs=[out], is_bulk=True),
        "cp": command("cp", host, out, outputs=[out], is_bulk=True),
        "fatpack": fatpack("embed", "-q", host, container, "-o", out, outputs=[out], is_bulk=True),
    }
    for name in ("objcopy", "llvm-objcopy"):
        path = peer(name)
        if path:
            add = f"--add-section=.llvm.offloading={container}"
            commands[name] = command(path, add, host, out, outputs=[out], is_bulk=True)
    samples = measure(commands, ROUNDS)
    ours, start, copy = samples["fatpack"], samples["start"], samples["cp"]
    facts = f"{milliseconds(ours)}, of them start-up {milliseconds(start)}; cp {milliseconds(copy)}"
    ratio = (ours.seconds - start.seconds) / copy.seconds
    yield Figure("embed into 1 GB", ratio, "x cp + start-up", 1.3, facts, peer="cp, without start-up")
    yield memory("embed into 1 GB: peak", ours)
    yield against("embed into 1 GB: faster than", ours, samples.get("objcopy"), "GNU objcopy", at_least=1)
    yield against("embed into 1 GB: faster than", ours, samples.get("llvm-objcopy"), "llvm-objcopy")
