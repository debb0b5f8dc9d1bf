"""Listing, extracting and packing CUDA fat binaries, against cuobjdump and fatbinary."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

from tools.bench import cuda_inputs
from tools.bench.measure import (
    CORES,
    Figure,
    against,
    command,
    fatpack,
    measure,
    memory,
    milliseconds,
    on_more_cores,
    peer,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

ROUNDS, BULK_ROUNDS = 5, 2

#: different cubins, bytes of the table in each, entries of a fat binary, and fat binaries in the library
CUBINS, TABLE, ENTRIES, COUNT = 24, 480_000, 59, 100

#: cubins that are packed, and bytes of the table in each
PACKED, PACKED_TABLE = 200, 496_000


def run(scratch: Path) -> Iterator[Figure]:
    """Yield the figures."""
    parts = cuda_inputs.cubins(scratch, CUBINS, TABLE)
    library = cuda_inputs.library(scratch, parts, ENTRIES, COUNT, "speed")
    yield from _listing(library)
    yield from _extracting(scratch, library)
    library.unlink()
    yield from _packing(scratch, cuda_inputs.cubins(scratch, CUBINS, PACKED_TABLE))


def _what() -> str:
    return f"{COUNT * ENTRIES} cubins"


def _listing(library: Path) -> Iterator[Figure]:
    what, cuobjdump = f"list {_what()}", peer("cuobjdump")
    commands = {"fatpack": fatpack("inspect", library)}
    if cuobjdump:
        commands["cuda"] = command(cuobjdump, "-all", "-lelf", library)
    samples = measure(commands, ROUNDS)
    ours, theirs = samples["fatpack"], samples.get("cuda")
    yield Figure(what, ours.seconds, "s", None, f"{milliseconds(ours)}, {library.stat().st_size / 1e6:.0f} MB stored")
    yield against(f"{what}: faster than", ours, theirs, "cuobjdump -all -lelf", at_least=10)
    if theirs:
        facts = f"{ours.peak / 1e6:.0f} MB of {theirs.peak / 1e6:.0f} MB"
        yield Figure(f"{what}: memory", 100 * ours.peak / theirs.peak, "% of cuobjdump's", 5, facts)


def _extracting(scratch: Path, library: Path) -> Iterator[Figure]:
    what, cuobjdump = f"extract {_what()}", peer("cuobjdump")
    out, theirs = scratch / "out", scratch / "theirs"
    folders = [out, theirs]  # both go before every run: each takes 2.9 GB
    ours_alone = fatpack("extract", "-q", "--force", library, "-d", out, outputs=folders, is_bulk=True)
    commands = {"fatpack": ours_alone}
    taskset = peer("taskset")
    if taskset and CORES > 1:
        one = str(min(os.sched_getaffinity(0)))
        commands["one core"] = command(taskset, "-c", one, *ours_alone.words, outputs=folders, is_bulk=True)
    if cuobjdump:
        script = 'mkdir "$0" && cd "$0" && exec "$1" -xelf all -xptx all "$2"'
        words = ("sh", "-c", script, theirs, cuobjdump, library)
        commands["cuda"] = command(*words, outputs=folders, is_bulk=True)
    samples = measure(commands, BULK_ROUNDS)
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)
    ours = samples["fatpack"]
    yield Figure(what, ours.seconds, "s", None, milliseconds(ours))
    yield Figure(f"{what}: cores used", ours.processor / ours.seconds, "cores", None)
    if "one core" in samples:
        yield on_more_cores(what, samples["one core"].seconds, ours.seconds, 6)
    yield memory(f"{what}: peak", ours, 300)
    yield against(f"{what}: faster than", ours, samples.get("cuda"), "cuobjdump -xelf all -xptx all", at_least=1)


def _packing(scratch: Path, parts: Sequence[tuple[Path, str]]) -> Iterator[Figure]:
    taken = [parts[number % len(parts)] for number in range(PACKED)]
    size = sum(path.stat().st_size for path, _ in taken)
    what, fatbinary = f"pack {size / 1e6:.0f} MB of cubins, mode size", peer("fatbinary")
    ours, theirs = scratch / "ours.fatbin", scratch / "theirs.fatbin"
    images = [f"--image=file={path},triple=nvptx64-nvidia-cuda,arch={arch}" for path, arch in taken]
    options = ("-q", "--format=fatbin", "--compress-mode=size")
    commands = {"fatpack": fatpack("pack", *options, *images, "-o", ours, outputs=[ours], is_bulk=True)}
    if fatbinary:
        images = [f"--image3=kind=elf,sm={arch.removeprefix('sm_')},file={path}" for path, arch in taken]
        words = (fatbinary, f"--create={theirs}", "--64", "--compress-mode=size", *images)
        commands["cuda"] = command(*words, outputs=[theirs], is_bulk=True)
    samples = measure(commands, 1)
    sample, other = samples["fatpack"], samples.get("cuda")
    yield Figure(what, sample.seconds, "s", None, f"{milliseconds(sample)}, {ours.stat().st_size / 1e6:.0f} MB")
    yield Figure(f"{what}: cores used", sample.processor / sample.seconds, "cores", None)
    yield memory(f"{what}: peak", sample, None)
    if other:
        facts = f"fatbinary {milliseconds(other)}, {other.peak / 1e6:.0f} MB"
        ratio = sample.seconds / other.seconds
        yield Figure(f"{what}: time", ratio, "x fatbinary", 0.6, facts, peer="fatbinary")
    for path in (ours, theirs):
        path.unlink(missing_ok=True)
