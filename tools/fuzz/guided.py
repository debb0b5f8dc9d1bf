"""The loop of atheris, if it is installed: files that reach new code are changed further.

atheris ends its own process, so each run of it is a process that leaves its results in a folder.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NoReturn

#: Output of libFuzzer while it runs, and when it ends.
_EDGES = re.compile(r"cov: (\d+)")
_STATISTIC = re.compile(r"stat::(\w+):\s+(\d+)")


def is_installed() -> bool:
    """Return whether atheris can be imported."""
    return find_spec("atheris") is not None


def fuzz(name: str, *, seconds: float, executions: int | None, number: int) -> dict[str, object]:
    """Run a target in a process of its own and return its results, in the form of the plain loop."""
    with TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "tools.fuzz.guided"]
        command += [folder, name, str(seconds), str(executions or 0), str(number)]
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        log = done.stderr.decode(errors="replace")
        results = Path(folder) / "results.json"
        found = dict(json.loads(results.read_text()))
        statistics = dict(_STATISTIC.findall(log))
        found["reached"] = max((int(edges) for edges in _EDGES.findall(log)), default=0)
        found["executions"] = int(statistics.get("number_of_executed_units") or found["executions"])
        if not statistics:
            found["faults"].append(["the process ended", log[-2000:], ""])
    return found


def main(folder: str, name: str, seconds: str, executions: str, number: str) -> NoReturn:
    """Fuzz until atheris ends the process."""
    import atheris

    # fatpack imports modules when it needs them: the instrumentation stays on.
    atheris.instrument_imports(include=["fatpack"]).__enter__()
    import os
    import time
    from random import Random

    from tools.fuzz import seeds
    from tools.fuzz.mutate import Mutator, Seed
    from tools.fuzz.targets import DIFFERENTIAL, TARGETS
    from tools.fuzz.watch import Watch

    target, results = (TARGETS | DIFFERENTIAL)[name], Path(folder) / "results.json"
    first = [*target.first(), *seeds.found(name)]
    # Modules are instrumented when they are first imported, which takes half a second that must not count for a file.
    # Faults of these files are found when atheris runs them.
    warm = Watch(target)
    for data in first:
        warm.run(data)
    watch = Watch(target)
    corpus = Path(folder) / "corpus"
    corpus.mkdir()
    for index, data in enumerate(first):
        (corpus / str(index)).write_bytes(data)
    largest = min(2 * seeds.LARGEST, 4 * max(map(len, first)))
    others = [Seed(data, target.fields(data)) for data in first]
    faults: dict[str, list[str]] = {}
    count, told = 0, 0.0

    def save() -> None:
        nonlocal told
        told = time.monotonic()
        value = {
            "target": name,
            "executions": count,
            "seconds": time.process_time(),
            "slowest": watch.slowest,
            "memory": watch.memory,
            "faults": list(faults.values()),
        }
        results.with_suffix(".new").write_text(json.dumps(value))
        os.replace(results.with_suffix(".new"), results)

    def run(data: bytes) -> None:
        nonlocal count
        count += 1
        fault = watch.run(data)[1]
        if fault is not None and fault.key not in faults:
            faults[fault.key] = [fault.key, fault.text, data.hex()]
            save()
        elif time.monotonic() - told > 1:
            save()

    def change(data: bytes, largest: int, seed: int) -> bytes:
        random = Random(seed)
        if random.random() < 0.3:
            return bytes(atheris.Mutate(data, largest))
        mutator = Mutator(random, target.words, is_text=target.is_text, largest=largest)
        return mutator.mutated(Seed(data, target.fields(data)), random.choice(others)) or b"\0"

    save()
    arguments = [f"-max_total_time={int(float(seconds))}", f"-max_len={largest}", f"-seed={int(number) + 1}"]
    arguments += [
        "-print_final_stats=1",
        "-close_fd_mask=3",
        "-rss_limit_mb=2048",
        "-timeout=60",
        f"-runs={int(executions) or -1}",
    ]
    atheris.Setup([name, *arguments, str(corpus)], run, custom_mutator=change)
    atheris.Fuzz()
    raise AssertionError("atheris ends the process")


if __name__ == "__main__":
    main(*sys.argv[1:])
