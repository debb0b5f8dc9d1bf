"""A bar chart as SVG: the times of other tools as multiples of fatpack's.

Ratios span decades, so the scale is logarithmic, and a bar begins at 1, which is fatpack: a bar to the right means
longer than fatpack, one to the left faster. The picture has its own background, light or dark as the reader's system,
and a description with all numbers in words for screen readers.
"""

from __future__ import annotations

import math
from typing import NamedTuple
from xml.sax.saxutils import escape

#: Of the whole picture: its width, the space left of the scale (names), and at its right end (numbers).
_WIDTH, _LEFT, _RIGHT = 760, 250, 60
_HEAD, _GROUP, _BAR, _FOOT = 56, 22, 18, 40
#: The least extent of the scale on both sides of 1, and its margin beyond the longest bar.
_LEAST, _MARGIN = 2.0, 1.25
#: More marks of 1, 2 and 5 than this are thinned out to those of 1.
_MOST_MARKS = 8

_STYLE = """
    svg { color-scheme: light dark; font: 12px system-ui, "Segoe UI", Helvetica, Arial, sans-serif; }
    .ground { fill: #ffffff; } text { fill: #1f2328; } .quiet { fill: #59636e; } .title { font-size: 14px; }
    .slower { fill: #0969da; } .faster { fill: #bc4c00; } .mark { stroke: #d1d9e0; } .ours { stroke: #1f2328; }
    @media (prefers-color-scheme: dark) {
      .ground { fill: #0d1117; } text { fill: #f0f6fc; } .quiet { fill: #9198a1; }
      .slower { fill: #4493f8; } .faster { fill: #f0883e; } .mark { stroke: #3d444d; } .ours { stroke: #f0f6fc; }
    }
"""


class Bar(NamedTuple):
    """A measured task, the other tool, and its time as a multiple of fatpack's."""

    what: str
    peer: str
    ratio: float


def render(title: str, bars: list[Bar]) -> str:
    """Return the picture of at least one bar; bars of one task are grouped below its name."""
    names = [bar.what for bar in bars]
    starts = [index == 0 or name != names[index - 1] for index, name in enumerate(names)]
    height = _HEAD + _GROUP * sum(starts) + _BAR * len(bars) + _FOOT
    scale = _Scale(bars)
    lines = [f'  <rect class="ground" width="{_WIDTH}" height="{height}"/>']
    lines += [text_line(16, 24, title, "title"), text_line(16, 42, _explanation(bars), "quiet")]
    lines += scale.marks(_HEAD, height - _FOOT)
    y = _HEAD
    for bar, is_first in zip(bars, starts, strict=True):
        if is_first:
            y += _GROUP
            lines.append(text_line(16, y - 6, bar.what))
        lines += scale.bar(bar, y)
        y += _BAR
    lines += scale.ours(_HEAD, height - _FOOT)
    words = "; ".join(f"{bar.what}: {bar.peer} takes {ratio(bar.ratio)} as long as fatpack" for bar in bars)
    return picture(title, f"{words}.", (_WIDTH, height), _STYLE, lines)


def picture(title: str, words: str, size: tuple[int, int], style: str, lines: list[str]) -> str:
    """Return a picture of lines of SVG, with a title and a description in words for screen readers."""
    width, height = size
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        'role="img" aria-labelledby="title desc">'
    )
    described = [f'  <title id="title">{escape(title)}</title>', f'  <desc id="desc">{escape(words)}</desc>']
    return "\n".join([head, *described, f"  <style>{style}  </style>", *lines, "</svg>", ""])


def ratio(value: float) -> str:
    """Return a ratio as tables print it, with two significant digits if it is small: ``3.57 x``, ``0.029 x``."""
    return f"{value:.2f} x" if value >= 0.1 else f"{value:.2g} x"


def _explanation(bars: list[Bar]) -> str:
    sides = ["a bar to the right takes longer than fatpack"] if any(bar.ratio > 1 for bar in bars) else []
    if any(bar.ratio < 1 for bar in bars):
        sides.append("one to the left less" if sides else "a bar to the left takes less than fatpack")
    return f"Time of others as multiples of fatpack's, logarithmic: {', '.join(sides)}"


class _Scale:
    """From ratios to positions."""

    def __init__(self, bars: list[Bar]) -> None:
        self._low = min(1 / _LEAST, *(bar.ratio / _MARGIN for bar in bars))
        self._high = max(_LEAST, *(bar.ratio * _MARGIN for bar in bars))

    def _x(self, value: float) -> float:
        part = math.log(value / self._low) / math.log(self._high / self._low)
        return _LEFT + part * (_WIDTH - _RIGHT - _LEFT)

    def marks(self, top: int, bottom: int) -> list[str]:
        """Return lines and numbers at round ratios."""
        powers = [10.0**power for power in range(math.floor(math.log10(self._low)), math.ceil(math.log10(self._high)))]
        values = [power * step for power in powers for step in (1, 2, 5)]
        values = [value for value in values if self._low <= value <= self._high]
        if len(values) > _MOST_MARKS:
            values = [value for value in values if value in powers]
        lines = []
        for value in values:
            x = f"{self._x(value):.1f}"
            lines.append(f'  <line class="mark" x1="{x}" x2="{x}" y1="{top}" y2="{bottom}"/>')
            lines.append(text_line(self._x(value), bottom + 16, f"{value:g}", "quiet", "middle"))
        return lines

    def bar(self, bar: Bar, y: int) -> list[str]:
        """Return a bar with the name of the peer and the ratio."""
        start, end = sorted((self._x(1), self._x(bar.ratio)))
        kind = "slower" if bar.ratio >= 1 else "faster"
        size = f'width="{max(end - start, 1):.1f}" height="{_BAR - 6}"'
        is_left = bar.ratio < 1
        return [
            text_line(_LEFT - 8, y + 10, bar.peer, "quiet", "end"),
            f'  <rect class="{kind}" x="{start:.1f}" y="{y}" {size} rx="2"/>',
            # The number is where no bar is: bars to the left leave the right side free.
            text_line(self._x(1) + 6 if is_left else end + 6, y + 10, ratio(bar.ratio)),
        ]

    def ours(self, top: int, bottom: int) -> list[str]:
        """Return the line for fatpack."""
        x = f"{self._x(1):.1f}"
        line = f'  <line class="ours" stroke-width="2" x1="{x}" x2="{x}" y1="{top}" y2="{bottom}"/>'
        return [line, text_line(self._x(1), bottom + 29, "fatpack", "", "middle")]


def text_line(x: float, y: float, text: str, kind: str = "", anchor: str = "start") -> str:
    """Return a line of text at a place."""
    kinds = f' class="{kind}"' if kind else ""
    where = f' text-anchor="{anchor}"' if anchor != "start" else ""
    return f'  <text{kinds} x="{x:.1f}" y="{y:.1f}"{where}>{escape(text)}</text>'
