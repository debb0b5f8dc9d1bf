"""The coverage of kernels as a picture: a row for kernels that are there for the same architectures."""

from __future__ import annotations

from fatpack.commands.report.colours import family_with_colour
from fatpack.commands.report.drawing import fit_text, rect_element, svg_element, text_element
from fatpack.commands.report.names import kernel_namespace
from fatpack.commands.report.words import base_name, format_count, shorten_name
from fatpack.text.markup import Markup, element

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.commands.report.model import CoveragePattern, KernelCoverage, ReportResult

#: What each kind of cell means, in the order of the legend.
CELL_MEANINGS = {
    "own": "an image for it",
    "served": "an image for another architecture runs there",
    "ptx": "PTX or SPIR-V is compiled there",
    "link": "relocatable: counts only through the device link",
    "none": "nothing runs there",
}

#: LIMIT: rows of one library, and libraries, that a picture shows.
_MAX_COVERAGE_ROWS, _MOST_LIBRARIES = 24, 12

_NAME, _COLUMN_STEP, _CELL, _LINE = 380.0, 58.0, 13.0, 19.0


def draw_coverage(overview: ReportResult) -> Markup | None:
    """Return the picture of the libraries with most holes, and of their most frequent rows; None without kernels."""
    libraries = sorted(
        overview.coverage, key=lambda item: (-item.with_holes, -item.relocatable, -item.kernels, item.path)
    )[:_MOST_LIBRARIES]
    if not libraries:
        return None
    width = _NAME + _COLUMN_STEP * max(len(item.columns) for item in libraries) + 10
    y, drawn = 14.0, []
    for item in libraries:
        part, y = _library(item, y, width)
        drawn.append(part)
        y += 14
    drawn.append(_legend(y))
    return svg_element(max(width, 700), y + 16, "Coverage: kernels by the architectures they are there for", *drawn)


def coverage_rows(item: KernelCoverage) -> list[CoveragePattern]:
    """Return the rows of a library in the order of reading: the most frequent one, then those with holes."""
    first, *rest = item.patterns
    return [first, *sorted(rest, key=lambda row: (not row.holes, -row.count, row.cells))]


def coverage_row_name(row: CoveragePattern) -> str:
    """Return what a row is called: the kernel that it is of, or how many there are."""
    return kernel_namespace(row.names[0]) if row.count == 1 else format_count(row.count, "kernel")


def _library(item: KernelCoverage, y: float, width: float) -> tuple[Markup, float]:
    name = base_name(item.path)
    drawn = [text_element(fit_text(name, _NAME - 10), 4, y, "strong")]
    for number, column in enumerate(item.columns):
        drawn.append(
            text_element(fit_text(column, _COLUMN_STEP), _NAME + _COLUMN_STEP * number + _CELL / 2, y, "soft mid")
        )
    rows = coverage_rows(item)
    for row in rows[:_MAX_COVERAGE_ROWS]:
        y += _LINE
        text = coverage_row_name(row)
        drawn.append(
            element(
                "g",
                element("title", "\n".join(map(shorten_name, row.names[:5]))),
                text_element(fit_text(text, _NAME - 20), 14, y),
            )
        )
        for number, (cell, family) in enumerate(zip(row.cells, item.families, strict=True)):
            place = rect_element(_NAME + _COLUMN_STEP * number, y - _CELL / 2, _CELL, _CELL, cell, 2.5)
            words = element("title", f"{item.columns[number]}: {CELL_MEANINGS.get(cell, 'text only')}")
            drawn.append(element("g", words, place, class_=f"f-{family_with_colour(family)}"))
    hidden = sum(row.count for row in rows[_MAX_COVERAGE_ROWS:]) + item.not_listed
    if hidden:
        y += _LINE
        drawn.append(text_element(f"{format_count(hidden, 'more kernel')} in other rows", 14, y, "soft"))
    return element("g", *drawn), y + _LINE


def _legend(y: float) -> Markup:
    drawn, x = [], 4.0
    for cell, words in CELL_MEANINGS.items():
        drawn.append(element("g", rect_element(x, y - _CELL / 2, _CELL, _CELL, cell, 2.5), class_="f-other"))
        drawn.append(text_element(words, x + _CELL + 6, y, "soft"))
        x += _CELL + 24 + 5.6 * len(words)
    return element("g", *drawn)
