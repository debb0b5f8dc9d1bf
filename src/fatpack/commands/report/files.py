"""The files, what carries their device code, and what of them could not be read."""

from __future__ import annotations

from fatpack.commands.report.parts import count_cell, name_element, page_section, size_cell, table_element
from fatpack.commands.report.words import common_directory, format_count, format_sizes
from fatpack.text.markup import Markup, element

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.commands.report.model import FileOverview, ReportResult


def files_section(overview: ReportResult) -> Markup | None:
    """Return the table of files with device code or with something wrong; None if there is one, and it is fine."""
    shown = overview.files
    if len(shown) == 1 and not shown[0].error and not shown[0].not_searched:
        return None
    rest = overview.files_read - len(shown)
    lead = (
        f"{format_count(rest, 'file')} without device code {'is' if rest == 1 else 'are'} not listed."
        if rest > 0
        else ""
    )
    folder = common_directory(file.path for file in shown)
    heads = [("file", False), ("kind", False), ("bytes", True), ("of it device code", True), ("architectures", False)]
    heads += [("images", True), ("kernels", True), ("findings", False)]
    return page_section(
        "files",
        "Files",
        lead,
        table_element("t-files", heads, (_file_row(file, folder) for file in shown), finds="Filter files"),
    )


def _file_row(file: FileOverview, folder: str) -> Markup:
    wrong = [" ".join(file.findings)]
    if file.error is not None:
        wrong.append(file.error)
    return element(
        "tr",
        element("td", name_element(file.path.removeprefix(folder)), title=file.path if len(file.path) < 300 else None),
        element("td", file.host),
        size_cell(file.size),
        size_cell(file.bytes.stored),
        element("td", _bar(file)),
        count_cell(file.bytes.count),
        count_cell(file.kernels),
        element("td", " ".join(filter(None, wrong)), class_="wrong" if file.error else None),
    )


def _bar(file: FileOverview) -> Markup | str:
    is_stored = bool(file.bytes.stored) and all(arch.bytes.stored is not None for arch in file.archs)
    whole = sum((arch.bytes.stored if is_stored else arch.bytes.inflated) or 0 for arch in file.archs)
    if not whole:
        return ""
    x, drawn = 0.0, []
    for arch in file.archs:
        width = 160 * ((arch.bytes.stored if is_stored else arch.bytes.inflated) or 0) / whole
        rect = element("rect", x=x, y=0, width=max(0.0, width - 0.5), height=12, class_="own")
        title = element("title", f"{arch.label}\n{format_count(arch.bytes.count, 'image')}\n{format_sizes(arch.bytes)}")
        drawn.append(element("g", title, rect, class_=f"f-{arch.family}"))
        x += width
    words = ", ".join(arch.label for arch in file.archs)
    return element("svg", *drawn, viewBox="0 0 160 12", class_="pic small", role="img", aria_label=words)
