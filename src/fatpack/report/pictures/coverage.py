"""The coverage of kernels as a picture: a row for kernels that are there for the same architectures."""

from __future__ import annotations

from fatpack.answers.overview.names import stem
from fatpack.report.markup import Markup, element
from fatpack.report.pictures.colours import known
from fatpack.report.pictures.drawing import box, fitting, label, svg
from fatpack.report.pictures.words import base, cut, many

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.answers.overview.records import KernelCoverage, Overview, Pattern

#: What each kind of cell means, in the order of the legend.
CELLS = {
    "own": "an image for it",
    "served": "an image for another architecture runs there",
    "ptx": "PTX or SPIR-V is compiled there",
    "link": "relocatable: counts only through the device link",
    "none": "nothing runs there",
}

#: LIMIT: rows of one library, and libraries, that a picture shows.
_MOST_ROWS, _MOST_LIBRARIES = 24, 12

_NAME, _STEP, _CELL, _LINE = 380.0, 58.0, 13.0, 19.0


def coverage(overview: Overview) -> Markup | None:
    """Return the picture of the libraries with most holes, and of their most frequent rows; None without kernels."""
    libraries = sorted(
        overview.coverage, key=lambda item: (-item.with_holes, -item.relocatable, -item.kernels, item.path)
    )[:_MOST_LIBRARIES]
    if not libraries:
        return None
    width = _NAME + _STEP * max(len(item.columns) for item in libraries) + 10
    y, drawn = 14.0, []
    for item in libraries:
        part, y = _library(item, y, width)
        drawn.append(part)
        y += 14
    drawn.append(_legend(y))
    return svg(max(width, 700), y + 16, "Coverage: kernels by the architectures they are there for", *drawn)


def rows_of(item: KernelCoverage) -> list[Pattern]:
    """Return the rows of a library in the order of reading: the most frequent one, then those with holes."""
    first, *rest = item.patterns
    return [first, *sorted(rest, key=lambda row: (not row.holes, -row.count, row.cells))]


def row_name(row: Pattern) -> str:
    """Return what a row is called: the kernel that it is of, or how many there are."""
    return stem(row.names[0]) if row.count == 1 else many(row.count, "kernel")


def _library(item: KernelCoverage, y: float, width: float) -> tuple[Markup, float]:
    name = base(item.path)
    drawn = [label(fitting(name, _NAME - 10), 4, y, "strong")]
    for number, column in enumerate(item.columns):
        drawn.append(label(fitting(column, _STEP), _NAME + _STEP * number + _CELL / 2, y, "soft mid"))
    rows = rows_of(item)
    for row in rows[:_MOST_ROWS]:
        y += _LINE
        text = row_name(row)
        drawn.append(
            element("g", element("title", "\n".join(map(cut, row.names[:5]))), label(fitting(text, _NAME - 20), 14, y))
        )
        for number, (cell, family) in enumerate(zip(row.cells, item.families, strict=True)):
            place = box(_NAME + _STEP * number, y - _CELL / 2, _CELL, _CELL, cell, 2.5)
            words = element("title", f"{item.columns[number]}: {CELLS.get(cell, 'text only')}")
            drawn.append(element("g", words, place, class_=f"f-{known(family)}"))
    hidden = sum(row.count for row in rows[_MOST_ROWS:]) + item.not_listed
    if hidden:
        y += _LINE
        drawn.append(label(f"{many(hidden, 'more kernel')} in other rows", 14, y, "soft"))
    return element("g", *drawn), y + _LINE


def _legend(y: float) -> Markup:
    drawn, x = [], 4.0
    for cell, words in CELLS.items():
        drawn.append(element("g", box(x, y - _CELL / 2, _CELL, _CELL, cell, 2.5), class_="f-other"))
        drawn.append(label(words, x + _CELL + 6, y, "soft"))
        x += _CELL + 24 + 5.6 * len(words)
    return element("g", *drawn)
