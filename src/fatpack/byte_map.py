"""The map of all bytes: from labels of the parts that are known to labels that cover every byte once."""

from __future__ import annotations

from fatpack.model import Label

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from fatpack.io.source import View


def fill_gaps(view: View, labels: Iterable[Label], at: int = 0) -> Iterator[Label]:
    """Yield labels for every byte of a view from position ``at`` on, once, in order.

    ``labels`` are those of its parts, in any order and, in a hostile file, anywhere: one that overlaps an earlier one,
    or an end of the view, is cut. What no part covers is ``padding`` if it is zero and ``unknown`` if not.
    """
    reached = view.start + at
    for label in sorted(labels, key=lambda label: (label.span.start, -label.span.end)):
        start, end = max(label.span.start, reached), min(label.span.end, view.end)
        if end <= start:
            continue
        if start > reached:
            yield gap_label(view, reached - view.start, start - view.start)
        is_whole = start == label.span.start and end == label.span.end
        yield label if is_whole else label.replace(span=label.span.replace(start=start, end=end))
        reached = end
    if reached < view.end:
        yield gap_label(view, reached - view.start, len(view))


def gap_label(view: View, start: int, end: int) -> Label:
    """Return the label of bytes between two positions that belong to no part; reads up to the first that is not 0."""
    span, size = view.span(start, end - start), end - start
    if view.is_zero(start, size):
        words, doc = f"{size} zero byte{'' if size == 1 else 's'}", "between parts that fields describe"
        return Label(span, "padding", words, doc, "padding")
    return Label(span, "unknown", f"{size} bytes", "bytes that no field describes", "unknown")
