"""The code objects that AMD's scripts list: where each lies in a file, for what it is, and its bytes."""

from __future__ import annotations

from fatpack.model import Finding
from fatpack.record import Record
from fatpack.scanner import FoundContainer, scan

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.io.source import View
    from fatpack.model import Image

_FORMAT, _SECTION = "clang-offload-bundle", ".hip_fat"


class HipBundle(Record):
    """A bundle of HIP's."""

    found: FoundContainer

    @property
    def at(self) -> int:
        """Where it begins in the file."""
        return self.found.span.start

    @property
    def is_compressed(self) -> bool:
        """Whether it is compressed as a whole: its entries have no place in the file then."""
        return "compression" in self.found.container.attrs

    @property
    def entries(self) -> Iterator[tuple[str, int, int]]:
        """ID, offset in the file and size of each entry; of one that is compressed the offset means nothing."""
        for image in self.found.images:
            yield _id(image.as_stored), image.as_stored.span.start, image.as_stored.span.size

    @property
    def images(self) -> Iterator[tuple[str, View]]:
        """ID and bytes of each entry."""
        for image in self.found.images:
            yield _id(image.as_stored), image.data


def _id(image: Image) -> str:
    stored = image.attrs.get("id")
    if stored is not None:
        return stored
    from fatpack.selectors.bundle_id_match import bundle_id

    return bundle_id(image)


def list_bundles(view: View) -> Iterator[HipBundle | Finding]:
    """Yield the bundles of a file that HIP's runtime loads, or the file is, and findings about what is damaged."""
    for item in scan(view, judges=False, recognises=False):
        if isinstance(item, Finding):
            if item.severity == "error":
                yield item
        elif item.format == _FORMAT and (item.section or _SECTION).startswith(_SECTION):
            yield HipBundle(item)
