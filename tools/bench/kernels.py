"""Listing the kernels of a CUDA library with their resources, also as JSON, against decompression alone and cuobjdump.

``FATPACK_BENCH_CUDA_LIBRARY`` names a real library, as libtorch_cuda.so; the targets in seconds are for that of PyTorch
2 on two cores: 1 GB, 2,787 cubins, 150,593 kernels. Without it one is made, whose cubins have one kernel each. Then
``report``, ``doctor`` and ``check --registered``, which read all of a file: of each in ``FATPACK_BENCH_FILES`` (paths
with ":" between them), or of that library. They are measured in multiples of ``--kernels``.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tools.bench import cuda_inputs
from tools.bench.measure import Figure, Sample, against, command, fatpack, measure, memory, milliseconds, peer

if TYPE_CHECKING:
    from collections.abc import Iterator

ROUNDS = 2

#: different cubins, bytes of the table in each, entries of a fat binary, and fat binaries in the library
CUBINS, TABLE, ENTRIES, COUNT = 24, 480_000, 59, 20

#: Inflates every image once, on one core, and reads nothing of it.
INFLATING = """
import sys
from fatpack.io.open import open_source
from fatpack.model import Finding
from fatpack.scanner import scan
with open_source(sys.argv[1]) as source:
    for found in scan(source.view()):
        for image in () if isinstance(found, Finding) else found.images:
            for piece in image.data.read_once():
                pass
"""


def run(scratch: Path) -> Iterator[Figure]:
    """Yield the figures."""
    real = os.environ.get("FATPACK_BENCH_CUDA_LIBRARY")
    library = Path(real) if real else _made(scratch)
    name = library.name if real else "a made library"
    commands = {
        "list": fatpack("inspect", "-v", library),
        "json": fatpack("inspect", "--json", library),
        "inflate": command(sys.executable, "-c", INFLATING, library),
        "--kernels": fatpack("inspect", "--kernels", library),
        "--kernels --json": fatpack("inspect", "--kernels", "--json", library),
        "--by kernel": fatpack("inspect", "--by", "kernel", library),
    }
    cuobjdump = peer("cuobjdump")
    if cuobjdump:
        commands["cuda"] = command(cuobjdump, "-all", "-res-usage", library)
    samples = measure(commands, ROUNDS)
    facts = f"{milliseconds(samples['json'])}, -v {milliseconds(samples['list'])}"
    ratio = samples["json"].seconds / samples["list"].seconds
    yield Figure(f"{name}: --json", ratio, "x inspect -v", 2, facts)
    for options in ("--kernels", "--by kernel", "--kernels --json"):
        yield from _reading(f"{name}: {options}", samples[options], samples["inflate"], is_real=bool(real))
    theirs = samples.get("cuda")
    yield against(f"{name}: --kernels: faster than", samples["--kernels"], theirs, "cuobjdump -all -res-usage")
    given = os.environ.get("FATPACK_BENCH_FILES", "")
    for path in [Path(each) for each in given.split(os.pathsep) if each] or [library]:
        yield from _whole(path, path.name if path != library else name, scratch / "report.html")


def _whole(path: Path, name: str, page: Path) -> Iterator[Figure]:
    """Yield the figures of the commands that read everything in a file."""
    samples = measure(
        {
            "kernels": fatpack("inspect", "--kernels", path),
            "report": fatpack("report", "-q", "--force", path, "-o", page),
            "report, one job": fatpack("report", "-q", "--force", "--jobs", "1", path, "-o", page),
            "doctor": fatpack("doctor", path),
            # A library that is made registers nothing, which is a finding.
            "check --registered": fatpack("check", "--no-config", "--registered", path, codes=(0, 1)),
        },
        ROUNDS,
    )
    listing = samples["kernels"]
    for what in ("report", "report, one job", "doctor", "check --registered"):
        ours = samples[what]
        facts = f"{milliseconds(ours)}, --kernels {milliseconds(listing)}"
        limit = 1.6 if what == "report" else None
        yield Figure(f"{name}: {what}", ours.seconds / listing.seconds, "x inspect --kernels", limit, facts)
        is_bounded = what in ("report", "check --registered")
        yield memory(f"{name}: {what}: peak of a process", ours, 200 if is_bounded else None)


def _reading(what: str, ours: Sample, inflating: Sample, *, is_real: bool) -> Iterator[Figure]:
    yield Figure(what, ours.seconds, "s", 4 if is_real and "json" not in what else None, milliseconds(ours))
    facts = f"on one core {milliseconds(inflating)}"
    yield Figure(f"{what}: processor time", ours.processor / inflating.processor, "x inflating alone", None, facts)
    yield memory(f"{what}: peak of a process", ours, 200)


def _made(scratch: Path) -> Path:
    return cuda_inputs.library(scratch, cuda_inputs.cubins(scratch, CUBINS, TABLE), ENTRIES, COUNT, "speed")
