"""Inspecting packages: a wheel with a large library against decompressing it, a tar archive, and a folder of libraries.

With ``FATPACK_BENCH_WHEEL`` naming a wheel (nvidia-cublas 13.10 has 444 MB with 7,226 images), that one too.
"""

from __future__ import annotations

import os
import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

from tools.bench import inputs
from tools.bench.measure import Figure, against, command, fatpack, measure, memory, milliseconds

if TYPE_CHECKING:
    from collections.abc import Iterator

ROUNDS = 4
COUNT, SIZE = 200, 1 << 20
LIBRARIES, LARGE = 200, 50 << 20

#: The least factor of a listing against decompressing all: it may take 1.3 times as long.
INFLATING = 0.77

#: Decompresses the files of a zip archive and reads nothing.
INFLATE = """
import sys, zipfile
with zipfile.ZipFile(sys.argv[1]) as archive:
    for info in archive.infolist():
        with archive.open(info) as file:
            while file.read(1 << 20):
                pass
"""


def run(scratch: Path) -> Iterator[Figure]:
    """Yield the figures."""
    images = inputs.images(scratch, len(inputs.CUBINS), SIZE)
    blob = inputs.container(scratch / "blob.bin", [images[n % len(images)] for n in range(COUNT)])
    library = inputs.shared_library(scratch, blob)
    blob.unlink()
    wheel = scratch / "x-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.write(library, "x/lib/libx.so")
        archive.writestr("x/__init__.py", "")
    yield from _wheel("wheel of 200 MB, 200 images", wheel)
    wheel.unlink()
    library.unlink()
    yield from _folder(scratch)
    given = os.environ.get("FATPACK_BENCH_WHEEL")
    if given:
        yield from _wheel(os.path.basename(given).partition("-py3")[0], Path(given))


def _wheel(what: str, wheel: Path) -> Iterator[Figure]:
    inflating = command(sys.executable, "-c", INFLATE, wheel)
    samples = measure({"fatpack": fatpack("inspect", wheel), "zlib": inflating}, ROUNDS)
    ours = samples["fatpack"]
    yield against(f"inspect {what}: faster than", ours, samples["zlib"], "inflating all with zipfile", INFLATING)
    yield memory(f"inspect {what}: peak", ours, 64)


def _folder(scratch: Path) -> Iterator[Figure]:
    """Yield the figures of a folder of libraries, which are sparse: reading more than headers would show."""
    folder = scratch / "libraries"
    folder.mkdir()
    small = inputs.shared_library(scratch, inputs.SMALL_CONTAINER)
    data = small.read_bytes()
    for number in range(LIBRARIES):
        path = folder / f"lib{number:03}.so"
        path.write_bytes(data)
        os.truncate(path, LARGE)
    samples = measure({"folder": fatpack("inspect", folder), "one": fatpack("inspect", small)}, ROUNDS)
    each = (samples["folder"].processor - samples["one"].processor) / LIBRARIES * 1e3
    facts = f"{milliseconds(samples['folder'])} for {LIBRARIES} libraries, {LIBRARIES * LARGE / 1e9:.0f} GB in all"
    yield Figure("inspect a folder: processor time of each library", each, "ms", 5, facts)
    yield memory("inspect a folder: peak", samples["folder"], 64)
    small.unlink()
