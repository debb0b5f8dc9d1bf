"""Start-up: what a command costs before it works, in bare interpreter starts."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from tools.bench.inputs import SMALL_CONTAINER, SMALL_OBJECT
from tools.bench.measure import Figure, command, fatpack, measure, milliseconds

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ROUNDS = 40


def run(scratch: Path) -> Iterator[Figure]:
    """Yield the figures."""
    image = scratch / "image.bin"
    samples = measure(
        {
            "python": command(sys.executable, "-I", "-c", "pass"),
            "click": command(sys.executable, "-I", "-c", "import click"),
            "version": fatpack("--version"),
            "inspect": fatpack("inspect", SMALL_OBJECT),
            "extract": fatpack("extract", "-q", SMALL_OBJECT, "-o", image, outputs=[image]),
            "tool": fatpack(
                "tool", "llvm-offload-binary", SMALL_CONTAINER, f"--image=file={image},arch=sm_80", outputs=[image]
            ),
        },
        ROUNDS,
    )
    bare = samples["python"]

    def ratio(what: str, name: str, limit: float | None) -> Figure:
        value, facts = samples[name].seconds / bare.seconds, milliseconds(samples[name])
        is_ours = what.startswith("fatpack")
        return Figure(what, value, "x python -c pass", limit, facts, peer="python -c pass" if is_ours else "")

    yield Figure("python -I -c pass", bare.seconds * 1e3, "ms", None, f"{bare.peak / 1e6:.0f} MB")
    yield ratio("fatpack --version", "version", 2)
    yield ratio("fatpack tool llvm-offload-binary SMALL", "tool", 2.2)
    yield ratio("fatpack inspect SMALL.o", "inspect", 4.5)
    yield ratio("fatpack extract SMALL.o", "extract", None)
    yield ratio("python -I -c 'import click'", "click", None)
