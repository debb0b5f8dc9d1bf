"""Slimming linked libraries for one device, against copying the result: what writing it takes at least.

``FATPACK_BENCH_CUDA_LIBRARY`` names a real one (libtorch_cuda.so of torch 2.9 has 1.0 GB with 2,787 images), which is
measured in place of one that is made.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from tools.bench import cuda_inputs, inputs
from tools.bench.measure import CORES, MB, Figure, command, fatpack, measure, memory, milliseconds, peer

if TYPE_CHECKING:
    from collections.abc import Iterator

ROUNDS = 3
#: fat binaries of the library that is made, images of each, bytes of an image
COUNT, IMAGES, SIZE = 100, 6, 1 << 20

DEVICE = "sm_90"

#: cubins of a library that is compressed anew with zstd, bytes of a table in each, and the level
RECOMPRESSED, TABLE, LEVEL = 24, 480_000, "19"


def run(scratch: Path) -> Iterator[Figure]:
    """Yield the figures."""
    given = os.environ.get("FATPACK_BENCH_CUDA_LIBRARY")
    library = Path(given) if given else inputs.registered_library(scratch, COUNT, IMAGES, SIZE)
    result, made, copied = scratch / "result.so", scratch / "made.so", scratch / "copied.so"
    measure({"once": fatpack("slim", library, "--for", DEVICE, "-q", "-o", result, outputs=[result])}, 1)
    ways = {"slim": ("--for", DEVICE), "zero": ("--for", DEVICE, "--mode", "zero")}
    commands = {
        name: fatpack("slim", library, *words, "-q", "-o", made, outputs=[made], is_bulk=True)
        for name, words in ways.items()
    }
    commands["plan"] = fatpack("slim", library, "--for", DEVICE, "--dry-run", "-q")
    commands["cp"] = command("cp", result, copied, outputs=[copied], is_bulk=True)
    commands["cp all"] = command("cp", library, copied, outputs=[copied], is_bulk=True)
    commands["verify"] = fatpack("slim", "--verify", library, result, "-q")
    samples = measure(commands, ROUNDS)
    what = Path(given).name if given else f"a library of {COUNT * IMAGES} images"
    before, after = library.stat().st_size, result.stat().st_size
    sizes = f"{before / MB:.0f} MB → {after / MB:.0f} MB"
    slim, copy = samples["slim"], samples["cp"]
    facts = f"{milliseconds(slim)}, of them planning {milliseconds(samples['plan'])}; cp {milliseconds(copy)}"
    yield Figure(f"slim {what} ({sizes})", slim.seconds / copy.seconds, "x cp of the result", 1.3, facts, peer="cp")
    rate = before / slim.seconds / MB
    yield Figure(f"slim {what}: bytes of the old file", rate, "MB/s", None)
    yield memory(f"slim {what}: peak", slim)
    zero, copy = samples["zero"], samples["cp all"]
    facts = f"{milliseconds(zero)}; cp {milliseconds(copy)}"
    yield Figure(f"zeros in {what}", zero.seconds / copy.seconds, "x cp of the result", 1.3, facts, peer="cp")
    proof = samples["verify"]
    yield Figure(f"prove {what}", proof.seconds / slim.seconds, "x slim", None, milliseconds(proof))
    yield memory(f"prove {what}: peak", proof, None)
    if peer("ptxas"):
        yield from _recompressing(scratch)


def _recompressing(scratch: Path) -> Iterator[Figure]:
    """Yield the figures of compressing images on all cores, against one."""
    folder = scratch / "recompressed"
    folder.mkdir()
    cubins = cuda_inputs.cubins(folder, RECOMPRESSED, TABLE)
    library, made = cuda_inputs.library(folder, cubins, RECOMPRESSED, 1, "speed"), folder / "made.so"
    words = ("slim", library, "--recompress", "zstd", "--level", LEVEL, "-q", "-o", made)
    samples = measure({jobs: fatpack(*words, "--jobs", jobs, outputs=[made]) for jobs in ("1", str(CORES))}, ROUNDS)
    what = f"slim --recompress zstd --level {LEVEL} of {RECOMPRESSED} cubins"
    one, all = samples["1"], samples[str(CORES)]
    facts = f"{milliseconds(all)}, one core {milliseconds(one)}"
    yield Figure(f"{what}: {CORES} cores", one.seconds / all.seconds, "x one core", None, facts)
    yield memory(f"{what}: peak", all, None)
