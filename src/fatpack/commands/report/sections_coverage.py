"""Kernels against architectures: which are there, which are served by another image, and where there is nothing."""

from __future__ import annotations

from fatpack.commands.report.colours import family_with_colour
from fatpack.commands.report.parts import arch_chip, name_element, page_section
from fatpack.commands.report.pictures import CELL_MEANINGS, coverage_row_name, coverage_rows
from fatpack.commands.report.words import base_name, format_count, format_runs_on
from fatpack.text.markup import Markup, element, escape_markup, join_markup

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from fatpack.commands.report.model import CoveragePattern, KernelCoverage, ReportResult

#: LIMIT: libraries, and characters of kernel names, that a page shows: 1.2 MB of names open in no time.
_MOST_LIBRARIES, _MOST_CHARACTERS = 60, 1_200_000

#: Rows of so few kernels are written one by one.
_FEW = 3

#: Characters of a name of which many are listed.
_MAX_NAME_LENGTH = 300


class _ListedNames:
    """The names that are listed, as far as there is room; rows with holes ask first."""

    def __init__(self, libraries: Sequence[KernelCoverage]) -> None:
        self._room = _MOST_CHARACTERS
        self.shown = 0
        self._of: dict[int, list[str]] = {}
        rows = [row for item in libraries for row in item.patterns]
        for row in sorted(rows, key=lambda row: (not row.holes, row.count)):
            taken = []
            for whole in row.names:
                text = whole if len(whole) <= _MAX_NAME_LENGTH else f"{whole[:_MAX_NAME_LENGTH]}…"
                self._room -= len(text) + 1
                if self._room < 0:
                    break
                taken.append(text)
            self.shown += len(taken)
            self._of[id(row)] = taken

    def of(self, row: CoveragePattern) -> list[str]:
        return self._of[id(row)]


def coverage_section(overview: ReportResult) -> Markup | None:
    """Return the section; libraries with holes come first."""
    order = sorted(overview.coverage, key=lambda item: (-item.with_holes, -item.kernels, item.path))
    libraries = order[:_MOST_LIBRARIES]
    if not libraries:
        return None
    names = _ListedNames(libraries)
    legend = element("ul", *(_cell_legend(cell, words) for cell, words in CELL_MEANINGS.items()), class_="legend cells")
    filter_box = element(
        "p",
        element("input", type="search", data_names=True, placeholder="Find kernels", aria_label="Find kernels"),
        " ",
        element("output", data_of="names"),
        class_="filter",
        hidden=True,
    )
    lead = "Each row stands for the kernels of a library that are there for the same architectures. "
    if names.shown < overview.kernel_names:
        lead += (
            f"{names.shown:,} of {format_count(overview.kernel_names, 'kernel')} are listed by name, those with holes first; "
            "fatpack inspect --rows jsonl --rows-of kernels has all. "
        )
    drawn = [_library(item, names) for item in libraries]
    if len(order) > len(libraries):
        drawn.append(
            element("p", f"{format_count(len(order) - len(libraries), 'more library')} not shown.", class_="soft")
        )
    return page_section("coverage", "Coverage", lead, legend, filter_box, *drawn)


def _cell_legend(cell: str, words: str) -> Markup:
    return element("li", element("i", class_=f"cell {cell} f-other"), " ", words)


def _library(item: KernelCoverage, names: _ListedNames) -> Markup:
    heads = [element("th", "kernels", scope="col"), element("th", "", scope="col", class_="n")]
    for label, family in zip(item.columns, item.families, strict=True):
        heads.append(element("th", arch_chip(label, family), scope="col", class_="col"))
    rows = [line for row in coverage_rows(item) for line in _rows(row, item, names)]
    if item.not_listed:
        words = f"{format_count(item.not_listed, 'more kernel')} in further rows"
        rows.append(element("tr", element("td", words, colspan=2 + len(item.columns), class_="soft")))
    table = element("table", element("thead", element("tr", *heads)), element("tbody", *rows), class_="matrix")
    holes = f", {item.with_holes:,} with holes" if item.with_holes else ""
    words = element("span", f" {format_count(item.kernels, 'kernel')}{holes}", class_="soft")
    title = element(
        "h3", element("bdi", base_name(item.path)), words, title=item.path if len(item.path) < 300 else None
    )
    devices = element("p", format_runs_on(item), class_="runs")
    return element("div", title, devices, element("div", table, class_="scroll"), class_="library")


def _rows(row: CoveragePattern, item: KernelCoverage, names: _ListedNames) -> list[Markup]:
    cells = [
        element(
            "td",
            element(
                "i",
                class_=f"cell {cell} f-{family_with_colour(family)}",
                title=f"{label}: {CELL_MEANINGS.get(cell, 'text only')}",
            ),
            element("span", CELL_MEANINGS.get(cell, ""), class_="vh"),
        )
        for cell, family, label in zip(row.cells, item.families, item.columns, strict=True)
    ]
    class_ = "holes" if row.holes else None
    if row.count <= _FEW:
        return [
            element("tr", element("td", name_element(text), colspan=2), *cells, class_=class_) for text in row.names
        ]
    listed = names.of(row)
    more = f"\n… and {row.count - len(listed):,} more" if len(listed) < row.count else ""
    # One text, not an element for each name: a browser lays out 20,000 lines only when they are opened.
    lines = Markup("\n".join(map(escape_markup, listed))) if listed else Markup("")
    text = element("pre", join_markup((lines,)), data_count=row.count)
    summary = element("summary", coverage_row_name(row))
    inner = element("details", summary, text, element("p", more.strip(), class_="soft") if more else "")
    share = element("td", f"{100 * row.count / item.kernels:.1f} %", class_="n soft")
    return [element("tr", element("td", inner), share, *cells, class_=class_)]
