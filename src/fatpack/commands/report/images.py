"""The table of images."""

from __future__ import annotations

from fatpack.commands.report.parts import arch_chip, count_cell, name_element, page_section, size_cell, table_element
from fatpack.commands.report.words import base_name, format_count, shorten_name
from fatpack.printable import format_size
from fatpack.text.markup import Markup, element

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.commands.report.model import ImageLine, ReportResult


_BUNDLE = "its bundle is compressed as one: these are the bytes of the bundle"


def images_section(overview: ReportResult) -> Markup | None:
    """Return the section: the largest images, in the order of the files."""
    if not overview.images:
        return None
    has_files = len({line.path for line in overview.images}) > 1
    heads = [("image", False), ("for", False), ("form", False), ("in", False), ("offset", True)]
    heads += [("stored", True), ("inflated", True), ("packed", False), ("kernels", True), ("registers", True)]
    if any(line.findings for line in overview.images):
        heads.append(("findings", False))
    if has_files:
        heads.insert(0, ("file", False))
    shown = f"{len(overview.images):,} of " if len(overview.images) < overview.image_count else ""
    lead = f"{shown}{format_count(overview.image_count, 'image')}. "
    if shown:
        lead += "The largest are shown; fatpack inspect --rows jsonl has all."
    has_findings = heads[-1][0] == "findings"
    rows = (_image_row(line, has_files=has_files, has_findings=has_findings) for line in overview.images)
    return page_section("images", "Images", lead, table_element("t-images", heads, rows, finds="Filter images"))


def _stored(line: ImageLine) -> Markup:
    """Return the stored bytes of an image, or that its bundle is compressed as one."""
    if line.stored is not None or line.bundle is None:
        return size_cell(line.stored)
    return element("td", f"in {format_size(line.bundle)}", class_="n soft", data_v=-1, title=_BUNDLE)


def _image_row(line: ImageLine, *, has_files: bool, has_findings: bool) -> Markup:
    number = 0
    for part in line.position.replace("/", ".").split("."):
        number = number * 100_000 + int(part or 0)
    offset = Markup('<td class="n soft" data-v="-1">–</td>')
    if line.offset is not None:
        offset = element("td", f"{line.offset:#x}", class_="n name", data_v=line.offset)
    cells = [
        element("td", line.position or "–", class_="name", data_v=number),
        element("td", arch_chip(line.label, line.family)),
        element("td", line.form),
        element("td", shorten_name(" ".join(filter(None, (line.container, line.place))), 120)),
        offset,
        _stored(line),
        size_cell(line.inflated),
        element("td", line.compression),
        count_cell(line.kernels),
        count_cell(line.registers),
    ]
    if has_findings:
        cells.append(element("td", " ".join(line.findings)))
    if has_files:
        cells.insert(
            0, element("td", name_element(base_name(line.path), 60), title=line.path if len(line.path) < 300 else None)
        )
    return element("tr", *cells)
