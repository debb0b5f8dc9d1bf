"""The treemap, by stored and by inflated bytes: two pictures, of which a reader chooses one without any script."""

from __future__ import annotations

from fatpack.commands.report.parts import page_section
from fatpack.commands.report.treemap import draw_treemap
from fatpack.commands.report.words import format_count
from fatpack.text.markup import Markup, element, join_markup

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.commands.report.model import ReportResult


def treemap_section(overview: ReportResult) -> Markup | None:
    """Return the section of the treemap."""
    pictures = {
        "stored": draw_treemap(overview, is_stored=True),
        "inflated": draw_treemap(overview, is_stored=False),
    }
    drawn = {kind: picture for kind, picture in pictures.items() if picture is not None}
    if not drawn:
        return None
    unknown = sum(1 for file in overview.files if file.bytes.stored is None)
    shared = sum(1 for file in overview.files if file.shared)
    first = "inflated" if unknown and "inflated" in drawn else next(iter(drawn))
    choices = []
    for kind in drawn:
        button = element("input", type="radio", name="by", id=f"by-{kind}", checked=kind == first, class_="by")
        choices += [button, element("label", kind, for_=f"by-{kind}")]
    boxes = [element("div", picture, class_=f"map map-{kind}") for kind, picture in drawn.items()]
    lead = (
        "Library, architecture, then kernels whose names begin alike: areas are bytes. A kernel's part of the stored "
        "bytes is estimated: images are compressed whole, and its part of the inflated image is taken for it."
    )
    if unknown and "stored" in drawn:
        lead += (
            f" The stored bytes of {format_count(unknown, 'library')} are not known, which are in the picture of inflated "
            "bytes only."
        )
    if shared and "stored" in drawn:
        lead += (
            f" {format_count(shared, 'library')} {'has' if shared == 1 else 'have'} bundles that are compressed as one: such a "
            "library's stored bytes are divided as its inflated ones are."
        )
    box = element("div", *choices, *boxes, class_="switch")
    return page_section("bytes", "Where the bytes are", lead, join_markup((box,)))
