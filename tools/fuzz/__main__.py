"""Fuzz fatpack: ``make fuzz ARGS="--minutes 10"``, ``python -m tools.fuzz [OPTIONS] [TARGET...]``.

Without names all targets share the time, on all cores. A table is printed, and each file that makes a target fail is
kept in ``.fuzz/TARGET``; the exit code is 1 if there is one. Such a file becomes a fixture in ``tests/fixtures/fuzz``
together with the fix.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from typing import Any

from tools.fuzz import guided
from tools.fuzz.plain import fuzz
from tools.fuzz.targets import DIFFERENTIAL, TARGETS

ROOT = Path(__file__).resolve().parents[2]
KEPT = ROOT / ".fuzz"


def main() -> int:
    """Run the targets on the command line and return the exit code."""
    options = _options()
    if options.worker:
        return _work(options)
    if options.list:
        print("\n".join([*TARGETS, *DIFFERENTIAL]))
        return 0
    engine = options.engine or ("atheris" if guided.is_installed() else "plain")
    names = options.targets or list(DIFFERENTIAL if options.differential else TARGETS)
    # With --executions a target has one process, on any number of cores: more would try other files.
    each = 1 if options.executions else max(1, options.jobs // len(names))
    parts = [(name, number) for number in range(each) for name in names]
    seconds = options.seconds or 60 * options.minutes * options.jobs / len(parts)
    print(f"{len(names)} targets, {options.jobs} processes at a time, {seconds:.0f} s each, {engine} loop", flush=True)
    with ThreadPoolExecutor(options.jobs) as pool:
        runs = pool.map(lambda part: _run(engine, part[0], part[1] + options.seed, seconds, options), parts)
        found = [_told(run) for run in runs]
    _print(found)
    return 1 if any(run["faults"] for run in found) else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.fuzz", description=__doc__)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help="targets to run; --list prints the names")
    parser.add_argument("--minutes", type=float, default=1, help="time for all of them (default 1)")
    parser.add_argument("--seconds", type=float, help="time for each target instead")
    parser.add_argument("--executions", type=int, help="end a target after this number of files")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="processes at a time")
    parser.add_argument("--seed", type=int, default=0, help="another number gives other files")
    parser.add_argument("--engine", choices=["plain", "atheris"], help="default: atheris if it is installed")
    parser.add_argument("--list", action="store_true", help="print the names of the targets")
    parser.add_argument("--differential", action="store_true", help="compare stand-ins with their originals instead")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def _run(engine: str, name: str, number: int, seconds: float, options: argparse.Namespace) -> dict[str, Any]:
    """Run one target in a process of its own."""
    if engine == "atheris":
        return guided.fuzz(name, seconds=seconds, executions=options.executions, number=number)
    command = [sys.executable, "-m", "tools.fuzz", "--worker", name, f"--seconds={seconds}", f"--seed={number}"]
    command += [f"--executions={options.executions}"] if options.executions else []
    environment = {**os.environ, "PYTHONHASHSEED": "0"}  # sets have the same order every time
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    if done.returncode:
        nothing = dict.fromkeys(("executions", "seconds", "reached", "slowest", "memory"), 0)
        return nothing | {"target": name, "faults": [["the process ended", done.stderr[-2000:], ""]]}
    return dict(json.loads(done.stdout.splitlines()[-1]))


def _work(options: argparse.Namespace) -> int:
    """Fuzz one target in this process without its output, and print the results."""
    own = os.dup(1)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nowhere, number)
    (name,) = options.targets
    target = (TARGETS | DIFFERENTIAL)[name]
    outcome = fuzz(target, seconds=options.seconds, executions=options.executions, number=options.seed)
    faults = [[fault.key, fault.text, data.hex()] for fault, data in outcome.faults]
    with os.fdopen(own, "w") as stream:
        stream.write(json.dumps(outcome._asdict() | {"faults": faults}) + "\n")
    return 0


def _told(run: dict[str, Any]) -> dict[str, Any]:
    """Print the mistakes of a run as they are found, and keep the files that show them."""
    for key, text, data in run["faults"]:
        folder = KEPT / str(run["target"])
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / sha256(key.encode()).hexdigest()[:12]
        path.write_bytes(bytes.fromhex(data))
        print(f"\n{run['target']}: {key}\n  {path}\n  " + text.replace("\n", "\n  "), flush=True)
    return run


def _print(runs: list[dict[str, Any]]) -> None:
    """Print one line per target, of all its processes together, and the sum."""
    print(f"{'target':28}{'executions':>12}{'a second':>10}{'reached':>9}{'slowest':>10}{'memory':>9}{'faults':>8}")
    executions, seconds = Counter[str](), Counter[str]()
    for run in runs:
        executions[run["target"]] += run["executions"]
        seconds[run["target"]] += run["seconds"]
    for name in executions:
        own = [run for run in runs if run["target"] == name]
        faults = len({key for run in own for key, _, _ in run["faults"]})
        rate = executions[name] / seconds[name] if seconds[name] else 0
        reached, slowest, memory = (max(run[key] for run in own) for key in ("reached", "slowest", "memory"))
        print(f"{name:28}{executions[name]:12,}{rate:10,.0f}{reached:9,}{slowest:9.3f}s{memory >> 20:6} MB{faults:8}")
    print(f"{'all':28}{executions.total():12,}")


if __name__ == "__main__":
    sys.exit(main())
