"""What is wrong or worth knowing, by code."""

from __future__ import annotations

from itertools import starmap

from fatpack.report.html.sections.parts import count_cell, name, section, table
from fatpack.report.markup import Markup, element

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.answers.overview.records import FindingCount, Overview


def findings(overview: Overview) -> Markup | None:
    """Return the section: findings by code, and files that could not be read."""
    unread = [file for file in overview.files if file.error is not None]
    if not overview.findings and not unread:
        return None
    rows = [_unread(file.path, file.error or "") for file in unread]
    rows += [_row(item) for item in overview.findings]
    heads = [("code", False), ("severity", False), ("what it means", False), ("times", True), ("files", False)]
    lead = "fatpack inspect FILE says of each where it is, and what to do."
    return section("findings", "Findings", lead, table("t-findings", heads, rows))


def _row(item: FindingCount) -> Markup:
    return element(
        "tr",
        element("td", item.code, class_="name"),
        element("td", item.severity, class_=f"severity {item.severity}"),
        element("td", item.meaning),
        count_cell(item.count),
        element("td", element("ul", *starmap(_said, zip(item.files, item.messages, strict=True)), class_="where")),
    )


def _said(path: str, message: str) -> Markup:
    return element("li", name(path), f": {message}" if message else "")


def _unread(path: str, error: str) -> Markup:
    words = element("td", "unread", class_="severity error")
    return element("tr", element("td", "–"), words, element("td", error), count_cell(1), element("td", name(path)))
