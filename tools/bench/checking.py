"""Checking, reporting and verifying a wheel: their processor time, against decompressing all of it with ``zipfile``.

With ``FATPACK_BENCH_WHEEL`` naming a wheel (nvidia-cublas 13.10 has 444 MB with 7,226 images), that one too.
"""

from __future__ import annotations

import os
import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

from tools.bench import inputs
from tools.bench.measure import CORES, Figure, command, fatpack, measure, memory, milliseconds, on_more_cores
from tools.bench.packages import INFLATE

if TYPE_CHECKING:
    from collections.abc import Iterator

ROUNDS = 3
#: libraries of the wheel that is made, fat binaries of each, images of each of those, bytes of an image
LIBRARIES, COUNT, IMAGES, SIZE = 2, 100, 6, 100_000

#: wheels of a folder that is surveyed, and fat binaries of each
WHEELS, BINARIES = 40, 100

#: Architectures for which every library of both wheels has images.
REQUIRED = "sm_80,sm_90"


def run(scratch: Path) -> Iterator[Figure]:
    """Yield the figures."""
    wheel = made(scratch, LIBRARIES, COUNT, SIZE)
    yield from _figures(f"a wheel with {LIBRARIES * COUNT * IMAGES} images", wheel, scratch / "report.html")
    wheel.unlink()
    yield from _survey(scratch)
    given = os.environ.get("FATPACK_BENCH_WHEEL")
    if given:
        yield from _figures(os.path.basename(given).partition("-py3")[0], Path(given), scratch / "report.html")


def made(scratch: Path, libraries: int, count: int, size: int) -> Path:
    """Return a wheel of libraries with ``count`` registered fat binaries, whose images of ``size`` bytes differ."""
    library = inputs.registered_library(scratch, count, IMAGES, size)
    wheel = scratch / "x-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for number in range(libraries):
            archive.write(library, f"x/lib{number}.so")
    library.unlink()
    return wheel


def _figures(what: str, wheel: Path, page: Path) -> Iterator[Figure]:
    commands = {
        "check": fatpack("check", "--no-config", "--require", REQUIRED, "--per", "library", wheel),
        "report": fatpack("report", "-q", "--force", wheel, "-o", page),
        # The wheel that is made has no RECORD, which is a warning.
        "doctor": fatpack("doctor", wheel, codes=(0, 1)),
        "zipfile": command(sys.executable, "-c", INFLATE, wheel),
    }
    samples = measure(commands, ROUNDS)
    ours, peer = samples["check"], samples["zipfile"]
    facts = f"{milliseconds(ours)}; inflating all with zipfile {milliseconds(peer)}"
    ratio = ours.processor / peer.processor
    yield Figure(f"check {what}: processor time", ratio, "x inflating all with zipfile", 1.3, facts)
    yield memory(f"check {what}: peak", ours, None)
    for name in ("report", "doctor"):
        ours = samples[name]
        ratio = ours.processor / peer.processor
        yield Figure(f"{name} {what}: processor time", ratio, "x inflating all with zipfile", None, milliseconds(ours))
        yield memory(f"{name} {what}: peak", ours, None)


def _survey(scratch: Path) -> Iterator[Figure]:
    """Yield the figures of a survey of a folder of wheels, on one core and on all."""
    folder = scratch / "wheels"
    folder.mkdir()
    wheel = made(scratch, 1, BINARIES, SIZE)
    data = wheel.read_bytes()
    wheel.unlink()
    for number in range(WHEELS):
        (folder / f"x{number}-1.0-py3-none-any.whl").write_bytes(data)
    samples = measure({str(jobs): fatpack("inspect", folder, "--jobs", str(jobs)) for jobs in {1, CORES}}, ROUNDS)
    ours, what = samples[str(CORES)], f"inspect a folder of {WHEELS} wheels"
    yield Figure(what, ours.seconds, "s", None, milliseconds(ours))
    if CORES > 1:
        yield on_more_cores(what, samples["1"].seconds, ours.seconds, 12)
    yield memory(f"{what}: peak of a process", ours, None)
