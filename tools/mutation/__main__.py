"""Mutation testing: ``python -m tools.mutation [--samples N] [--seed N] [ROOM...]``.

A room is a folder of ``src/fatpack``, or one in it. A sample of its mutations is tried one at a time, in a copy of the
sources, by the room's own tests: those in the folder of ``tests`` that mirrors the changed module's. A change is
noticed if a test fails, cannot be imported, or does not end. Those that nobody can notice are left out
(``equivalent.toml`` says why). Each change that was not noticed is printed; then comes the table of docs/testing.md.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from itertools import zip_longest
from pathlib import Path

from tools.mutation import reach
from tools.mutation.equivalent import Equivalents
from tools.mutation.sites import Mutation, draw
from tools.mutation.trial import ROOT, tests_fail

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

#: Seconds for tests without a change: all of them run, and each call is noted.
RECORD_SECONDS = 1800


class Copies:
    """Copies of the sources, one for each run at a time; tests import them by PYTHONPATH."""

    def __init__(self, folder: Path, number: int) -> None:
        self._free: queue.Queue[Path] = queue.Queue()
        for index in range(number):
            copy = folder / str(index)
            shutil.copytree(SOURCES, copy / SOURCES.name)
            self._free.put(copy)

    def is_noticed(self, change: Mutation, reached: reach.Reach) -> bool:
        """Return True if the tests of the changed module's folder fail with the change: those that reach it first."""
        copy = self._free.get()
        path = copy / change.path.relative_to(SOURCES.parent)
        before, at = path.read_text(), path.stat()
        first = copy / "first.json"
        first.write_text(json.dumps(reached.order(change.path, change.line)))
        try:
            path.write_text(change.apply(before))
            # Python compiles a module again if its time is another: this one is that of no other change.
            os.utime(path, ns=(at.st_atime_ns, at.st_mtime_ns + 10**9 * (1 + change.occurrence)))
            return run_tests(tests_of(change.path), copy, {reach.FIRST: str(first)})
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


def run_tests(tests: Path, sources: Path, settings: Mapping[str, str], *, seconds: float = SECONDS) -> bool:
    """Run a folder of tests against a folder of sources, and return True if one fails or does not end.

    The settings are variables of the environment that ``tools.mutation.reach`` knows.

    Raises:
        SystemExit: pytest did not try the tests.
    """
    with tempfile.TemporaryDirectory() as folder:
        arguments = ["-m", "not slow and not gpu", "-p", reach.__name__, f"--basetemp={folder}/tmp", str(tests)]
        return tests_fail(arguments, sources, seconds, settings=settings, preexec_fn=_bound_memory)


def _bound_memory() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


class Count:
    """How many changes of a room were tried, and how many of them its tests noticed."""

    def __init__(self) -> None:
        self.tried = self.noticed = 0


def try_rooms(rooms: Sequence[str], samples: int, seed: int, jobs: int, minutes: float) -> dict[str, Count]:
    """Try changes of all rooms in turn, print those that no test of the room noticed, and return the numbers by room.

    Changes that nobody can notice are not tried. None is begun later than some minutes after the first.

    Raises:
        SystemExit: the tests fail without a change, or pytest did not try them.
    """
    equivalents = Equivalents.read()
    drawn = {room: draw(sorted((SOURCES / room).rglob("*.py")), samples, seed) for room in rooms}
    turns = zip_longest(*([(room, change) for change in changes] for room, changes in drawn.items()))
    changes = [found for turn in turns for found in turn if found is not None and found[1] not in equivalents]
    counts = {room: Count() for room in rooms}
    with tempfile.TemporaryDirectory(prefix="fatpack-mutation-") as name, ThreadPoolExecutor(jobs) as pool:
        copies, folders = Copies(Path(name), jobs), {tests_of(change.path) for _, change in changes}
        highest = sorted(folder for folder in folders if folders.isdisjoint(folder.parents))
        records = [Path(name) / f"{index}.json" for index in range(len(highest))]
        reached = dict(zip(highest, pool.map(_record, highest, records), strict=True))
        until = time.monotonic() + 60 * minutes

        def is_noticed(change: Mutation) -> bool | None:
            if time.monotonic() > until:
                return None
            tests = tests_of(change.path)
            record = next(reach for folder, reach in reached.items() if folder in (tests, *tests.parents))
            return copies.is_noticed(change, record)

        for (room, change), noticed in zip(changes, pool.map(is_noticed, (each for _, each in changes)), strict=True):
            if noticed is None:
                continue
            counts[room].tried += 1
            counts[room].noticed += noticed
            if not noticed:
                print(change, flush=True)
    return counts


def _record(tests: Path, record: Path) -> reach.Reach:
    if run_tests(tests, SOURCES.parent, {reach.RECORD: str(record)}, seconds=RECORD_SECONDS):
        raise SystemExit(f"{tests.relative_to(ROOT)} fails or does not end without a change: run pytest there")
    return reach.Reach(record)


def main() -> int:
    """Try the rooms, print survivors and a table; return 1 if less than ``--at-least`` is noticed or none tried."""
    parser = argparse.ArgumentParser(prog="python -m tools.mutation", description=__doc__)
    parser.add_argument(
        "rooms", nargs="*", metavar="ROOM", help="folders of src/fatpack; default: those with own tests"
    )
    parser.add_argument("--samples", type=int, default=40, help="changes of each room (default 40)")
    parser.add_argument("--seed", type=int, default=0, help="another number gives other changes")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="runs at a time")
    parser.add_argument("--at-least", type=int, default=0, metavar="PERCENT", help="exit with 1 if less is noticed")
    parser.add_argument("--minutes", type=float, default=1e9, metavar="N", help="begin none so long after the first")
    options = parser.parse_args()
    counts = try_rooms(options.rooms or ROOMS, options.samples, options.seed, options.jobs, options.minutes)
    print("| room | changes | noticed |\n|---|---:|---:|")
    for room, count in counts.items():
        print(f"| `{room}` | {count.tried} | {count.noticed} ({100 * count.noticed // max(count.tried, 1)} %) |")
    tried, noticed = (sum(getattr(count, what) for count in counts.values()) for what in ("tried", "noticed"))
    print(f"\n{date.today()}, --seed {options.seed} --samples {options.samples}: {noticed} of {tried} noticed")
    return 1 if noticed * 100 < options.at_least * max(tried, 1) else 0


if __name__ == "__main__":
    sys.exit(main())
