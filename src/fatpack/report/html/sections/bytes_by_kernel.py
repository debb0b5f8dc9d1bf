"""The treemap, by stored and by inflated bytes: two pictures, of which a reader chooses one without any script."""

from __future__ import annotations

from fatpack.report.html.sections.parts import section
from fatpack.report.markup import Markup, element, joined
from fatpack.report.pictures.treemap import treemap
from fatpack.report.pictures.words import many

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.answers.overview.records import Overview


def bytes_by_kernel(overview: Overview) -> Markup | None:
    """Return the section of the treemap."""
    pictures = {
        "stored": treemap(overview, is_stored=True),
        "inflated": treemap(overview, is_stored=False),
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
            f" The stored bytes of {many(unknown, 'library')} are not known, which are in the picture of inflated "
            "bytes only."
        )
    if shared and "stored" in drawn:
        lead += (
            f" {many(shared, 'library')} {'has' if shared == 1 else 'have'} bundles that are compressed as one: such a "
            "library's stored bytes are divided as its inflated ones are."
        )
    box = element("div", *choices, *boxes, class_="switch")
    return section("bytes", "Where the bytes are", lead, joined((box,)))
