"""The bytes of one file: a picture, and a table of its regions."""

from __future__ import annotations

from fatpack.report.html.sections.parts import chip, name, section, size_cell, table
from fatpack.report.markup import Markup, element
from fatpack.report.pictures.byte_grid import byte_grid
from fatpack.report.pictures.words import base, many
from fatpack.words.sizes import size_words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.report.pictures.regions import ByteMap, Region

#: Characters of a value or a meaning that are shown.
_LONGEST = 160


def byte_map(map: ByteMap | None) -> Markup | None:
    """Return the section; None without a file to show."""
    if map is None:
        return None
    picture = byte_grid(map)
    if picture is None:
        return None
    lead = f"{base(map.path)}, {size_words(map.size)}: "
    if map.level == "fields":
        lead += f"each of its {many(map.labels, 'field')}. "
    else:
        lead += f"{many(map.labels, 'field')} in {len(map.regions):,} rows. fatpack inspect --bytes lists every field. "
    heads = [("offset", True), ("bytes", True), ("name", False), ("value", False), ("meaning", False)]
    rows = [_row(region) for region in map.regions]
    made = table("t-bytes", heads, rows, finds="Filter fields")
    listed = element("details", element("summary", f"{many(len(map.regions), 'row')}"), made, class_="regions")
    return section("map", "Byte map", lead, element("div", picture, class_="grid"), listed)


def _row(region: Region) -> Markup:
    value = region.value if len(region.value) <= _LONGEST else f"{region.value[:_LONGEST]}…"
    doc = region.doc if len(region.doc) <= _LONGEST else f"{region.doc[:_LONGEST]}…"
    arch = [" ", chip(region.arch, region.family)] if region.arch else []
    return element(
        "tr",
        element("td", f"{region.start:#x}", class_="n name", data_v=region.start),
        size_cell(region.size),
        element("td", name(region.name, 100), *arch),
        element("td", value),
        element("td", doc, class_="soft"),
    )
