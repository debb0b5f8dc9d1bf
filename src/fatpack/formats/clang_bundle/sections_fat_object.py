"""Fat objects: a host object with one section per target, named ``__CLANG_OFFLOAD_BUNDLE__<ID>``.

The object as a whole is the bundle, and each such section one entry of it: a device's section is the image itself, the
host's holds a single NUL byte and stands for the object without these sections. A host room finds the sections, so this
module makes a container of IDs and views, and reads no object.

QUIRK(every linker): ``ld -r`` joins sections of one name, so an object merged of N fat objects has N images glued
together per target and N NUL bytes for the host; clang-offload-bundler hands out the glued bytes.
"""

from __future__ import annotations

from fatpack.formats.clang_bundle.bundle_id import parse_id
from fatpack.formats.clang_bundle.layout import BUNDLE_FORMAT
from fatpack.model import Container, Image
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from fatpack.formats.clang_bundle.fat_object import TargetSymbols
    from fatpack.io.source import View
    from fatpack.layout import ByteOrder

#: LIMIT: fat objects that one is taken to be merged from; more zero bytes than that are something else.
_MOST_MERGED = 1 << 16


class FatObjectImage(Record):
    """An image of a fat object: the ID in its section's name, its bytes, and the section's number in the object."""

    id: str
    data: View
    section: int

    @property
    def merged_count(self) -> int:
        """The number of fat objects this host section was merged from, 1 as a rule; 0 for any other section."""
        is_marker = parse_id(self.id).kind == "host" and 0 < len(self.data) <= _MOST_MERGED and self.data.is_zero()
        return len(self.data) if is_marker else 0


def is_host_marker(image: Image) -> bool:
    """Return whether an image is the mark that its object, without the sections of the bundle, is the host's image."""
    from fatpack.formats.clang_bundle.stored import FatObjectEntry

    entry = image.record
    return isinstance(entry, FatObjectEntry) and entry.merged_count > 0


def split_by_sizes(data: View, sizes: View, order: ByteOrder) -> list[View]:
    """Return the images that a section holds by the u64 sizes recorded beside it; none if these do not fit.

    DPC++ of 2019 and 2020 recorded them, one per object that was merged.
    """
    if len(sizes) % 8 or len(sizes) > 8 * _MOST_MERGED:
        return []
    stored = sizes.tobytes()
    numbers = [int.from_bytes(stored[at : at + 8], order) for at in range(0, len(stored), 8)]
    if sum(numbers) != len(data):
        return []
    pieces, at = [], 0
    for size in numbers:
        pieces.append(data.slice(at, size))
        at += size
    return pieces


def fat_object_container(
    parts: Sequence[FatObjectImage], whole: View, symbols: TargetSymbols | None = None
) -> Container:
    """Return the bundle that an object is; ``whole`` are its bytes, ``parts`` its images in section order.

    ``symbols`` are those that its device code defines, as far as the bundler noted them. Nothing is read
    but the bytes of host entries. Entries that share an ID are kept apart, and noted.
    """
    from fatpack.formats.clang_bundle.fat_object import TargetSymbols
    from fatpack.formats.clang_bundle.stored import FatObject, FatObjectEntry
    from fatpack.formats.diagnostics import FindingCollector

    faults = FindingCollector()
    images = []
    seen: dict[str, int] = {}
    for part in parts:
        size = len(part.data)
        entry = FatObjectEntry(part.id.encode("utf-8", "surrogateescape"), part.section, part.merged_count)
        target = parse_id(part.id).target
        form = "object" if entry.merged_count else ""
        images.append(Image(target, form, part.data, size, size, part.data.span(), attrs={"id": part.id}, record=entry))
        if seen.setdefault(part.id, part.section) != part.section:
            text = f"sections {seen[part.id]} and {part.section} both hold an image for {part.id!r}"
            faults.unexpected("FP1307", part.data.span(), text, "clang-offload-bundler hands out the first")
    attrs = {"flavour": "object"}
    record = FatObject(whole, tuple(images), attrs, symbols or TargetSymbols())
    return Container(BUNDLE_FORMAT, 0, tuple(images), whole.span(), attrs, (), tuple(faults.findings), record)
