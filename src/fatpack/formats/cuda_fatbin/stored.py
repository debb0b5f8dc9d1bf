"""What a fat binary stores beyond the common model, kept so that a rewrite loses nothing.

A container of which nothing was changed is written again as the same bytes, and an entry whose image was not changed as
the bytes of that entry, also into another fat binary: compressed, obfuscated or of an unknown kind as it may be.
"""

from __future__ import annotations

from fatpack.record import LazyRecord, Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from fatpack.io.source import View
    from fatpack.model import Image


class CudaEntryHeader(Record):
    """The numbers of an entry as stored, named as in the layout.

    ``place`` is the size of the header, or in a member of a group where its image is in the inflated bytes.
    """

    kind: int
    version: int
    place: int
    padded_size: int
    compressed_size: int
    options_offset: int
    code_minor: int
    code_major: int
    sm: int
    identifier_offset: int
    identifier_size: int
    flags: int
    key: int
    inflated_size: int


class CudaEntryStrings(Record):
    """The variable area of an entry: its strings, and where it ends, from the start of the entry.

    ``compat`` is the copy of the section ``.nv.compat``, which a cubin has in place of ``options``.
    """

    identifier: bytes = b""
    options: bytes = b""
    compat: bytes = b""
    end: int = 64


class CudaGroup(Record):
    """Several entries compressed as one: ``stored`` are all its bytes, ``inflated`` the images of all members.

    ``member_count`` is the number of members that could be read.
    """

    head: CudaEntryHeader
    stored: View
    inflated: View
    member_count: int


class CudaEntry(Record):
    """An entry as stored.

    ``stored`` are all its bytes: header, image and padding; of a member of a group its header. ``packed`` are the
    bytes of the image without padding, compressed if they are, ``data`` what they inflate to. A member knows its
    ``group``, and its ``number`` in there.
    """

    head: CudaEntryHeader
    stored: View
    area: CudaEntryStrings
    packed: View
    data: View
    group: CudaGroup | None = None
    number: int = 0


class Fatbin(LazyRecord):
    """A fat binary as stored, with the ``images`` and ``attrs`` that were read.

    ``parts`` are its entries in stored order; a group comes before its members.
    """

    stored: View
    images: tuple[Image, ...]
    attrs: Mapping[str, str]
    parts: tuple[CudaEntry | CudaGroup, ...]

    def __init__(
        self,
        stored: View,
        images: tuple[Image, ...],
        attrs: Mapping[str, str],
        parts: tuple[CudaEntry | CudaGroup, ...] | None = None,
    ) -> None:
        """Take the fields; without ``parts`` they are the records of the images, made when they are asked for."""
        _put_stored(self, stored)
        _put_images(self, images)
        _put_attrs(self, attrs)
        if parts is None:
            _put_late(self, (_records, images))
        else:
            _put_parts(self, parts)
            _put_late(self, None)


_put_stored, _put_images, _put_attrs, _put_parts = Fatbin._setters
_put_late = LazyRecord._late.__set__  # the slot, not its value


def _records(images: tuple[Image, ...]) -> Mapping[str, object]:
    return {"parts": tuple(image.record for image in images if isinstance(image.record, CudaEntry))}
