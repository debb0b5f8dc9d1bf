"""Slimming wheels, against inflating and deflating all files of the same wheel, which packing it anew takes at least.

With ``FATPACK_BENCH_SLIM_WHEEL`` naming a wheel (bitsandbytes 0.50.2 has 43 MB with 16 libraries), that one too.
"""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

from tools.bench import inputs
from tools.bench.measure import Figure, against, command, fatpack, measure, memory, need

from fatpack import formats
from fatpack.io.sink import write_file
from fatpack.io.sources.opening import open_source
from fatpack.model import Container, Image, Span, Target

if TYPE_CHECKING:
    from collections.abc import Iterator

ROUNDS = 3
#: bytes of each image, images of each library, libraries
SIZE, IMAGES, LIBRARIES = 4 << 20, 6, 2

NAME = "x-1.0-py3-none-any.whl"
DEVICES = "sm_90,gfx942"

#: What a wheel is at least made of: its files inflated, and deflated again in one thread.
_REPACK = """
import sys, zipfile
with zipfile.ZipFile(sys.argv[1]) as old, zipfile.ZipFile(sys.argv[2], "w", zipfile.ZIP_DEFLATED) as new:
    for info in old.infolist():
        with old.open(info) as source, new.open(info.filename, "w") as target:
            while block := source.read(1 << 20):
                target.write(block)
"""

_LIBRARY = """
        .section .nv_fatbin, "a", @progbits
        .balign 8
container:
        .incbin "{container}"
        .section .nvFatBinSegment, "aw", @progbits
        .balign 8
        .4byte 0x466243b1, 1
        .8byte container, 0
        .section .note.GNU-stack, "", @progbits
"""


def run(scratch: Path) -> Iterator[Figure]:
    """Yield the figures."""
    wheel = _wheel(scratch)
    yield from _figures(f"a wheel of {LIBRARIES} libraries of {IMAGES} images", wheel, scratch)
    wheel.unlink()
    given = os.environ.get("FATPACK_BENCH_SLIM_WHEEL")
    if given:
        yield from _figures(os.path.basename(given).partition("-py3")[0], Path(given), scratch)


def _figures(what: str, wheel: Path, scratch: Path) -> Iterator[Figure]:
    options: list[str | Path] = [
        "--for",
        DEVICES,
        "--build-tag",
        "1",
        "--allow-empty",
        "--force",
        "-q",
        "-d",
        scratch / "dist",
    ]
    packing = command(sys.executable, "-c", _REPACK, wheel, scratch / "packed.zip")
    samples = measure({"slim": fatpack("slim", wheel, *options), "zipfile": packing}, ROUNDS)
    (made,) = (scratch / "dist").iterdir()
    sizes = f"{wheel.stat().st_size / 1e6:.1f} MB → {made.stat().st_size / 1e6:.1f} MB"
    made.unlink()
    (scratch / "packed.zip").unlink()
    peer = "inflating and deflating all with zipfile"
    yield against(f"slim {what} ({sizes}): faster than", samples["slim"], samples["zipfile"], peer, 1.0)
    yield memory(f"slim {what}: peak", samples["slim"], None)


def _wheel(scratch: Path) -> Path:
    """Make a wheel of linked libraries, each with a fat binary that a record registers."""
    images = []
    for path, arch in inputs.images(scratch, IMAGES, SIZE):
        view = open_source(path, resting=True).view()
        target = Target("nvptx64-nvidia-cuda", arch, "cuda")
        images.append(Image(target, "cubin", view, len(view), len(view), view.span()))
    container = Container("cuda-fatbin", 1, tuple(images), Span(0, 0))
    fatbin, source, made, library = (scratch / name for name in ("x.fatbin", "x.s", "x.o", "libx.so"))
    write_file(fatbin, formats.room("cuda-fatbin").write(container), force=True)
    source.write_text(_LIBRARY.format(container=fatbin))
    subprocess.run([need("as"), source, "-o", made], check=True)
    subprocess.run([need("ld"), "-shared", made, "-o", library], check=True)
    wheel = scratch / NAME
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for number in range(LIBRARIES):
            archive.write(library, f"x/lib{number}.so")
        info = "x-1.0.dist-info"
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: x\nVersion: 1.0\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    for path in (fatbin, source, made, library):
        path.unlink()
    return wheel
