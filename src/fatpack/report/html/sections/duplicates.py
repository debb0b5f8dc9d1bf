"""What is there several times, and the bytes that costs."""

from __future__ import annotations

from fatpack.report.html.sections.parts import count_cell, name, section, size_cell, table
from fatpack.report.markup import Markup, element
from fatpack.report.pictures.words import many
from fatpack.report.text import size_words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.answers.overview.records import Duplicate, Overview


def duplicates(overview: Overview) -> Markup | None:
    """Return the section: the dearest of all that is there twice, or the sentence that nothing is."""
    if not overview.image_count:
        return None
    compared = "the same image, and the same code of kernels" if overview.compares_code else "the same image"
    if not overview.duplicates:
        return section("duplicates", "Duplicates", f"Compared by digest: {compared}. Nothing is there twice.")
    kinds = [item.kind for item in overview.duplicates]
    lead = f"Compared by digest: {compared}. {many(overview.duplicate_count, 'duplicate')}; "
    cost = f"those of images cost {size_words(overview.duplicate_cost)}"
    lead += f"{cost if 'image' in kinds else 'no image is there twice'}. "
    if len(overview.duplicates) < overview.duplicate_count:
        lead += f"The {len(overview.duplicates):,} dearest are shown."
    heads = [("what", False), ("for", False), ("copies", True), ("files", True), ("bytes of one", True)]
    heads += [("cost of the others", True), ("where", False)]
    rows = [_row(item) for item in overview.duplicates]
    return section("duplicates", "Duplicates", lead, table("t-twice", heads, rows, finds="Filter duplicates"))


def _row(item: Duplicate) -> Markup:
    where = [element("li", name(place, 110)) for place in item.places[:3]]
    if len(item.places) > 3:
        where.append(element("li", "and more", class_="soft"))
    what = name(item.name, 90) if item.kind == "kernel" else element("span", item.name)
    digest = element("span", f"{item.kind} {item.digest[:12]}", class_="soft name")
    return element(
        "tr",
        element("td", what, element("br"), digest),
        element("td", item.label),
        count_cell(item.count),
        count_cell(item.files),
        size_cell(item.size),
        size_cell(item.cost),
        element("td", element("ul", *where, class_="where")),
    )
