"""``.tgtsym``: the symbols that device code in an object defines, as clang-offload-bundler of DPC++ records them; and
fat objects.

One string per symbol, ``<bundle ID>.<symbol>`` and a NUL; linkers join the sections of all objects. clang-offload-deps
reads them, to know which objects of an archive a device link needs (clang/lib/Driver/OffloadBundler.cpp of intel/llvm).
"""

from __future__ import annotations

from fatpack import limits
from fatpack.errors import HostError
from fatpack.findings import finding
from fatpack.formats.clang_bundle.bundle_id import parse_bundle_id
from fatpack.formats.clang_bundle.layout import BUNDLE_FORMAT
from fatpack.model import Container, Image
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from fatpack.formats.described import EntryFacts
    from fatpack.io.source import View
    from fatpack.layout import ByteOrder
    from fatpack.model import Finding


#: LIMIT: bytes of one section that are read; symbols are limited like images. A library with 5204 images has 1.2 MB and
#: 5366 symbols.
_LARGEST = 16 << 20


class TargetSymbols(Record):
    """The symbols recorded in ``sections``, read on demand.

    ``ids`` are the bundle IDs known from elsewhere. ``only`` is a linked program's name of a target, such as
    ``sycl-spir64``: it selects the symbols of its longer names, ``sycl-spir64-unknown-unknown``; "" for all.
    """

    sections: tuple[View, ...] = ()
    ids: tuple[str, ...] = ()
    only: str = ""

    def by_target(self) -> dict[str, list[str]]:
        """Return bundle ID → symbols, in stored order. Raises ``OSError`` if reading fails."""
        found: dict[str, list[str]] = {}
        for data in self.sections:
            for id, names in read_symbols(data, self.ids).items():
                if not self.only or f"{id}-".startswith(f"{self.only}-"):
                    found.setdefault(id, []).extend(names)
        return found

    def unread(self) -> Iterator[Finding]:
        """Yield a finding for every section with symbols left out."""
        for data in self.sections:
            size, most = len(data), limits.IMAGES
            if size > _LARGEST:
                text = f"{size} bytes of symbols are not read: more than {_LARGEST}"
                yield finding("FP1005", data.span(), text)
            # A symbol takes at least two bytes, so most sections need not be read to check this.
            elif size > 2 * most and (count := data.tobytes().count(b"\0")) > most:
                text = f"{count} symbols; only the first {most} are listed"
                yield finding("FP1005", data.span(), text, limits.advice("IMAGES"))


def read_symbols(data: View, ids: tuple[str, ...] = ()) -> dict[str, list[str]]:
    """Return bundle ID → the symbols in a section, in stored order; ``ids`` are those known from elsewhere.

    An ID ends at the first dot, unless a known ID has dots itself. Strings without a dot belong to the ID "".
    """
    if len(data) > _LARGEST:
        return {}
    found: dict[str, list[str]] = {}
    known = sorted((id for id in ids if "." in id), key=len, reverse=True)
    for line in data.tobytes().decode("utf-8", "backslashreplace").split("\0", limits.IMAGES)[: limits.IMAGES]:
        if line:
            id = next((id for id in known if line.startswith(f"{id}.")), None)
            id, symbol = (id, line[len(id) + 1 :]) if id else line.partition(".")[::2]
            found.setdefault(id if symbol else "", []).append(symbol or line)
    return found


def symbols_for_id(data: View, id: str) -> list[bytes]:
    """Return the symbols of a section for one bundle ID, as stored and in stored order.

    Raises HostError for a section that is too large to read.
    """
    if len(data) > _LARGEST:
        raise _too_large(data, "read")
    prefix = f"{id}.".encode("utf-8", "surrogateescape")
    lines = data.tobytes().split(b"\0")
    return [line[len(prefix) :] for line in lines if line.startswith(prefix) and len(line) > len(prefix)]


def without_ids(data: View, removed_ids: Collection[str]) -> bytes | None:
    """Return a section without the symbols of some bundle IDs; None if it has none of them.

    Raises HostError for a section that is too large to read.
    """
    if len(data) > _LARGEST:
        raise _too_large(data, "edited")
    prefixes = tuple(f"{id}.".encode("utf-8", "surrogateescape") for id in removed_ids)
    stored = data.tobytes()
    lines = stored.split(b"\0")
    kept = [line for line in lines if not line.startswith(prefixes)]
    return b"\0".join(kept) if len(kept) < len(lines) else None


