"""Start-up: what a command costs before it works, in bare interpreter starts."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from tools.bench.inputs import SMALL_CONTAINER, SMALL_OBJECT
from tools.bench.measure import FIXTURES, Figure, command, fatpack, measure, milliseconds

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ROUNDS = 40

HOST = FIXTURES / "demo" / "host.o"
CUBIN = FIXTURES / "cuda" / "cubin" / "k1.cuda13.0.sm_80.cubin"


def run(scratch: Path) -> Iterator[Figure]:
    """Yield the figures."""
    made = scratch / "made"
    samples = measure(
        {
            "python": command(sys.executable, "-I", "-c", "pass"),
            "click": command(sys.executable, "-I", "-c", "import click"),
            "version": fatpack("--version"),
            "help": fatpack("--help"),
            "inspect": fatpack("inspect", SMALL_OBJECT),
            "extract": fatpack("extract", "-q", SMALL_OBJECT, "-o", made, outputs=[made]),
            "pack": fatpack("pack", "-q", f"--image=file={CUBIN},arch=sm_80,kind=cuda", "-o", made, outputs=[made]),
            "embed": fatpack("embed", "-q", HOST, SMALL_CONTAINER, "-o", made, outputs=[made]),
            "replace": fatpack("replace", "-q", SMALL_OBJECT, SMALL_CONTAINER, "-o", made, outputs=[made]),
            "remove": fatpack("remove", "-q", SMALL_OBJECT, "-o", made, outputs=[made]),
            "convert": fatpack(
                "convert", "-q", SMALL_CONTAINER, "--format=bundle", "--lossy", "-o", made, outputs=[made]
            ),
            "targets": fatpack("targets", "sm_90a"),
            "tool": fatpack(
                "tool", "llvm-offload-binary", SMALL_CONTAINER, f"--image=file={made},arch=sm_80", outputs=[made]
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
    yield ratio("fatpack --help", "help", 3)
    yield ratio("fatpack tool llvm-offload-binary SMALL", "tool", 2.2)
    yield ratio("fatpack inspect SMALL.o", "inspect", 4.5)
    yield ratio("fatpack extract SMALL.o", "extract", 4.5)
    yield ratio("fatpack pack SMALL", "pack", 4.5)
    yield ratio("fatpack embed HOST.o SMALL", "embed", 4.5)
    yield ratio("fatpack replace SMALL.o SMALL", "replace", 4.5)
    yield ratio("fatpack remove SMALL.o", "remove", 4.5)
    yield ratio("fatpack convert SMALL", "convert", 4.5)
    yield ratio("fatpack targets NAME", "targets", 4.5)
    yield ratio("python -I -c 'import click'", "click", None)
