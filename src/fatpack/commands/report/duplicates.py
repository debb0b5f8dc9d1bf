"""What is there several times, and the bytes that costs."""

from __future__ import annotations

from fatpack.commands.report.parts import count_cell, name_element, page_section, size_cell, table_element
from fatpack.commands.report.words import common_directory, format_count
from fatpack.printable import format_size
from fatpack.text.markup import Markup, element

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.commands.report.model import Duplicate, ReportResult


#: Duplicates that are shown at once, the dearest; the others are folded. Places that are named of each.
_FIRST, _PLACES = 10, 3

_HEADS = (
    ("what", False),
    ("for", False),
    ("copies", True),
    ("files", True),
    ("bytes of one", True),
    ("cost of the others", True),
    ("image in", False),
)


def duplicates_section(overview: ReportResult) -> Markup | None:
    """Return the section: the dearest of all that is there twice, or the sentence that nothing is."""
    if not overview.image_count:
        return None
    compared = "the same image, and the same code of kernels" if overview.compares_code else "the same image"
    has_images = any(item.kind == "image" for item in overview.duplicates)
    if not overview.duplicates:
        return page_section("duplicates", "Duplicates", f"Compared by digest: {compared}. Nothing is there twice.")
    lead = f"Compared by digest: {compared}. {format_count(overview.duplicate_count, 'duplicate')}"
    lead += (
        f"; those of images cost {format_size(overview.duplicate_cost)}. "
        if has_images
        else "; no image is there twice. "
    )
    if len(overview.duplicates) < overview.duplicate_count:
        lead += f"The {len(overview.duplicates):,} dearest are listed. "
    if any(item.kind == "kernel" for item in overview.duplicates):
        lead += "Code of one kernel may be the same for several architectures, each of which needs its own. "
    folder = common_directory(file.path for file in overview.files)
    first = table_element("t-twice", _HEADS, (_duplicate_row(item, folder) for item in overview.duplicates[:_FIRST]))
    rest = overview.duplicates[_FIRST:]
    if not rest:
        return page_section("duplicates", "Duplicates", lead, first)
    more = table_element(
        "t-twice-more", _HEADS, (_duplicate_row(item, folder) for item in rest), finds="Filter duplicates"
    )
    summary = element("summary", f"{len(rest):,} more")
    return page_section("duplicates", "Duplicates", lead, first, element("details", summary, more, class_="more"))


def _duplicate_row(item: Duplicate, folder: str) -> Markup:
    where = [element("li", name_element(place.removeprefix(folder), 110)) for place in item.places[:_PLACES]]
    if item.count > len(where):
        where.append(element("li", f"and {item.count - len(where):,} more", class_="soft"))
    what = name_element(item.name, 90) if item.kind == "kernel" else element("span", item.name)
    digest = element("span", f"{item.kind} {item.digest[:12]}", class_="soft name")
    cost = format_size(item.cost) if item.is_stored else f"{format_size(item.cost)} inflated"
    return element(
        "tr",
        element("td", what, element("br"), digest),
        element("td", ", ".join(item.labels)),
        count_cell(item.count),
        count_cell(item.files),
        size_cell(item.size),
        element("td", cost, class_="n", data_v=item.cost),
        element("td", element("ul", *where, class_="where")),
    )
