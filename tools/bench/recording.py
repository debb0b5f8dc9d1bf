"""Figures that are kept: ``docs/benchmarks/figures.json``, of which ``docs/benchmarks.md`` has tables and pictures."""

from __future__ import annotations

import json
import math
import os
import platform
import re
import subprocess
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tools.bench.measure import ROOT, Figure, peer

if TYPE_CHECKING:
    from collections.abc import Mapping

#: The file with the figures of the last recorded run of each subject.
FIGURES = ROOT / "docs" / "benchmarks" / "figures.json"

#: project of a peer → a tool of it, which prints its version
_VERSIONS = {"LLVM": "llvm-objdump", "GNU binutils": "objcopy", "CUDA": "cuobjdump"}


class Run(NamedTuple):
    """One run of a subject: its date (``2026-11-22``), the machine in words, and its figures."""

    date: str
    machine: str
    figures: tuple[Figure, ...]


def read(path: Path) -> dict[str, Run]:
    """Return the recorded run of each subject; empty if none was recorded yet."""
    if not path.exists():
        return {}
    runs = json.loads(path.read_text(encoding="utf-8"))
    return {
        subject: Run(run["date"], run["machine"], tuple(map(_figure, run["figures"]))) for subject, run in runs.items()
    }


def write(runs: Mapping[str, Run], path: Path) -> None:
    """Keep runs; one line per figure, so that a diff shows which changed."""
    parts = []
    for subject, run in runs.items():
        head = f'"date": {json.dumps(run.date)}, "machine": {json.dumps(run.machine)}'
        lines = ",\n    ".join(json.dumps(_facts(figure)) for figure in run.figures)
        parts.append(f'  {json.dumps(subject)}: {{{head}, "figures": [\n    {lines}\n  ]}}')
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("{\n" + ",\n".join(parts) + "\n}\n", encoding="utf-8")


def now(figures: list[Figure], load: float) -> Run:
    """Return a run of today on this machine; ``load`` is the load average before it, recorded if it disturbs."""
    release = ".".join(platform.release().split(".")[:2])
    words = [f"{len(os.sched_getaffinity(0))} cores", f"{platform.system()} {release}"]
    words += [f"Python {'.'.join(platform.python_version_tuple()[:2])}", *_tools()]
    words += [f"busy with other work (load {load:.1f})"] if load else []
    return Run(date.today().isoformat(), ", ".join(words), tuple(figures))


def _tools() -> list[str]:
    """Return the versions of other installed tools, in words."""
    found = []
    for name, tool in _VERSIONS.items():
        path = peer(tool)
        if path is None:
            continue
        printed = subprocess.run([path, "--version"], capture_output=True, text=True).stdout
        version = re.search(r"\d+\.\d+", printed)
        found += [f"{name} {version.group()}"] if version else []
    return found


def _facts(figure: Figure) -> dict[str, Any]:
    """Return a figure to record: rounded to its precision, without empty fields."""
    value = None if math.isnan(figure.value) else float(f"{figure.value:.5g}")
    facts = {"what": figure.what, "value": value, "unit": figure.unit, "limit": figure.limit}
    points = [
        [name, [[work, float(f"{seconds:.4g}"), peak] for work, seconds, peak in line]] for name, line in figure.points
    ]
    more = {"is_floor": figure.is_floor, "peer": figure.peer, "facts": figure.facts, "points": points}
    return facts | {name: value for name, value in more.items() if value}


def _figure(facts: dict[str, Any]) -> Figure:
    value = math.nan if facts["value"] is None else facts["value"]
    points = tuple((name, tuple(map(tuple, line))) for name, line in facts.get("points", ()))
    return Figure(**(facts | {"value": value, "points": points}))
