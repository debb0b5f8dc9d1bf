"""Slimming wheels, against inflating and deflating all files of the same wheel, which packing it anew takes at least.

With ``FATPACK_BENCH_SLIM_WHEEL`` naming a wheel (bitsandbytes 0.50.2 has 43 MB with 16 libraries), that one too.
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

ROUNDS = 3
#: bytes of each image, images of each library, libraries
SIZE, IMAGES, LIBRARIES = 4 << 20, 6, 2

NAME = "x-1.0-py3-none-any.whl"

#: The least work for a wheel: its files decompressed, and compressed again in one thread.
_REPACK = """
import sys, zipfile
with zipfile.ZipFile(sys.argv[1]) as old, zipfile.ZipFile(sys.argv[2], "w", zipfile.ZIP_DEFLATED) as new:
    for info in old.infolist():
        with old.open(info) as source, new.open(info.filename, "w") as target:
            while block := source.read(1 << 20):
                target.write(block)
"""


def run(scratch: Path) -> Iterator[Figure]:
    """Yield the figures."""
    wheel = _wheel(scratch)
    yield from _figures(f"a wheel of {LIBRARIES} libraries of {IMAGES} images", wheel, "sm_90", scratch)
    wheel.unlink()
    given = os.environ.get("FATPACK_BENCH_SLIM_WHEEL")
    if given:
        yield from _figures(os.path.basename(given).partition("-py3")[0], Path(given), "sm_90,gfx942", scratch)


def _figures(what: str, wheel: Path, devices: str, scratch: Path) -> Iterator[Figure]:
    options = ("--for", devices, "--build-tag", "1", "--allow-empty", "--force", "-q")
    made = scratch / "result"
    # With a device that the wheel has nothing for the exit code is 1, and the result is written.
    once = fatpack("slim", wheel, *options, "-d", made, codes=(0, 1))
    measure({"once": once}, 1)
    (result,) = made.iterdir()
    packed, copied, folder = scratch / "packed.zip", scratch / "copied.whl", scratch / "dist"
    commands = {
        "slim": fatpack("slim", wheel, *options, "-d", folder, outputs=[folder], codes=(0, 1)),
        "zipfile": command(sys.executable, "-c", _REPACK, wheel, packed, outputs=[packed]),
        "cp": command("cp", result, copied, outputs=[copied]),
    }
    samples = measure(commands, ROUNDS)
    sizes = f"{wheel.stat().st_size / 1e6:.1f} MB → {result.stat().st_size / 1e6:.1f} MB"
    for path in (result, copied, packed, *folder.iterdir()):
        path.unlink()
    peer = "inflating and deflating all with zipfile"
    yield against(f"slim {what} ({sizes}): faster than", samples["slim"], samples["zipfile"], peer, 1.0)
    ratio = samples["slim"].seconds / samples["cp"].seconds
    facts = f"{milliseconds(samples['slim'])}; cp {milliseconds(samples['cp'])}"
    yield Figure(f"slim {what}", ratio, "x cp of the result", None, facts)
    yield memory(f"slim {what}: peak", samples["slim"], None)


def _wheel(scratch: Path) -> Path:
    """Make a wheel of linked libraries, each with a fat binary that a record registers."""
    library = inputs.registered_library(scratch, 1, IMAGES, SIZE)
    wheel = scratch / NAME
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for number in range(LIBRARIES):
            archive.write(library, f"x/lib{number}.so")
        info = "x-1.0.dist-info"
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: x\nVersion: 1.0\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    library.unlink()
    return wheel
