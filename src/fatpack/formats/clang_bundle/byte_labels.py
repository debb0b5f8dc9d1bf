"""Ranges of a bundle: overlaps, bytes that belong to no part, a label for every byte, and signs of producer bugs."""

from __future__ import annotations

from fatpack import magic_numbers
from fatpack.formats.clang_bundle.layout import (
    COMPRESSED_HEADERS,
    DESCRIPTOR,
    HEADER,
    BinaryBundle,
    BundleEntry,
    CompressedBundle,
    TextBundle,
    stored_bundle_entry,
)
from fatpack.model import Label

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from fatpack.formats.diagnostics import FindingCollector
    from fatpack.io.source import Span, View
    from fatpack.model import Container, Finding


def check_places(record: BinaryBundle, faults: FindingCollector) -> Iterator[Span]:
    """Report images that overlap each other, and yield the spans of non-zero bytes that belong to nothing.

    Spans of a damaged bundle are not reported: they are the images of entries that could not be read. Bytes between the
    images of a bundle that is inflated on demand are left to :func:`~fatpack.formats.clang_bundle.compressed.verify`.
    """
    stored = record.stored
    overlap = _first_overlap(record)
    if overlap is not None:
        start, end, number, owner = overlap
        faults.add_warning("FP1306", stored.span(start, end - start), f"the image of entry {number} overlaps {owner}")
    if stored.source.is_streamed:
        return
    is_damaged = any(item.severity == "error" for item in faults.findings)
    for start, end, owner in find_gaps(record):
        if not stored.is_zero(start, end - start):
            yield stored.span(start, end - start) if is_damaged else note_stray_bytes(stored, start, end, owner, faults)


def note_stray_bytes(stored: View, start: int, end: int, owner: str, faults: FindingCollector) -> Span:
    """Report bytes that belong to nothing, and return their span; ``owner`` names the part before them."""
    span = stored.span(start, end - start)
    faults.add_warning("FP1308", span, f"{end - start} bytes after {owner} belong to nothing")
    return span


def find_gaps(record: BinaryBundle) -> Iterator[tuple[int, int, str]]:
    """Yield (start, end, name of the part before) for all bytes outside of table and images, in order."""
    reached, owner = record.table_end, _TABLE
    for start, end, number in [*_places(record), (len(record.stored), 0, 0)]:
        if start > reached:
            yield reached, start, owner
        if end > reached:
            reached, owner = end, _owner(number)


_TABLE = "the table of entries"


def _owner(number: int) -> str:
    return f"the image of entry {number}"


def _places(record: BinaryBundle) -> list[tuple[int, int, int]]:
    """Return (start, end, number) of the images that are not empty, in the order of their bytes."""
    at = record.stored.start
    return sorted(
        (image.span.start - at, image.span.end - at, number) for number, image in enumerate(record.images) if image.size
    )


def _first_overlap(record: BinaryBundle) -> tuple[int, int, int, str] | None:
    """Return (start, end, number, name of the other part) of the first image that overlaps an earlier part.

    Entries that share one image are valid; one message about overlaps is enough.
    """
    reached, owner, previous = record.table_end, _TABLE, (0, 0)
    for start, end, number in _places(record):
        if start < reached and (start, end) != previous:
            return start, min(end, reached), number, owner
        if end > reached:
            reached, owner = end, _owner(number)
        previous = (start, end)
    return None


def label_bundle(record: BinaryBundle | TextBundle | CompressedBundle) -> Iterator[Label]:
    """Return a label for every byte of a bundle, once, in order; a part that overlaps an earlier one is cut."""
    # A listing makes no labels and loads none of this.
    from fatpack.model import fill_gaps

    return fill_gaps(record.stored, _raw_labels(record))


def _raw_labels(record: BinaryBundle | TextBundle | CompressedBundle) -> Iterator[Label]:
    if isinstance(record, CompressedBundle):
        yield from COMPRESSED_HEADERS[record.version].labels(record.stored, 0, "header")
        value = f"{len(record.stream)} bytes of {record.method}"
        yield Label(record.stream.span(), "compressed", value, "the bundle inside, one stream", "data")
        return
    if isinstance(record, BinaryBundle):
        yield from HEADER.labels(record.stored, 0, "header")
    for number, image in enumerate(record.images):
        entry = stored_bundle_entry(image)
        name = f"entry[{number}]"
        if isinstance(record, BinaryBundle):
            yield from DESCRIPTOR.labels(record.stored, entry.at, name)
            id_span = record.stored.span(entry.at + DESCRIPTOR.size, len(entry.id))
            yield Label(id_span, f"{name}.id", repr(entry.id)[1:], "the bundle ID, not terminated")
        else:
            yield from _marker_labels(record.stored, entry, image.span, name)
        if image.size:
            yield Label(image.span, f"image[{number}]", f"{image.size} bytes", "the image", "data")


def _marker_labels(stored: View, entry: BundleEntry, image: Span, name: str) -> Iterator[Label]:
    yield Label(stored.span(entry.at, entry.offset - entry.at), f"{name}.start", repr(entry.id)[1:], "the START line")
    after = image.end - stored.start
    if entry.end > after:
        yield Label(stored.span(after, entry.end - after), f"{name}.end", "", "the END line")


def symptoms(container: Container, findings: Iterable[Finding]) -> Iterator[str]:
    """Yield the names of symptoms of known bugs in a bundle; ``findings`` are the bundle's own.

    ``commands/doctor/data/known.toml`` refers to these names:

    ``zlib-content-damaged``    a bundle compressed by zlib has another hash than its content
    ``magic-inside``            the compressed bytes of a bundle contain the magic number of compressed bundles
    ``bundle-without-size``     a compressed bundle of version 1
    ``no-host-entry``           a bundle without an entry for the host
    ``doubled-host-id``         a host's bundle ID that is stored doubled
    ``compressed-sycl-images``  images of a linked SYCL program that are compressed one by one
    """
    record = container.record
    if isinstance(record, CompressedBundle):
        if record.method == "zlib" and any(item.code == "FP1304" for item in findings):
            yield "zlib-content-damaged"
        if record.stream.find(magic_numbers.COMPRESSED_BUNDLE) >= 0:
            yield "magic-inside"
        if record.size is None:
            yield "bundle-without-size"
    offloads = {image.target.offload for image in container.images}
    if container.images and "host" not in offloads and container.attrs.get("flavour") not in ("object", "linked"):
        yield "no-host-entry"
    if any(_is_doubled(image.target.spelling) for image in container.images):
        yield "doubled-host-id"
    if container.attrs.get("flavour") == "linked" and any(image.compression == "zstd" for image in container.images):
        yield "compressed-sycl-images"


def _is_doubled(spelling: str) -> bool:
    half = spelling[: len(spelling) // 2]
    return half.endswith("-") and spelling == half + half
