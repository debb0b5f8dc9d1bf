"""The cost of each architecture as a picture: its bytes, and what its devices would take without it."""

from __future__ import annotations

from fatpack.commands.report.model import arch_family
from fatpack.commands.report.pictures import (
    family_with_colour,
    fit_text,
    format_count,
    rect_element,
    shorten_name,
    svg_element,
    text_element,
)
from fatpack.printable import format_size
from fatpack.text.markup import Markup, element

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from fatpack.commands.report.model import ReportResult
    from fatpack.tabular.arch_costs import ArchCost, Substitute

#: LIMIT: architectures that a picture shows, the largest ones, and lines of one of them.
_MOST, _MOST_LINES = 40, 6

#: outcome of a device without an architecture → its mark, and the words of the legend
_MARKS = {
    "runs": ("served", "runs other machine code"),
    "compiles": ("ptx", "compiles PTX when it is loaded"),
    "unknown": ("link", "not certain"),
    "fails": ("none", "has nothing"),
}

_WIDTH, _BARS, _BAR_WIDTH, _WORDS = 960.0, 104.0, 240.0, 460.0
_STEP, _CELL, _GAP = 19.0, 13.0, 7.0


def draw_costs(overview: ReportResult) -> Markup | None:
    """Return the picture of all files together; None without device code."""
    every = [one for one in overview.worth.costs if not one.path]
    if not every:
        return None
    least = sorted(map(_size, every), reverse=True)[:_MOST][-1]
    costs = [one for one in every if _size(one) >= least][:_MOST]  # oldest first
    whole = sum(map(_size, every))
    largest = max(map(_size, costs)) or 1
    is_stored = all(one.stored is not None for one in costs)
    title = f"{format_size(whole)}{'' if is_stored else ' inflated'}: what each architecture costs"
    drawn = [
        text_element(title, 4, 14, "strong"),
        text_element("without it, the devices that take it …", _WORDS, 14, "strong"),
    ]
    y = 14 + _STEP + 4
    for one in costs:
        drawn.append(_row(one, y, largest, whole))
        y += _STEP * max(1, min(len(one.instead), _MOST_LINES)) + _GAP
    hidden = len(every) - len(costs)
    if hidden:
        drawn.append(text_element(f"{format_count(hidden, 'smaller architecture')} not shown", 4, y, "soft"))
        y += _STEP
    drawn.append(_legend(y + 2))
    return svg_element(_WIDTH, y + 20, "What each architecture costs, and what its devices take without it", *drawn)


def _size(cost: ArchCost) -> int:
    return cost.inflated if cost.stored is None else cost.stored


def _row(cost: ArchCost, y: float, largest: int, whole: int) -> Markup:
    size = _size(cost)
    width = max(1.0, _BAR_WIDTH * size / largest)
    share = f", {100 * size / whole:.0f} %" if whole else ""
    parts = [
        element("title", shorten_name(cost.advice)),
        text_element(fit_text(cost.label, _BARS - 8), 4, y),
        rect_element(_BARS, y - _CELL / 2, width, _CELL, "own", 2.5),
        text_element(f"{format_size(size)}{share}", _BARS + width + 6, y, "soft"),
    ]
    if not cost.instead:
        parts.append(text_element("no known device takes it", _WORDS, y, "soft"))
    for number, one in enumerate(cost.instead[:_MOST_LINES]):
        at = y + _STEP * number
        words = _words(one)
        if number == _MOST_LINES - 1 and len(cost.instead) > _MOST_LINES:
            words = f"{len(cost.instead) - number} more answers: fatpack report --markdown lists them"
        parts.append(rect_element(_WORDS, at - _CELL / 2, _CELL, _CELL, _MARKS[one.outcome][0], 2.5))
        parts.append(text_element(fit_text(words, _WIDTH - _WORDS - _CELL - 12), _WORDS + _CELL + 6, at))
    return element("g", *parts, class_=f"f-{family_with_colour(arch_family(cost.label, None, None, None))}")


def _words(one: Substitute) -> str:
    return f"{_named(one.devices)}: {one.words}"


def _named(devices: Sequence[str]) -> str:
    return ", ".join(devices[:4]) + (f" and {len(devices) - 4} more" if len(devices) > 4 else "")


def _legend(y: float) -> Markup:
    drawn, x = [], 4.0
    for mark, words in _MARKS.values():
        drawn.append(element("g", rect_element(x, y - _CELL / 2, _CELL, _CELL, mark, 2.5), class_="f-other"))
        drawn.append(text_element(words, x + _CELL + 6, y, "soft"))
        x += _CELL + 24 + 5.6 * len(words)
    return element("g", *drawn)
