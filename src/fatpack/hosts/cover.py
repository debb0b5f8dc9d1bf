"""Labels that cover every byte once, from parts that a hostile file may place anywhere."""

from __future__ import annotations

from fatpack.io import limits
from fatpack.model import Label

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from fatpack.io.source import View


def cover(view: View, start: int, parts: Iterable[tuple[int, int, str, str, str]]) -> Iterator[Label]:
    """Yield labels from position ``start`` to the end of the view, in order, each byte once.

    Parts are (position, size, name, value, doc), in any order; they are labelled as data. A part that overlaps an
    earlier one, or the end, is cut; what no part covers is ``padding`` if it is zero and ``unknown`` if not.
    """
    reached = start
    for at, size, name, value, doc in sorted(parts, key=lambda part: (part[0], -part[1])):
        end = min(at + size, len(view))
        if end <= max(reached, at):
            continue
        if at > reached:
            yield _gap(view, reached, at)
            reached = at
        yield Label(view.span(reached, end - reached), name, value, doc, "data")
        reached = end
    if reached < len(view):
        yield _gap(view, reached, len(view))


def _gap(view: View, start: int, end: int) -> Label:
    gap = view.slice(start, end - start)
    # Large gaps are not read: nobody pads with a megabyte.
    if len(gap) <= limits.CHUNK and not gap.tobytes().strip(b"\0"):
        return Label(gap.span(), "padding", f"{len(gap)} zero bytes", "", "padding")
    return Label(gap.span(), "unknown", f"{len(gap)} bytes", "bytes that no field describes", "unknown")
