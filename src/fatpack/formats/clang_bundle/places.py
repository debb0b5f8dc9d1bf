"""Where the parts of a bundle lie: overlaps, bytes that belong to nothing, and the label of every byte."""

from __future__ import annotations

from fatpack.formats.clang_bundle.layout import DESCRIPTOR, HEADER, WRAPPERS
from fatpack.formats.clang_bundle.stored import Bundle, Entry, Text, Wrapper
from fatpack.model import Label

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.formats.clang_bundle.faults import Faults
    from fatpack.io.source import View
    from fatpack.model import Span


def check_places(record: Bundle, faults: Faults) -> Iterator[Span]:
    """Note images that overlap each other, and yield the spans that belong to nothing and are not zero."""
    stored, reached, before = record.stored, record.table_end, "the table of entries"
    previous, has_overlap = (0, 0), False
    parts = sorted(
        (image.span.start - stored.start, image.span.end - stored.start, number)
        for number, image in enumerate(record.images)
        if image.size
    )
    for start, end, number in [*parts, (len(stored), len(stored), -1)]:
        if start > reached:
            gap = stored.slice(reached, start - reached)
            if not gap.is_zero():
                faults.odd("FP1308", gap.span(), f"{len(gap)} bytes after {before} belong to nothing")
                yield gap.span()
        elif start < reached and (start, end) != previous and number >= 0 and not has_overlap:
            # Entries that share one image are fine; one such message tells as much as all of them.
            has_overlap = True
            span = stored.span(start, min(end, reached) - start)
            faults.odd("FP1306", span, f"the image of entry {number} overlaps {before}")
        if end > reached:
            reached, before = end, f"the image of entry {number}"
        previous = (start, end)


def labels(record: Bundle | Text | Wrapper) -> Iterator[Label]:
    """Yield a label for every byte of a bundle, once, in order; a part that overlaps an earlier one is cut."""
    stored, reached = record.stored, 0
    found = sorted(_raw_labels(record), key=lambda label: (label.span.start, -label.span.end))
    for label in found:
        start, end = label.span.start - stored.start, label.span.end - stored.start
        if end <= reached:
            continue
        if start > reached:
            yield _gap_label(stored.slice(reached, start - reached))
        at = max(start, reached)
        yield label if at == start else label.replace(span=stored.span(at, end - at))
        reached = end
    if reached < len(stored):
        yield _gap_label(stored.slice(reached, len(stored) - reached))


def _raw_labels(record: Bundle | Text | Wrapper) -> Iterator[Label]:
    if isinstance(record, Wrapper):
        yield from WRAPPERS[record.version].labels(record.stored, 0, "header")
        value = f"{len(record.stream)} bytes of {record.method}"
        yield Label(record.stream.span(), "compressed", value, "the bundle inside, one stream", "data")
        return
    if isinstance(record, Bundle):
        yield from HEADER.labels(record.stored, 0, "header")
    for number, image in enumerate(record.images):
        entry = image.record
        assert isinstance(entry, Entry)
        name = f"entry[{number}]"
        if isinstance(record, Bundle):
            yield from DESCRIPTOR.labels(record.stored, entry.at, name)
            id_span = record.stored.span(entry.at + DESCRIPTOR.size, len(entry.id))
            yield Label(id_span, f"{name}.id", repr(entry.id)[1:], "the bundle ID, not terminated")
        else:
            yield from _marker_labels(record.stored, entry, image.span, name)
        if image.size:
            yield Label(image.span, f"image[{number}]", f"{image.size} bytes", "the image", "data")


def _marker_labels(stored: View, entry: Entry, image: Span, name: str) -> Iterator[Label]:
    yield Label(stored.span(entry.at, entry.offset - entry.at), f"{name}.start", repr(entry.id)[1:], "the START line")
    after = image.end - stored.start
    if entry.end > after:
        yield Label(stored.span(after, entry.end - after), f"{name}.end", "", "the END line")


def _gap_label(view: View) -> Label:
    if view.is_zero():
        return Label(view.span(), "padding", f"{len(view)} zero bytes", "", "padding")
    return Label(view.span(), "unknown", f"{len(view)} bytes", "bytes that no field describes", "unknown")
