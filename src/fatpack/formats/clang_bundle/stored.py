"""What is kept of sections that are named after bundle IDs, as ``clang_bundle.stored`` does of bundles."""

from __future__ import annotations

from fatpack.formats.clang_bundle.fat_object import TargetSymbols
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fatpack.io.source import View
    from fatpack.model import Image


class FatObjectEntry(Record):
    """An entry of a fat object: the ID in the name of a section, and the section's number in the object's table.

    ``merged_count`` is the number of fat objects that a host's section was merged from (its NUL bytes), else 0.
    """

    id: bytes
    section: int
    merged_count: int = 0


class FatObject(Record):
    """A fat object as stored: ``stored`` is the whole object.

    ``symbols`` are those that device code in it defines, as DPC++ notes them beside it.
    """

    stored: View
    images: tuple[Image, ...]
    attrs: Mapping[str, str]
    symbols: TargetSymbols = TargetSymbols()


class LinkedEntry(Record):
    """An image of a linked program: the ID in its section's name, the section's number, and where it is in there.

    ``size`` is what the program's table says, None if it has no row for the image.
    """

    id: bytes
    section: int
    offset: int
    size: int | None


class LinkedImages(Record):
    """A section of linked images as stored; ``symbols`` as in :class:`FatObject`.

    ``properties`` reads what the program says of images, by their offsets: facts that are described with an entry.
    """

    stored: View
    images: tuple[Image, ...]
    attrs: Mapping[str, str]
    symbols: TargetSymbols = TargetSymbols()
    properties: Callable[[], Mapping[int, Mapping[str, object]]] | None = None
