"""The portable loop: files are changed at random, and files that reach new code are changed further."""

from __future__ import annotations

import time
from random import Random
from typing import NamedTuple

from tools.fuzz import seeds
from tools.fuzz.mutate import Field, Mutator, Seed
from tools.fuzz.targets import Target
from tools.fuzz.watch import Fault, Watch

#: LIMIT: files that are kept, and files of each description of a run.
_MOST, _MOST_ALIKE = 3000, 3

#: Number of runs to reduce a file that shows a mistake.
_SHRINKING = 300


class Outcome(NamedTuple):
    """The result of a target: ``seconds`` of processor time, and the number of different descriptions of runs."""

    target: str
    executions: int
    seconds: float
    reached: int
    slowest: float
    memory: int
    faults: list[tuple[Fault, bytes]]


def fuzz(target: Target, *, seconds: float, executions: int | None, number: int) -> Outcome:
    """Run a target on its seeds and on changes of them, for a time or a number; ``number`` seeds the changes."""
    random, watch = Random(f"{target.name} {number}"), Watch(target)
    start = time.monotonic()
    corpus: list[Seed] = []
    ways: dict[str, int] = {}
    faults: dict[str, tuple[Fault, bytes]] = {}
    count = 0

    def run(data: bytes, fields: list[Field] | None) -> None:
        nonlocal count
        count += 1
        words, fault = watch.run(data)
        if fault is not None:
            if fault.key not in faults:
                faults[fault.key] = fault, _smaller(watch, data, fault)
            return
        ways[words] = ways.get(words, 0) + 1
        if fields is None and ways[words] <= _MOST_ALIKE and len(corpus) < _MOST:
            corpus.append(Seed(data, target.fields(data)))

    first = [*target.first(), *seeds.found(target.name)]
    largest = min(2 * seeds.LARGEST, 4 * max(map(len, first)))
    for data in first:
        fields = target.fields(data)
        corpus.append(Seed(data, fields))
        run(data, fields)
    mutator = Mutator(random, target.words, is_text=target.is_text, largest=largest)
    while time.monotonic() - start < seconds and (executions is None or count < executions):
        run(mutator.mutated(random.choice(corpus), random.choice(corpus)), None)
    return Outcome(
        target.name, count, time.process_time(), len(ways), watch.slowest, watch.memory, list(faults.values())
    )


def _smaller(watch: Watch, data: bytes, fault: Fault) -> bytes:
    """Return a file that shows the same mistake and has fewer bytes, or fewer that are not zero."""
    if fault.key.startswith(("slow", "memory", "TooSlow")):
        return data  # each try would take as long again
    left = _SHRINKING
    size = max(1, len(data) // 2)
    while size and left > 0:
        at = 0
        while at < len(data) and left > 0:
            for other in (
                data[:at] + data[at + size :],
                data[:at] + bytes(len(data[at : at + size])) + data[at + size :],
            ):
                if other == data:
                    continue
                left -= 1
                found = watch.run(other)[1]
                if found is not None and found.key == fault.key:
                    data = other
                    break
            at += size
        size //= 2
    return data
