"""Growth as SVG: for each kind of files a panel with time and one with memory, over the amount of work.

Both scales are logarithmic, so linear growth is a straight line that rises by one mark for each mark to the right.
Lines of other tools are dashed. The picture has its own background, light or dark as the reader's system, and a
description with all times in words.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from tools.bench.measure import MB
from tools.docs.bars import picture, text_line

if TYPE_CHECKING:
    from collections.abc import Callable

#: Of a panel: its size, and what is around it in the whole picture.
_WIDE, _HIGH = 250, 150
_LEFT, _TOP, _NAMES, _GAP, _FOOT = 60, 60, 120, 50, 40
#: The least distance of the names of two lines.
_NAME = 13

_STYLE = """
    svg { color-scheme: light dark; font: 12px system-ui, "Segoe UI", Helvetica, Arial, sans-serif; }
    .ground { fill: #ffffff; } text { fill: #1f2328; } .quiet { fill: #59636e; } .title { font-size: 14px; }
    .mark { stroke: #d1d9e0; } path { fill: none; stroke-width: 2; } .peer { stroke-dasharray: 5 4; }
    .c0 { stroke: #0969da; } .c1 { stroke: #bc4c00; } .c2 { stroke: #1a7f37; } .c3 { stroke: #8250df; }
    @media (prefers-color-scheme: dark) {
      .ground { fill: #0d1117; } text { fill: #f0f6fc; } .quiet { fill: #9198a1; } .mark { stroke: #3d444d; }
      .c0 { stroke: #4493f8; } .c1 { stroke: #f0883e; } .c2 { stroke: #3fb950; } .c3 { stroke: #ab7df8; }
    }
"""


class Line(NamedTuple):
    """A command on files of one kind: its name, and amounts of work with values; ``is_peer`` for another tool."""

    name: str
    points: tuple[tuple[int, float], ...]
    is_peer: bool


class Panel(NamedTuple):
    """The files of one kind, with lines of seconds and of bytes."""

    title: str
    seconds: list[Line]
    memory: list[Line]


def render(title: str, panels: list[Panel]) -> str:
    """Return the picture of panels, one below the other."""
    width = 2 * (_LEFT + _WIDE + _NAMES)
    height = _TOP + len(panels) * (_HIGH + _GAP) + _FOOT
    parts = [f'  <rect class="ground" width="{width}" height="{height}"/>', text_line(16, 24, title, "title")]
    parts.append(
        text_line(16, 42, "Left: seconds of processor time above the start-up. Right: peak of memory.", "quiet")
    )
    for number, panel in enumerate(panels):
        y = _TOP + number * (_HIGH + _GAP) + 12
        parts.append(text_line(_LEFT, y - 6, panel.title))
        parts += _panel(panel.seconds, _LEFT, y, lambda value: f"{value:g} s")
        parts += _panel(panel.memory, 2 * _LEFT + _WIDE + _NAMES, y, lambda value: f"{value / MB:g} MB")
    return picture(title, _words(panels), (width, height), _STYLE, parts)


def _words(panels: list[Panel]) -> str:
    """Return all times in words."""
    return " ".join(
        f"{panel.title}, {line.name}: {', '.join(f'{work:,} in {value:.2f} s' for work, value in line.points)}."
        for panel in panels
        for line in panel.seconds
    )


def _panel(lines: list[Line], left: int, top: int, unit: Callable[[float], str]) -> list[str]:
    """Return the lines of a panel with marks at powers of ten; values below the least mark are drawn at it."""
    works = [work for line in lines for work, _ in line.points]
    values = [value for line in lines for _, value in line.points if value > 0] or [1.0]
    first, last = math.floor(math.log10(min(works))), math.ceil(math.log10(max(works)))
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    last, high = max(last, first + 1), max(high, low + 1)

    def x(work: float) -> float:
        return left + (math.log10(work) - first) / (last - first) * _WIDE

    def y(value: float) -> float:
        return top + _HIGH - (max(math.log10(max(value, 1e-9)), low) - low) / (high - low) * _HIGH

    parts = []
    for power in range(first, last + 1):
        parts.append(_rule(x(10.0**power), x(10.0**power), top, top + _HIGH))
        parts.append(text_line(x(10.0**power), top + _HIGH + 16, f"{10**power:,}", "quiet", "middle"))
    for power in range(low, high + 1):
        at = y(10.0**power)
        parts.append(_rule(left, left + _WIDE, at, at))
        parts.append(text_line(left - 6, at + 4, unit(10.0**power), "quiet", "end"))
    for number, line in enumerate(lines):
        path = " L".join(f"{x(work):.1f},{y(value):.1f}" for work, value in line.points)
        kind = f"c{number % 4} peer" if line.is_peer else f"c{number % 4}"
        parts.append(f'  <path class="{kind}" d="M{path}"/>')
    least = 0.0
    for at, line in sorted((y(line.points[-1][1]) + 4, line) for line in lines):
        least = max(at, least)
        parts.append(text_line(left + _WIDE + 6, least, line.name))
        least += _NAME
    return parts


def _rule(x1: float, x2: float, y1: float, y2: float) -> str:
    return f'  <line class="mark" x1="{x1:.1f}" x2="{x2:.1f}" y1="{y1:.1f}" y2="{y2:.1f}"/>'
