"""Listing and extracting libraries with hundreds of bundles, compressed and not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tools.bench import bundle_inputs, inputs
from tools.bench.inspecting import LIBRARY, processor
from tools.bench.measure import (
    MB,
    Command,
    Figure,
    Sample,
    against,
    command,
    fatpack,
    measure,
    memory,
    milliseconds,
    peer,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

ROUNDS, BULK_ROUNDS = 5, 3


@dataclass(frozen=True, slots=True)
class Kind:
    """A library to measure on: its bundles, the processors in each, bytes of an image, and kernels in it.

    ``at_least``: the least factor between llvm-readobj's time and the listing's.
    """

    count: int
    archs: Sequence[str]
    size: int
    kernels: int
    is_compressed: bool = False
    at_least: float | None = 1


#: The libraries of 845 bundles have no target against llvm-readobj, which does not identify images or name kernels.
LIBRARIES = {
    "111 bundles, 1.3 GB": Kind(111, bundle_inputs.ARCHS, 1_680_000, 113),
    "845 bundles for one processor": Kind(845, bundle_inputs.ARCHS[:1], 30_000, 8, at_least=None),
    "845 bundles, 50 MB": Kind(845, bundle_inputs.ARCHS[:2], 30_000, 8, at_least=None),
    "160 compressed bundles, 1.3 GB inflated": Kind(160, bundle_inputs.ARCHS, 1_160_000, 113, is_compressed=True),
}


def run(scratch: Path) -> Iterator[Figure]:
    """Yield the figures."""
    for name, kind in LIBRARIES.items():
        folder = scratch / f"{kind.count}.{len(kind.archs)}"
        folder.mkdir()
        library = make(folder, kind)
        yield from _listing(name, kind, library)
        yield from _extracting(name, kind, folder, library)
        library.unlink()


def make(folder: Path, kind: Kind) -> Path:
    """Return a library of a kind, built in a folder."""
    objects = bundle_inputs.code_objects(folder, kind.kernels, kind.archs)
    bundles = (
        bundle_inputs.bundle(bundle_inputs.images(folder, objects, kind.size, seed), is_compressed=kind.is_compressed)
        for seed in range(kind.count)
    )
    return bundle_inputs.library(folder / "library.so", bundles)


def _listing(name: str, kind: Kind, library: Path) -> Iterator[Figure]:
    commands = {
        "fatpack": fatpack("inspect", library),
        "inflate": fatpack("inspect", "--inflate", library),
        "small": fatpack("inspect", inputs.SMALL_OBJECT),
    }
    if kind.is_compressed:
        commands["verify"] = fatpack("inspect", "--verify", library)
    readobj = peer("llvm-readobj")
    if readobj:
        commands["llvm"] = command(readobj, "--offloading", library)
    samples = measure(commands, ROUNDS)
    ours = samples["fatpack"]
    yield Figure(f"list {name}", ours.seconds, "s", 0.3, milliseconds(ours))
    yield processor(f"list {name}: processor time", ours, samples["small"], LIBRARY)
    yield memory(f"list {name}: peak", ours, 100)
    theirs = samples.get("llvm")
    yield against(f"list {name}: faster than", ours, theirs, "llvm-readobj --offloading", at_least=kind.at_least)
    for option in ("inflate", "verify"):
        if option in samples:
            sample = samples[option]
            yield Figure(f"list {name}, --{option}", sample.seconds, "s", None, _facts(sample))


def _extracting(name: str, kind: Kind, folder: Path, library: Path) -> Iterator[Figure]:
    ours, theirs, copy = folder / "ours", folder / "theirs", folder / "copy"
    commands = {"fatpack": fatpack("extract", "-q", library, "-d", ours, outputs=[ours], is_bulk=True)}
    if not kind.is_compressed:
        commands["cp"] = command("cp", library, copy, outputs=[copy], is_bulk=True)
        files = folder / "files"
        commands["cp -r"] = command("cp", "-r", ours, files, outputs=[files], is_bulk=True)
    objdump = peer("llvm-objdump")
    if objdump:
        commands["llvm"] = _beside(objdump, library, theirs)
    samples = measure(commands, BULK_ROUNDS)
    sample = samples["fatpack"]
    checks = "; hashes checked" if kind.is_compressed else ""
    yield Figure(f"extract {name}", sample.seconds, "s", None, milliseconds(sample) + checks)
    yield memory(f"extract {name}: peak", sample, 200)
    if "cp" in samples:
        ratio = sample.seconds / samples["cp"].seconds
        facts = f"cp {milliseconds(samples['cp'])}"
        yield Figure(f"extract {name}: per copy", ratio, "x cp", None, facts, peer="cp")
        ratio = sample.seconds / samples["cp -r"].seconds
        facts = f"cp -r {milliseconds(samples['cp -r'])}"
        yield Figure(f"extract {name}: per copy of the files", ratio, "x cp -r", None, facts, peer="cp -r")
    yield against(f"extract {name}: faster than", sample, samples.get("llvm"), "llvm-objdump --offloading", at_least=1)


def _beside(objdump: str, library: Path, folder: Path) -> Command:
    """Return the command for a tool that writes beside its input: a folder of its own, with a link to the library."""
    script = 'mkdir "$2" && ln "$1" "$2/library.so" && exec "$0" --offloading "$2/library.so"'
    return command("sh", "-c", script, objdump, library, folder, outputs=[folder], is_bulk=True)


def _facts(sample: Sample) -> str:
    return f"{milliseconds(sample)}, {sample.peak / MB:.0f} MB"