def _too_large(data: View, done: str) -> HostError:
    return HostError(
        f"the symbols of the images take {len(data)} bytes, and no more than {_LARGEST} are {done}",
        hint="build the object without the images",
        chain=data.chain,
    )


# Fat objects: a host object with one section per target, named ``__CLANG_OFFLOAD_BUNDLE__<ID>``.
#
# The object as a whole is the bundle, and each such section one entry of it: a device's section is the image itself,
# the host's is a single NUL byte and represents the object without these sections. ``fatpack.binary`` finds the
# sections; this module makes a container of IDs and views, and reads no object.
#
# QUIRK(every linker): ``ld -r`` joins sections of one name, so an object merged of N fat objects has N concatenated
# images per target and N NUL bytes for the host; clang-offload-bundler extracts the concatenated bytes.

#: LIMIT: fat objects that one can be merged from; more zero bytes than that are something else.
_MOST_MERGED = 1 << 16


class FatObjectImage(Record):
    """An image of a fat object: the ID in its section's name, its bytes, and the section's number in the object."""

    id: str
    data: View
    section: int

    @property
    def merged_count(self) -> int:
        """The number of fat objects this host section was merged from, 1 as a rule; 0 for any other section."""
        is_marker = (
            parse_bundle_id(self.id).kind == "host" and 0 < len(self.data) <= _MOST_MERGED and self.data.is_zero()
        )
        return len(self.data) if is_marker else 0


def is_host_marker(image: Image) -> bool:
    """Return whether an image is the marker for the host's image: the object without the sections of the bundle."""

    entry = image.record
    return isinstance(entry, FatObjectEntry) and entry.merged_count > 0


def split_by_sizes(data: View, sizes: View, order: ByteOrder) -> list[View]:
    """Return the images in a section by the u64 sizes recorded in another section; none if these do not fit.

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
    """Return a fat object as a bundle; ``whole`` are its bytes, ``parts`` its images in section order.

    ``symbols`` are the symbols that its device code defines, if the bundler recorded them. Only the bytes of host
    entries are read. Entries that share an ID stay separate, and are reported.
    """
    from fatpack.formats.diagnostics import FindingCollector

    faults = FindingCollector()
    images = []
    seen: dict[str, int] = {}
    for part in parts:
        size = len(part.data)
        entry = FatObjectEntry(part.id.encode("utf-8", "surrogateescape"), part.section, part.merged_count)
        target = parse_bundle_id(part.id).target
        form = "object" if entry.merged_count else ""
        images.append(Image(target, form, part.data, size, size, part.data.span(), attrs={"id": part.id}, record=entry))
        if seen.setdefault(part.id, part.section) != part.section:
            text = f"sections {seen[part.id]} and {part.section} both hold an image for {part.id!r}"
            faults.add_warning("FP1307", part.data.span(), text, "clang-offload-bundler extracts the first")
    attrs = {"flavour": "object"}
    record = FatObject(whole, tuple(images), attrs, symbols or TargetSymbols())
    return Container(BUNDLE_FORMAT, 0, tuple(images), whole.span(), attrs, (), tuple(faults.findings), record)


# Stored records of sections that are named after bundle IDs.


class FatObjectEntry(Record):
    """An entry of a fat object: the ID in the name of a section, and the section's number in the object's table.

    ``merged_count`` is the number of fat objects that a host's section was merged from (its NUL bytes), else 0.
    """

    id: bytes
    section: int
    merged_count: int = 0


class FatObject(Record):
    """A fat object as stored: ``stored`` is the whole object.

    ``symbols`` are the symbols that its device code defines, as DPC++ records them in the object.
    """

    stored: View
    images: tuple[Image, ...]
    attrs: Mapping[str, str]
    symbols: TargetSymbols = TargetSymbols()


class LinkedEntry(Record):
    """An image of a linked program: the ID in its section's name, the section's number, and its offset in the section.

    ``size`` is from the program's table, None if it has no row for the image.
    """

    id: bytes
    section: int
    offset: int
    size: int | None


class LinkedImages(Record):
    """A section of linked images as stored; ``symbols`` as in :class:`FatObject`.

    ``properties`` reads the program's facts about images, by their offsets; they are described with an entry.
    """

    stored: View
    images: tuple[Image, ...]
    attrs: Mapping[str, str]
    symbols: TargetSymbols = TargetSymbols()
    properties: Callable[[], Mapping[int, EntryFacts]] | None = None
