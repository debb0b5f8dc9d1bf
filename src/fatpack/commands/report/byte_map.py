"""The bytes of one file: a picture, and a table of its regions."""

from __future__ import annotations

from fatpack.commands.report.byte_grid import draw_byte_grid
from fatpack.commands.report.parts import arch_chip, name_element, page_section, size_cell, table_element
from fatpack.commands.report.words import base_name, format_count
from fatpack.printable import format_size
from fatpack.text.markup import Markup, element

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.commands.report.byte_regions import ByteRegion, FileRegions

#: Characters of a value or a meaning that are shown.
_MAX_VALUE_LENGTH = 160


def byte_map_section(map: FileRegions | None) -> Markup | None:
    """Return the section; None without a file to show."""
    if map is None:
        return None
    picture = draw_byte_grid(map)
    if picture is None:
        return None
    lead = f"{base_name(map.path)}, {format_size(map.size)}: "
    if map.level == "fields":
        lead += f"each of its {format_count(map.labels, 'field')}. "
    else:
        lead += f"{format_count(map.labels, 'field')} in {len(map.regions):,} rows. fatpack inspect --bytes lists every field. "
    heads = [("offset", True), ("bytes", True), ("name", False), ("value", False), ("meaning", False)]
    rows = [_region_row(region) for region in map.regions]
    made = table_element("t-bytes", heads, rows, finds="Filter fields")
    listed = element("details", element("summary", f"{format_count(len(map.regions), 'row')}"), made, class_="regions")
    return page_section("map", "Byte map", lead, element("div", picture, class_="grid"), listed)


def _region_row(region: ByteRegion) -> Markup:
    value = region.value if len(region.value) <= _MAX_VALUE_LENGTH else f"{region.value[:_MAX_VALUE_LENGTH]}…"
    doc = region.doc if len(region.doc) <= _MAX_VALUE_LENGTH else f"{region.doc[:_MAX_VALUE_LENGTH]}…"
    arch = [" ", arch_chip(region.arch, region.family)] if region.arch else []
    return element(
        "tr",
        element("td", f"{region.start:#x}", class_="n name", data_v=region.start),
        size_cell(region.size),
        element("td", name_element(region.name, 100), *arch),
        element("td", value),
        element("td", doc, class_="soft"),
    )
