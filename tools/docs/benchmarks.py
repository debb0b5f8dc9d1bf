"""The page of benchmarks: tables and pictures of the figures recorded by ``make bench ARGS="--record"``."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

from tools.bench import recording
from tools.bench.measure import HEADS, Figure
from tools.docs.bars import Bar, render
from tools.docs.markdown import filled, table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

DOCS = Path(__file__).parents[2] / "docs"

#: Endings of the names of figures.
_ENDINGS = (": faster than", ": per copy", ": time")


def pages() -> dict[str, str]:
    """Return the page and its pictures: name below ``docs/`` → text."""
    page = (DOCS / "benchmarks.md").read_text(encoding="utf-8")
    return rendered(page, recording.read(recording.FIGURES))


def rendered(page: str, runs: Mapping[str, recording.Run]) -> dict[str, str]:
    """Return a page with the figures of runs between its marks, and the pictures that it shows.

    Raises ValueError if the page has no marks for a subject.
    """
    made = {}
    for subject, run in runs.items():
        lines = [f"{run.date}: {run.machine}.", ""]
        bars = drawn(run.figures)
        if bars:
            name = f"benchmarks/{subject}.svg"
            made[name] = render(f"{subject}: others beside fatpack", bars)
            lines += [f"![Times of others as multiples of fatpack's: the ratios of the table below]({name})", ""]
        lines += table(list(HEADS), [list(figure.row()) for figure in run.figures])
        page = filled(page, f"figures of {subject}", "\n".join(lines))
    return {"benchmarks.md": page} | made


def drawn(figures: Sequence[Figure]) -> list[Bar]:
    """Return the bars of those figures that compare fatpack's time with another's."""
    bars = []
    for figure in figures:
        if figure.peer and not math.isnan(figure.value):
            what = figure.what
            for ending in _ENDINGS:
                what = what.removesuffix(ending)
            bars.append(Bar(what, figure.peer, figure.times_ours))
    return bars
