"""Linked images: the sections of a SYCL program with device images, one after the other and without headers.

clang-offload-wrapper (DPC++) puts every image into a section named ``__CLANG_OFFLOAD_BUNDLE__<kind>-<target>``, newer
releases into ``OFFLOAD_DEVICE_CODE``, each image at a multiple of 16. A table in the program has their positions and
sizes (``fatpack.registration.sycl_images``); this module makes a container of a section and the table's rows for it.

QUIRK(DPC++ 2024 and newer): a compressed image is one zstd frame, and the table has its inflated size, so that
clang-offload-extract fails on such programs.
"""

from __future__ import annotations

from fatpack import limits, magic_numbers
from fatpack.codecs import inflation_budget
from fatpack.formats.clang_bundle.bundle_id import parse_bundle_id
from fatpack.formats.clang_bundle.compressed import BeginningCache, frame_view, measure_frame
from fatpack.formats.clang_bundle.fat_object import LinkedEntry, LinkedImages, TargetSymbols
from fatpack.formats.clang_bundle.layout import BUNDLE_FORMAT
from fatpack.formats.diagnostics import FindingCollector
from fatpack.model import Container, Image, Label, Target
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from fatpack.formats.described import EntryFacts
    from fatpack.io.source import View

#: Alignment of images by wrappers; fewer bytes than this between two images are padding.
_ALIGN = 16


class LinkedImageRange(Record):
    """An image's offset in its section, and its size in the table; None if the table has no row for it.

    ``target`` is its target, if the section's name does not have it.
    """

    at: int
    size: int | None
    target: str = ""


class _ImageBuilder:
    """Makes the images of one section."""

    def __init__(self, data: View, id: str, section: int) -> None:
        self._data = data
        self._id = id.encode("utf-8", "surrogateescape")
        self._section = section
        self._target = parse_bundle_id(id).target if id else Target(offload="sycl")
        self._attrs = {"id": id} if id else {}
        self._latest = BeginningCache()
        self.faults = FindingCollector()

    def image(self, extent: LinkedImageRange, following: int) -> Image:
        """Return the image at a place, inflated on demand; its faults become findings.

        ``following`` is the start of the next image: a frame that goes on after it is damaged, so the frames of a
        section are walked once.
        """
        data = self._data
        rest = data.slice(extent.at, len(data) - extent.at)
        if rest.head(0, 4) == magic_numbers.ZSTD:
            return self._compressed(rest.slice(0, following - extent.at), extent)
        size = len(rest) if extent.size is None else extent.size
        if size > len(rest):
            text = f"the image takes {size} bytes by the table, and its section ends after {len(rest)}"
            self.faults.add_warning("FP3012", rest.span(), text)
        stored = rest.slice(0, min(size, len(rest)))
        return self._made(stored, stored, extent, None)

    def _compressed(self, rest: View, extent: LinkedImageRange) -> Image:
        found = measure_frame(rest)
        if found is None:
            self.faults.add_warning(
                "FP3014", rest.span(), "the zstd frame is damaged or cut short: listed as it is stored"
            )
            return self._made(rest, rest, extent, None)
        end, content_size = found
        size = extent.size if content_size is None else content_size
        stored = rest.slice(0, end)
        if size is None:
            return self._made(stored, stored, extent, None)
        if size > inflation_budget(stored):
            text = f"the zstd frame claims to inflate from {end} bytes to {size}: listed as it is stored"
            self.faults.add_warning("FP1005", stored.span(), text, limits.inflated_hint(size))
            return self._made(stored, stored, extent, None)
        if extent.size not in (None, size, end):
            text = f"the image takes {extent.size} bytes by the table, {size} by its own header"
            self.faults.add_warning("FP3012", stored.span(), text)
        return self._made(stored, frame_view(stored, size, self._latest), extent, "zstd")

    def _made(self, stored: View, data: View, extent: LinkedImageRange, compression: str | None) -> Image:
        record = LinkedEntry(self._id, self._section, extent.at, extent.size)
        target = self._target
        if extent.target and not self._id:
            target = target.replace(triple=extent.target)
        return Image(
            target, "", data, len(data), len(stored), stored.span(), compression, attrs=self._attrs, record=record
        )


def linked_container(
    id: str,
    section: int,
    data: View,
    extents: Sequence[LinkedImageRange],
    symbols: TargetSymbols | None = None,
    properties: Callable[[], Mapping[int, EntryFacts]] | None = None,
) -> Container:
    """Return the container for a section of linked images, which are in the order of their bytes.

    ``id`` is the part of its name after the bundler's prefix, "" if the name has no target. ``symbols`` are those that
    the program's bundles define; ``properties`` reads the program's facts about images. Only the header of every
    compressed image is read here.
    """
    builder = _ImageBuilder(data, id, section)
    ordered = sorted(extents, key=lambda extent: extent.at)
    images, following = [], len(data)
    for number in reversed(range(len(ordered))):
        if number + 1 < len(ordered) and ordered[number + 1].at > ordered[number].at:
            following = ordered[number + 1].at
        images.append(builder.image(ordered[number], following))
    images.reverse()
    attrs = {"flavour": "linked"}
    if any(image.compression for image in images):
        attrs["compression"] = "zstd"
    unknown = []
    reached, previous, is_reported = data.start, None, False
    for span in [image.span for image in images] + [data.span(len(data), 0)]:
        if span.start < reached and span.start != previous and not is_reported:
            is_reported = True
            builder.faults.add_warning("FP1306", span, f"an image reaches {reached - span.start} bytes into this one")
        gap = data.slice(min(reached, span.start) - data.start, max(span.start - reached, 0))
        if len(gap) >= _ALIGN and not gap.is_zero():
            unknown.append(gap.span())
            builder.faults.add_warning("FP1308", gap.span(), f"{len(gap)} bytes of the section that belong to no image")
        reached, previous = max(reached, span.end), span.start
    record = LinkedImages(data, tuple(images), attrs, symbols or TargetSymbols(), properties)
    findings = tuple(sorted(builder.faults.findings, key=lambda item: item.span.start))
    return Container(BUNDLE_FORMAT, 0, tuple(images), data.span(), attrs, tuple(unknown), findings, record)


def split_by_frames(data: View) -> list[LinkedImageRange]:
    """Return the places of images in a section that no table describes: zstd frames in turn, then the rest as one."""
    extents = []
    at = 0
    while at < len(data) and (found := measure_frame(data.slice(at, len(data) - at))):
        extents.append(LinkedImageRange(at, None))
        end = at + found[0]
        at = end + -end % _ALIGN
    rest = data.slice(min(at, len(data)), max(len(data) - at, 0))
    if not extents or not rest.is_zero():
        extents.append(LinkedImageRange(min(at, len(data)), None))
    return extents


def label_linked_images(record: LinkedImages) -> Iterator[Label]:
    """Yield a label for every byte of the section: its images, and the gaps between them."""
    data = record.stored
    reached = data.start
    for number, image in enumerate(record.images):
        start, end = max(image.span.start, reached), image.span.end
        if start > reached:
            yield Label(
                data.span(reached - data.start, start - reached), "gap", f"{start - reached} bytes", "", "padding"
            )
        if end > start:
            name = f"image[{number}].data"
            yield Label(data.span(start - data.start, end - start), name, f"{end - start} bytes", "an image", "data")
        reached = max(reached, end)
    if reached < data.end:
        yield Label(data.span(reached - data.start), "gap", f"{data.end - reached} bytes", "", "padding")
