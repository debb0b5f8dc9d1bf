"""Benchmarks: ``python -m tools.bench [NAME...] [--scratch DIR]``; ``docs/benchmarks.md`` says how to read them.

Every figure is a ratio, measured in one run against the peer tool and against ``cp`` of the same bytes, or a budget on
top of the start-up. Nothing here is a test: a slow machine is no failure, and the exit code is 0 whatever the verdicts.
With ``--record`` the figures are kept; ``make docs`` makes tables and pictures of them. A subject that could not be
measured to its end keeps its old figures, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from tools.bench import recording
from tools.bench.measure import FATPACK, HEADS, MB, BenchError, Figure, command, measure

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

#: subject → module with ``run(scratch)``
SUBJECTS = {
    "start_up": "tools.bench.start_up",
    "pack": "tools.bench.packing",
    "inspect": "tools.bench.inspecting",
    "embed": "tools.bench.embedding",
    "archives": "tools.bench.archives",
    "bundles": "tools.bench.bundle_library",
    "bundle": "tools.bench.bundling",
    "cuda": "tools.bench.cuda",
    "kernels": "tools.bench.kernels",
    "packages": "tools.bench.packages",
    "check": "tools.bench.checking",
    "slim": "tools.bench.slimming",
    "wheels": "tools.bench.wheels",
    "builds": "tools.bench.building",
    "cir": "tools.bench.cir",
    "linearity": "tools.bench.linearity",
    "growth": "tools.bench.growth",
}

#: Free space that all subjects together need at a time, in bytes.
SPACE = 5 * 10**9

#: Columns of a table except the last; a longer text moves the columns after it.
WIDTHS = (64, 24, 8, 7)

#: Load average above which the output says that times are disturbed.
BUSY = 0.5


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.bench", description="Measure fatpack against its peers.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"subjects: {', '.join(SUBJECTS)}; default: all")
    parser.add_argument("--scratch", type=Path, metavar="DIR", help="where files are made; default: a temporary folder")
    parser.add_argument("--record", action="store_true", help="keep the figures for docs/benchmarks.md")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.names if name not in SUBJECTS]
    if unknown:
        parser.error(f"unknown subject {', '.join(unknown)}; known are {', '.join(SUBJECTS)}")
    if not FATPACK.exists():
        parser.error(f"{FATPACK} is missing: run this with the interpreter of an environment fatpack is installed in")
    if options.scratch is not None:
        options.scratch.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="fatpack-bench-", dir=options.scratch) as scratch:
        free = shutil.disk_usage(scratch).free
        if free < SPACE:
            parser.error(f"{free / 1e9:.1f} GB free for scratch files, {SPACE / 1e9:.0f} GB are needed; see --scratch")
        floor = measure({"true": command("true")}, 3)["true"].peak
        load = os.getloadavg()[0]
        if load > BUSY:
            print(f"Load average {load:.1f}: other work disturbs the times; compare them with the cpu times.")
        if "import re\n" in FATPACK.read_text(errors="replace"):
            print("The console script imports re, as older versions of pip write it; reinstall with a current pip.")
        print(f"Peaks below {floor / MB:.0f} MB, that of `true`, cannot be distinguished.", flush=True)
        is_whole = True
        for name in options.names or SUBJECTS:
            print(f"\n{name}", flush=True)
            found = print_table(figures(name, Path(scratch)))
            if found is None:
                is_whole = False
            elif options.record:
                runs = recording.read(recording.FIGURES) | {name: recording.now(found, load if load > BUSY else 0)}
                recording.write({known: runs[known] for known in SUBJECTS if known in runs}, recording.FIGURES)
    if options.record:
        print(f"\nRecorded in {recording.FIGURES}; make docs puts tables and pictures into docs/benchmarks.md.")
    return 0 if is_whole or not options.record else 1


def figures(name: str, scratch: Path) -> Iterator[Figure]:
    """Yield the figures of one subject, in a folder of its own that is removed afterwards."""
    with tempfile.TemporaryDirectory(prefix=f"{name}-", dir=scratch) as folder:
        yield from import_module(SUBJECTS[name]).run(Path(folder))


def print_table(found: Iterator[Figure]) -> list[Figure] | None:
    """Print figures in columns, each when it is measured, and return them.

    If a measurement fails, print why the rest is missing, and return None.
    """
    _print_row(HEADS)
    printed = []
    try:
        for figure in found:
            _print_row(figure.row())
            printed.append(figure)
    except BenchError as error:
        print(f"not measured: {error}")
        return None
    return printed


def _print_row(row: Sequence[str]) -> None:
    cells = [cell.ljust(width) for cell, width in zip(row, WIDTHS, strict=False)]
    print("  ".join([*cells, row[-1]]).rstrip(), flush=True)


if __name__ == "__main__":
    sys.exit(main())
