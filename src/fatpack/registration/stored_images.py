"""The images of a program as ``.tgtimg`` has them: each row's bytes as they are stored, in the order of the table."""

from __future__ import annotations

from fatpack import binary
from fatpack.binary import TABLE, CodeSection
from fatpack.binary.open import open_pointers
from fatpack.registration import image_table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.io.source import View
    from fatpack.model import Finding


def read_stored_images(view: View, host: str) -> tuple[tuple[View, ...], tuple[Finding, ...]] | None:
    """Return the images that the table leads to, and what is wrong with other rows; None where there is no table.

    Nothing is copied, and nothing inflated. A row that leads out of its section has a view that ends with the section,
    and so fewer bytes than it says: that is a finding, too. Raises FormatError for a damaged host.
    """
    places = binary.get_host(host).locate(view)
    tables = [
        site
        for site in places
        if isinstance(site, CodeSection) and site.expects == TABLE and site.section == image_table.IMAGE_TABLE_NAME
    ]
    if not tables:
        return None
    table = image_table.read_image_table(open_pointers(view, host), tables)
    ends = {number: end for _, end, _, number in binary.sections(host, view)}
    images: list[View] = []
    findings = list(table.findings)
    for number, row in enumerate(table.rows):
        left = ends.get(row.section, len(view)) - row.position
        if row.size > left:
            text = f"row {number} has {row.size} bytes, and {left} are left in its section"
            findings.append(image_table.image_row_finding(view.span(row.position, max(left, 0)), text))
        images.append(view.slice(row.position, max(min(row.size, left), 0)))
    return tuple(images), tuple(findings)
