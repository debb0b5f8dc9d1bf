"""The head of the page: what it is of, what matters, and the numbers."""

from __future__ import annotations

from fatpack.commands.report.parts import arch_chip, name_element
from fatpack.commands.report.words import base_name, format_count, format_runs_on, format_sizes
from fatpack.printable import format_size
from fatpack.text.markup import Markup, element, join_markup

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from fatpack.commands.report.model import ReportResult


#: LIMIT: files that could not be read and are named at the head of the page.
_MOST_UNREAD = 5


def page_title(paths: Sequence[str]) -> str:
    """Return what the page is of: the name of the path, or how many there are."""
    return base_name(paths[0]) if len(paths) == 1 else format_count(len(paths), "path")


def page_head(overview: ReportResult, paths: Sequence[str]) -> Markup:
    """Return the head of the page."""
    shown = [name_element(path) for path in paths[:6]]
    if len(paths) > 6:
        shown.append(element("span", f"and {len(paths) - 6:,} more"))
    lines = [
        element("p", "Device code report", class_="kicker"),
        element("h1", element("bdi", page_title(paths))),
        element("p", *_between(shown), class_="paths"),
        _unread_notice(overview),
        element("p", *page_summary(overview), class_="summary"),
        element("dl", *_figures(overview), class_="figures"),
    ]
    return element("header", *lines)


def _unread_notice(overview: ReportResult) -> Markup:
    """Return what was not read, before all else: the rest of the page is of what was."""
    unread = [file for file in overview.files if file.error is not None]
    if not unread and not overview.problems:
        return Markup("")
    lines = [element("li", file.error or "") for file in unread[:_MOST_UNREAD]]
    if len(unread) > len(lines):
        lines.append(element("li", f"and {len(unread) - len(lines):,} more: see the findings"))
    lines += [element("li", problem) for problem in overview.problems]
    words = (
        f"{format_count(len(unread), 'file')} could not be read, or not to the end." if unread else "Not all was done."
    )
    title = element("strong", words)
    return element("div", title, element("ul", *lines), class_="unread", role="alert")


def _between(items: Sequence[str]) -> list[str]:
    return [part for number, item in enumerate(items) for part in ([", ", item] if number else [item])]


def page_summary(overview: ReportResult) -> list[str]:
    """Return what matters as sentences: damage first, then holes, then what runs where."""
    said: list[str] = []
    errors = [item for item in overview.findings if item.severity == "error"]
    if errors:
        said.append(f"{format_count(sum(item.count for item in errors), 'place')} with damage: see the findings. ")
    holes = sum(item.with_holes for item in overview.coverage)
    if not overview.image_count:
        said.append("No device code was found.")
    elif holes:
        kernels = format_count(overview.kernel_names, "kernel")
        said.append(f"{holes:,} of {kernels} lack an architecture that others of their library have. ")
    links = sum(item.relocatable for item in overview.coverage)
    is_text = all(" " in label for label in overview.links)  # sm_120 ptx: what no device is of
    if overview.kernel_names and not holes and is_text and all(item.is_whole for item in overview.coverage):
        said.append("Every kernel runs on every architecture that its library has machine code for. ")
    if links:
        said.append(
            f"{format_count(links, 'kernel')} for {', '.join(overview.links[:6])}: relocatable, so they count only through the "
            "device link, and no device gets them as they are. "
        )
    if len(overview.coverage) == 1:
        said.append(f"{format_runs_on(overview.coverage[0])}.")
    return said


def _figures(overview: ReportResult) -> list[Markup]:
    stored = overview.bytes.stored
    archs = len(overview.arch_names)
    figures = [
        (format_size(stored), "device code stored") if stored is not None else ("not known", "device code stored"),
        (format_size(overview.bytes.inflated), "inflated"),
        (f"{overview.image_count:,}", "images" if overview.image_count != 1 else "image"),
        (f"{archs:,}", "architectures" if archs != 1 else "architecture"),
        (f"{overview.kernel_names:,}", "kernels by name" if overview.kernel_names != 1 else "kernel by name"),
        (f"{sum(item.count for item in overview.findings):,}", "findings"),
    ]
    if overview.shared == stored and stored:
        figures[0] = format_size(stored), "device code stored, in bundles compressed as one"
    elif overview.shared:
        figures.insert(1, (format_size(overview.shared), "of it in bundles compressed as one"))
    return [element("div", element("dd", value), element("dt", words)) for value, words in figures]


def arch_bar(overview: ReportResult) -> Markup | None:
    """Return the bar of all architectures and its legend."""
    if not overview.archs:
        return None
    is_stored = bool(overview.bytes.stored) and all(arch.bytes.stored is not None for arch in overview.archs)
    whole = sum((arch.bytes.stored if is_stored else arch.bytes.inflated) or 0 for arch in overview.archs) or 1
    bars, x, legend = [], 0.0, []
    for arch in overview.archs:
        size = (arch.bytes.stored if is_stored else arch.bytes.inflated) or 0
        width = 1000 * size / whole
        words = f"{arch.label}\n{format_count(arch.bytes.count, 'image')}\n{format_sizes(arch.bytes)}"
        rect = element("rect", x=x, y=0, width=max(0.0, width - 1), height=22, class_="own")
        bars.append(element("g", element("title", words), rect, class_=f"f-{arch.family}"))
        legend.append(
            element("li", arch_chip(arch.label, arch.family), " ", element("span", format_size(size), class_="soft"))
        )
        x += width
    bar = element(
        "svg",
        *bars,
        viewBox="0 0 1000 22",
        class_="pic bar",
        preserveAspectRatio="none",
        role="img",
        aria_label="Bytes by architecture",
    )
    kind = "stored" if is_stored else "inflated"
    legend.append(element("li", f"bytes {kind}", class_="soft"))
    return join_markup((element("div", bar, class_="barbox"), element("ul", *legend, class_="legend")))
