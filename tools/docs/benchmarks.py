"""The page of benchmarks: tables and pictures of the figures recorded by ``make bench ARGS="--record"``."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

from tools.bench import recording, stack, variants
from tools.bench.measure import HEADS, Figure
from tools.docs import lines as growth_lines
from tools.docs.bars import Bar, render
from tools.docs.markdown import filled, table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

DOCS = Path(__file__).parents[2] / "docs"

#: Endings of the names of figures.
_ENDINGS = (": faster than", ": per copy", ": time")


def pages() -> dict[str, str]:
    """Return the page and its pictures: name below ``docs/`` → text."""
    page = (DOCS / "benchmarks.md").read_text(encoding="utf-8")
    made = rendered(page, recording.read(recording.FIGURES))
    text = "\n".join(stack_tables(stack.read()))
    page = filled(made["benchmarks.md"], "figures of real wheels", text)
    staying = "\n".join(staying_libraries(stack.read()))
    page = filled(page, "libraries that stay", staying)
    return {**made, "benchmarks.md": filled(page, "answers of uv", "\n".join(variant_lines(variants.read())))}


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
        panels = growth_panels(run.figures)
        if panels:
            name = f"benchmarks/{subject}.svg"
            made[name] = growth_lines.render(f"{subject}: time and memory over the amount of work", panels)
            lines += [f"![Time and memory over the amount of work: the figures below]({name})", ""]
        lines += table(list(HEADS), [list(figure.row()) for figure in run.figures])
        page = filled(page, f"figures of {subject}", "\n".join(lines))
    return {"benchmarks.md": page} | made


def growth_panels(figures: Sequence[Figure]) -> list[growth_lines.Panel]:
    """Return the panels of figures about growth, one for each kind of files."""
    panels: dict[str, growth_lines.Panel] = {}
    for figure in figures:
        operation, _, kind = figure.what.partition(": ")
        for number, (name, points) in enumerate(figure.points):
            panel = panels.setdefault(kind, growth_lines.Panel(kind, [], []))
            said = name if number else operation
            seconds = tuple((work, value) for work, value, _ in points)
            panel.seconds.append(growth_lines.Line(said, seconds, number > 0))
            memory = tuple((work, float(peak)) for work, _, peak in points)
            panel.memory.append(growth_lines.Line(said, memory, number > 0))
    return list(panels.values())


def variant_lines(recorded: Mapping[str, Any]) -> list[str]:
    """Return the table of wheels that were split, with what uv and the others did with them."""
    tools = ", ".join(f"{name} {version}" for name, version in recorded["versions"].items())
    heads = ["wheel", "MB", "labels (MB)", "uv takes the table's", "runs", "gets less", "pip", "variantlib", "--verify"]
    rows = []
    for row in recorded["rows"]:
        labels = ", ".join(f"{label} {size / 1e6:.1f}" for label, size in row["labels"].items())
        cells = [row["wheel"], f"{row['size'] / 1e6:.1f}", labels, f"{row['agree']} of {row['questions']}"]
        cells += [str(row["served"]), str(row["lost"]), "the fat one" if row["pip"] else "another"]
        cells += ["agrees" if row["variantlib"] else "differs", "proved" if row["proved"] else "not proved"]
        rows.append(cells)
    return [f"{recorded['date']}: {tools}.", "", *table(heads, rows)]


def stack_tables(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the tables of slimmed wheels: those for CUDA, and those for ROCm."""
    lines = []
    for columns in (stack.CUDA, stack.ROCM):
        found = [row for row in rows if not row["results"].keys().isdisjoint(columns)]
        if found:
            lines += table(["wheel", "MB", *columns], [[*_wheel_cells(row), *_cells(row, columns)] for row in found])
    return lines


def staying_libraries(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the table of the libraries that slimming leaves as they are: those with one reason in one row."""
    groups: dict[tuple[str, str, str, str], list[Mapping[str, Any]]] = {}
    for row in rows:
        for column, result in row["results"].items():
            for one in result["stays"]:
                key = _wheel_cells(row)[0], column, one["reason"], one["advice"]
                groups.setdefault(key, []).append(one)
    cells = [
        [wheel, column, _libraries(group), f"{sum(one['size'] for one in group) / 1e6:.1f}", reason, advice]
        for (wheel, column, reason, advice), group in groups.items()
    ]
    return table(["wheel", "for", "libraries", "MB", "reason", "what to type"], cells)


def _libraries(group: Sequence[Mapping[str, Any]]) -> str:
    names = [str(one["library"]).rpartition("/")[2] for one in group]
    return f"{names[0]} to {names[-1]} ({len(names)})" if len(names) > 3 else ", ".join(names)


def _wheel_cells(row: Mapping[str, Any]) -> list[str]:
    platform = "" if row["platform"] == "linux" else f", {row['platform']}"
    return [f"{row['name']} {row['version']}{platform}", f"{row['size'] / 1e6:.1f}"]


def _cells(row: Mapping[str, Any], columns: Sequence[str]) -> list[str]:
    """Return the megabytes of a wheel by column, and the processor time as a share of that of unzip and zip."""
    cells = []
    for column in columns:
        result = row["results"].get(column)
        if result is None:
            cells.append("")
            continue
        stays = len(result["stays"])
        mark = f", {stays} {'library stays' if stays == 1 else 'libraries stay'}" if stays else ""
        cells.append(f"{result['size'] / 1e6:.1f} ({result['seconds'] / row['repacked']:.2f}{mark})")
    return cells


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
