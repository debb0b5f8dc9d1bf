"""Ranges of an offload binary: overlaps, bytes that belong to no part, and a label for every byte."""

from __future__ import annotations

from fatpack.findings import finding
from fatpack.formats.offload_binary.layout import OffloadBinaryHeader, stored_offload_entry
from fatpack.model import Label

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fatpack.formats.offload_binary.layout import OffloadBinaryLayouts
    from fatpack.io.source import View
    from fatpack.model import Finding, Image

    BodyPart = tuple[int, int, str, bool]
    """(start, end, name, whether others of its kind may share its bytes), from the magic"""

#: Maximum padding of an image to a multiple of eight.
_PADDING = 7

#: Bytes of a string that a label shows.
_SHOWN = 200


def _parts(
    header: OffloadBinaryHeader,
    tables: OffloadBinaryLayouts,
    images: Sequence[Image],
    strings: Sequence[tuple[int, int]],
) -> list[BodyPart]:
    """Return all parts in the order of their positions. Shared string entries and tails of strings may overlap."""
    parts = [(0, tables.header[header.version].size, "header", False)]
    if images:
        table_end = header.entry_offset + len(images) * tables.entry.size
        parts.append((header.entry_offset, table_end, "entries", False))
    string_size = tables.strings[header.version].size
    for number, image in enumerate(images):
        entry = stored_offload_entry(image)
        if entry.strings:
            end = entry.string_offset + len(entry.strings) * string_size
            parts.append((entry.string_offset, end, f"string entries of entry[{number}]", True))
        if image.size:
            parts.append((entry.image_offset, entry.image_offset + image.size, f"image[{number}]", False))
    parts += [(start, end, "string table", True) for start, end in strings]
    parts.sort()
    return parts


def check_places(
    header: OffloadBinaryHeader,
    tables: OffloadBinaryLayouts,
    images: Sequence[Image],
    strings: Sequence[tuple[int, int]],
    findings: list[Finding],
) -> list[View]:
    """Add findings for overlapping parts and for bytes that no part covers; return the latter as views.

    If the binary is inflated on demand, the padding of its images is assumed to be zeros.
    """
    body, gaps = header.body, []
    least = _PADDING if body.source.is_streamed else 0
    reached, before, was_shared = 0, "", False
    has_overlap = False
    for start, end, name, is_shared in [*_parts(header, tables, images, strings), (len(body), len(body), "end", False)]:
        if start > reached:
            gap = body.slice(reached, start - reached)
            if len(gap) > least and not gap.is_zero():
                gaps.append(gap)
                findings.append(finding("FP1205", gap.span(), f"{len(gap)} bytes after the {before} belong to nothing"))
        elif start < reached and not (is_shared and was_shared) and not has_overlap:
            has_overlap = True
            span = body.span(start, min(end, reached) - start)
            findings.append(finding("FP1203", span, f"{name} overlaps the {before}"))
        if end > reached:
            reached, before, was_shared = end, name, is_shared
    return gaps


def keep_unknown(
    header: OffloadBinaryHeader, tables: OffloadBinaryLayouts, gaps: Sequence[View]
) -> OffloadBinaryHeader:
    """Return the header with the unknown bytes that a rewrite can put back: right after the header, and at the end."""
    body = header.body
    for gap in gaps:
        follows_header = gap.start - body.start == tables.header[header.version].size
        # Without entries a longer header cannot be told from the bytes after it.
        if follows_header and gap.end - body.start == header.entry_offset and header.entry_count:
            header = header.replace(extension=gap)
        elif gap.end == body.end:
            header = header.replace(tail=gap)
    return header


def label_offload_binary(
    header: OffloadBinaryHeader, tables: OffloadBinaryLayouts, images: Sequence[Image]
) -> Iterator[Label]:
    """Return a label for every byte of the body, once, in order; a part that overlaps an earlier one is cut."""
    # A listing makes no labels and loads none of this.
    from fatpack.model import fill_gaps

    return fill_gaps(header.body, _raw_labels(header, tables, images))


def _raw_labels(header: OffloadBinaryHeader, tables: OffloadBinaryLayouts, images: Sequence[Image]) -> Iterator[Label]:
    body, string_layout = header.body, tables.strings[header.version]
    yield from tables.header[header.version].labels(body, 0, "header")
    labelled: set[tuple[int, int]] = set()
    for number, image in enumerate(images):
        entry = stored_offload_entry(image)
        yield from tables.entry.labels(body, header.entry_offset + number * tables.entry.size, f"entry[{number}]")
        for index, (key, value) in enumerate(entry.strings):
            at = entry.string_offset + index * string_layout.size
            name = f"entry[{number}].string[{index}]"
            yield from string_layout.labels(body, at, name)
            key_at, value_at, *_ = string_layout.read(body, at)
            for place, what, stored in ((key_at, "key", key), (value_at, "value", value)):
                size = min(len(stored) + 1, len(body) - place)
                if size > 0 and (place, size) not in labelled:
                    labelled.add((place, size))
                    yield Label(
                        body.span(place, size),
                        f"strings.{what}",
                        repr(stored[:_SHOWN])[1:],
                        "a key or value, and its NUL",
                    )
        if image.size:
            yield Label(
                body.span(entry.image_offset, image.size),
                f"image[{number}]",
                f"{image.size} bytes",
                "the image",
                "data",
            )
