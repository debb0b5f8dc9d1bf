"""What is wrong or worth knowing, by code."""

from __future__ import annotations

from itertools import starmap

from fatpack.commands.report.parts import count_cell, name_element, page_section, table_element
from fatpack.text.markup import Markup, element

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.commands.report.model import FindingCount, ReportResult


def findings_section(overview: ReportResult) -> Markup | None:
    """Return the section: findings by code, and files that could not be read."""
    unread = [file for file in overview.files if file.error is not None]
    if not overview.findings and not unread:
        return None
    rows = [_unread_row(file.path, file.error or "") for file in unread]
    rows += [_finding_row(item) for item in overview.findings]
    heads = [("code", False), ("severity", False), ("what it means", False), ("times", True), ("files", False)]
    lead = "fatpack inspect FILE says of each where it is, and what to do."
    return page_section("findings", "Findings", lead, table_element("t-findings", heads, rows))


def _finding_row(item: FindingCount) -> Markup:
    return element(
        "tr",
        element("td", item.code, class_="name"),
        element("td", item.severity, class_=f"severity {item.severity}"),
        element("td", item.meaning),
        count_cell(item.count),
        element("td", element("ul", *starmap(_said, zip(item.files, item.messages, strict=True)), class_="where")),
    )


def _said(path: str, message: str) -> Markup:
    return element("li", name_element(path), f": {message}" if message else "")


def _unread_row(path: str, error: str) -> Markup:
    words = element("td", "unread", class_="severity error")
    return element(
        "tr", element("td", "–"), words, element("td", error), count_cell(1), element("td", name_element(path))
    )
