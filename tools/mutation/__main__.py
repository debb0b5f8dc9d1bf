"""Mutation testing: ``python -m tools.mutation [--samples N] [--seed N] [ROOM...]``.

A room is a folder of ``src/fatpack``. A sample of its mutations is tried one at a time, in a copy of the sources, by
the room's own tests: those in the folder of ``tests`` that mirrors the changed module's. A change is noticed if a test
fails or does not end. Each change that was not noticed is printed; then comes the table of docs/testing.md.
"""

from __future__ import annotations

import argparse
import difflib
import os
import queue
import resource
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from pathlib import Path

from tools.mutation.sites import Mutation, draw

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "src/fatpack"

#: Rooms whose tests are at their own doors. Commands and stand-ins are tried by laws too, which take longer.
ROOMS: tuple[str, ...] = (
    "binary",
    "codecs",
    "edit",
    "formats",
    "images",
    "inputs",
    "io",
    "packages",
    "proof",
    "registration",
)
ROOMS += ("scanner", "selectors", "tabular", "targets", "tensile", "text")

#: Seconds after which tests that do not end have noticed a change, and bytes of memory that they may have.
SECONDS, MEMORY = 300, 6 << 30


class Copies:
    """Copies of the sources, one for each run at a time; tests import them by PYTHONPATH."""

    def __init__(self, folder: Path, number: int) -> None:
        self._free: queue.Queue[Path] = queue.Queue()
        for index in range(number):
            copy = folder / str(index)
            shutil.copytree(SOURCES, copy / SOURCES.name)
            self._free.put(copy)

    def is_noticed(self, change: Mutation) -> bool:
        """Return True if the tests of the changed module's folder fail with the change."""
        copy = self._free.get()
        path = copy / change.path.relative_to(SOURCES.parent)
        before, at = path.read_text(), path.stat()
        try:
            path.write_text(change.apply(before))
            # Python compiles a module again if its time is another: this one is that of no other change.
            os.utime(path, ns=(at.st_atime_ns, at.st_mtime_ns + 10**9 * (1 + change.occurrence)))
            return run_tests(tests_of(change.path), copy) != 0
        finally:
            path.write_text(before)
            os.utime(path, ns=(at.st_atime_ns, at.st_mtime_ns))
            self._free.put(copy)


def tests_of(module: Path) -> Path:
    """Return the folder of tests that mirrors a module's: the nearest one that there is."""
    folder = ROOT / "tests" / module.parent.relative_to(SOURCES)
    while not any(folder.rglob("test_*.py")):
        folder = folder.parent
    return folder


def run_tests(tests: Path, sources: Path) -> int:
    """Run a folder of tests against a folder of sources, and return pytest's exit code, or 1 if they do not end."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-m", "not slow and not gpu", "-p", "no:cacheprovider"]
        command += [f"--basetemp={folder}/tmp", str(tests)]
        environment = dict(os.environ, PYTHONPATH=str(sources), PYTHONDONTWRITEBYTECODE="1")
        try:
            done = subprocess.run(
                command, cwd=ROOT, env=environment, capture_output=True, timeout=SECONDS, preexec_fn=_bound_memory
            )
        except subprocess.TimeoutExpired:
            return 1
        return done.returncode


def _bound_memory() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def try_room(room: str, samples: int, seed: int, jobs: int) -> tuple[int, list[Mutation]]:
    """Return how many changes of a room were tried, and those that no test of the room noticed.

    Raises:
        SystemExit: the tests fail without a change.
    """
    changes = draw(sorted((SOURCES / room).rglob("*.py")), samples, seed)
    with tempfile.TemporaryDirectory(prefix="fatpack-mutation-") as name, ThreadPoolExecutor(jobs) as pool:
        folders = sorted({tests_of(change.path) for change in changes})
        for folder, code in zip(folders, pool.map(lambda each: run_tests(each, SOURCES.parent), folders), strict=True):
            if code:
                raise SystemExit(f"{folder.relative_to(ROOT)} fails without a change: run pytest there")
        noticed = list(pool.map(Copies(Path(name), jobs).is_noticed, changes))
    return len(changes), [change for change, seen in zip(changes, noticed, strict=True) if not seen]


def describe(change: Mutation) -> str:
    """Return the change as lines of a diff, after its place."""
    before = change.path.read_text()
    lines = difflib.unified_diff(before.splitlines(), change.apply(before).splitlines(), n=0, lineterm="")
    changed = [line for line in lines if line[:1] in "+-" and line[:3] not in ("---", "+++")]
    return f"{change.path.relative_to(ROOT)}:{change.line}\n  " + "\n  ".join(changed)


def main() -> int:
    """Try the rooms, print survivors and a table; return 1 if all together notice less than ``--at-least``."""
    parser = argparse.ArgumentParser(prog="python -m tools.mutation", description=__doc__)
    parser.add_argument(
        "rooms", nargs="*", metavar="ROOM", help="folders of src/fatpack; default: those with own tests"
    )
    parser.add_argument("--samples", type=int, default=40, help="changes of each room (default 40)")
    parser.add_argument("--seed", type=int, default=0, help="another number gives other changes")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="runs at a time")
    parser.add_argument("--at-least", type=int, default=0, metavar="PERCENT", help="exit with 1 if less is noticed")
    options = parser.parse_args()
    rows, tried, noticed = ["| room | changes | noticed |", "|---|---:|---:|"], 0, 0
    for room in options.rooms or ROOMS:
        changes, missed = try_room(room, options.samples, options.seed, options.jobs)
        tried, noticed = tried + changes, noticed + changes - len(missed)
        rows.append(f"| `{room}` | {changes} | {changes - len(missed)} ({100 - 100 * len(missed) // changes} %) |")
        print("\n".join([*map(describe, missed), rows[-1]]), flush=True)
    print(
        f"\n{date.today()}, --seed {options.seed} --samples {options.samples}: {noticed} of {tried} changes noticed\n"
    )
    print("\n".join(rows))
    return 1 if noticed * 100 < options.at_least * tried else 0


if __name__ == "__main__":
    sys.exit(main())
