"""What a bundle stores beyond the common model, kept so that a rewrite loses nothing.

Every record of a container keeps ``stored``, all its bytes, and ``images`` and ``attrs`` as they were read: a container
in which these were not changed is written again as the same bytes, whatever lies between the images.
"""

from __future__ import annotations

from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from fatpack.io.source import View
    from fatpack.model import Container, Image


class BundleEntry(Record):
    """An entry as stored: the bytes of its ID, and where its image lies, from the magic.

    ``at`` is where its descriptor starts. In a text bundle ``at`` is where the START marker does, with the newline
    before it, and ``end`` where the END line ends.
    """

    id: bytes
    offset: int
    at: int
    end: int = 0


def stored_bundle_entry(image: Image) -> BundleEntry:
    """Return what was stored of an image. Raises UsageError for one that was not read from a bundle."""
    if isinstance(image.record, BundleEntry):
        return image.record
    from fatpack.formats.diagnostics import not_parsed_error

    raise not_parsed_error("image")


class BinaryBundle(Record):
    """A binary bundle as stored; ``entry_count`` is what the header says, ``table_end`` the end of the descriptors."""

    stored: View
    images: tuple[Image, ...]
    attrs: Mapping[str, str]
    entry_count: int
    table_end: int


class TextBundle(Record):
    """A text bundle as stored: ``comment`` is what its marker lines start with."""

    stored: View
    images: tuple[Image, ...]
    attrs: Mapping[str, str]
    comment: str


class CompressedBundle(Record):
    """A compressed bundle as stored.

    ``size`` (None in version 1) and ``inflated_size`` are what the header says, ``hash`` the 8 bytes stored in it;
    ``stream`` is the compressed data, ``inside`` the record of the bundle that comes out of it.
    """

    stored: View
    images: tuple[Image, ...]
    attrs: Mapping[str, str]
    version: int
    method: str
    size: int | None
    inflated_size: int
    hash: bytes
    stream: View
    inside: BinaryBundle | TextBundle


def stored_bundle(container: Container) -> BinaryBundle | TextBundle:
    """Return what was stored of a plain bundle. Raises UsageError for a container that is none, or was not read."""
    if isinstance(container.record, BinaryBundle | TextBundle):
        return container.record
    from fatpack.formats.diagnostics import not_parsed_error

    raise not_parsed_error("container")
