"""The treemap of an overview: bytes by library, architecture and kernel."""

from __future__ import annotations

from fatpack.commands.report.pictures import (
    base_name,
    family_with_colour,
    fit_text,
    format_count,
    format_sizes,
    rect_element,
    shorten_name,
    svg_element,
    text_element,
)
from fatpack.printable import format_size
from fatpack.record import Record
from fatpack.text.markup import Markup, element

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from fatpack.commands.report.model import ArchBytes, ByteCounts, FileOverview, KernelGroup, ReportResult


# A rectangle divided into tiles whose areas are as given numbers, and which are as square as may be.
#
# The way is that of "Squarified Treemaps" (Bruls, Huizing, van Wijk, 2000): from the largest on, tiles are put into a
# row along the shorter side as long as that makes the worst of them squarer.


class Rectangle(Record):
    """A rectangle: its upper left corner, its width and its height."""

    x: float
    y: float
    width: float
    height: float

    @property
    def area(self) -> float:
        """Its area."""
        return self.width * self.height

    def inside(self, edge: float, top: float = 0.0) -> Rectangle:
        """Return what an edge on all sides, and a strip at the top, leave of it."""
        width, height = max(0.0, self.width - 2 * edge), max(0.0, self.height - 2 * edge - top)
        return Rectangle(self.x + edge, self.y + edge + top, width, height)


def squarify(box: Rectangle, sizes: Sequence[float]) -> list[Rectangle]:
    """Return a tile for each size, in their order: together they are the box. A size of 0 has no area."""
    order = sorted((number for number, size in enumerate(sizes) if size > 0), key=lambda number: -sizes[number])
    found = [Rectangle(box.x, box.y, 0.0, 0.0)] * len(sizes)
    whole = sum(sizes[number] for number in order)
    scale = box.area / whole if whole else 0.0
    rest, at = box, 0
    while at < len(order) and scale:
        side = min(rest.width, rest.height)
        end, area, worst = at, 0.0, float("inf")
        biggest = sizes[order[at]] * scale
        while end < len(order):
            smallest = sizes[order[end]] * scale
            wider = area + smallest
            ratio = (
                max(side * side * biggest / (wider * wider), wider * wider / (side * side * smallest)) if side else 0.0
            )
            if ratio > worst:
                break
            end, area, worst = end + 1, wider, ratio
        row = [(number, sizes[number] * scale) for number in order[at:end]]
        rest = _laid(rest, row, area, found, is_last=end == len(order))
        at = end
    return found


def _laid(
    rest: Rectangle, row: Sequence[tuple[int, float]], area: float, found: list[Rectangle], *, is_last: bool
) -> Rectangle:
    """Lay a row along the shorter side of the free area; return the area that remains free."""
    is_column = rest.width >= rest.height
    side = rest.height if is_column else rest.width
    depth = (rest.width if is_column else rest.height) if is_last else area / side if side else 0.0
    along = 0.0
    for index, (number, size) in enumerate(row):
        length = side - along if index == len(row) - 1 else side * size / area
        if is_column:
            found[number] = Rectangle(rest.x, rest.y + along, depth, length)
        else:
            found[number] = Rectangle(rest.x + along, rest.y, length, depth)
        along += length
    if is_column:
        return Rectangle(rest.x + depth, rest.y, max(0.0, rest.width - depth), rest.height)
    return Rectangle(rest.x, rest.y + depth, rest.width, max(0.0, rest.height - depth))


WIDTH, HEIGHT = 1120.0, 480.0

#: LIMIT: libraries that have a box of their own: more cannot be told apart.
_MOST_LIBRARIES = 60

#: Square pixels below which a part is drawn with others of its architecture.
_SMALLEST = 26.0

_STRIP = 16.0

_SHARED = "\nin a bundle that is compressed as one"


def draw_treemap(overview: ReportResult, *, is_stored: bool) -> Markup | None:
    """Return the picture by stored or by inflated bytes, or None if those are not known of any image."""
    files = [file for file in overview.files if _size(file.bytes, is_stored=is_stored)]
    if not files:
        return None
    files.sort(key=lambda file: (-_size(file.bytes, is_stored=is_stored), file.path))
    shown, more = files[:_MOST_LIBRARIES], files[_MOST_LIBRARIES:]
    weights: list[float] = [_size(file.bytes, is_stored=is_stored) for file in shown]
    if more:
        weights.append(sum(_size(file.bytes, is_stored=is_stored) for file in more))
    places = squarify(Rectangle(0, 0, WIDTH, HEIGHT), weights)
    drawn = [
        _library(file, place, is_stored, is_only=len(files) == 1) for file, place in zip(shown, places, strict=False)
    ]
    if more:
        title = f"{format_count(len(more), 'more library')}\n{format_size(round(weights[-1]))}"
        drawn.append(_boxed(places[-1], "lib", title, f"{len(more)} more"))
    kind = "stored" if is_stored else "inflated"
    return svg_element(WIDTH, HEIGHT, f"Treemap of {kind} bytes by library, architecture and kernel", *drawn)


def _size(bytes: ByteCounts, *, is_stored: bool) -> int:
    return (bytes.stored or 0) if is_stored else bytes.inflated


def _boxed(place: Rectangle, class_: str, title: str, text: str) -> Markup:
    fits = fit_text(text, place.width - 6) if place.height > 12 else ""
    words = text_element(fits, place.x + 4, place.y + min(9.0, place.height / 2)) if fits else ""
    return element(
        "g", element("title", title), rect_element(place.x, place.y, place.width, place.height, class_), words
    )


def _library(file: FileOverview, place: Rectangle, is_stored: bool, *, is_only: bool) -> Markup:
    name = base_name(file.path)
    inner, head = place, Markup("")
    if not is_only:
        has_strip = place.height > 3 * _STRIP and place.width > 40
        inner = place.inside(1.5, _STRIP if has_strip else 0)
        title = f"{shorten_name(file.path)}\n{format_sizes(file.bytes)}"
        head = _boxed(place, "lib", title, name if has_strip else "")
    # In a bundle that is compressed as a whole no image has stored bytes of its own: inflated ones divide the box.
    is_shared = is_stored and any(arch.bytes.stored is None for arch in file.archs)
    is_stored = is_stored and not is_shared
    archs = [arch for arch in file.archs if _size(arch.bytes, is_stored=is_stored)]
    if inner.area < _SMALLEST:
        return head
    places = squarify(inner, [_size(arch.bytes, is_stored=is_stored) for arch in archs])
    drawn = [_arch(arch, spot, is_stored, is_shared) for arch, spot in zip(archs, places, strict=True)]
    return element("g", head, *drawn)


def _arch(arch: ArchBytes, place: Rectangle, is_stored: bool, is_shared: bool) -> Markup:
    has_strip = place.height > 2.5 * _STRIP and place.width > 44
    size = "" if is_shared else format_size(_size(arch.bytes, is_stored=is_stored))
    title = (
        f"{arch.label}\n{format_count(arch.bytes.count, 'image')} · "
        f"{format_sizes(arch.bytes)}{_SHARED if is_shared else ''}"
    )
    head = _boxed(place, "arch", title, f"{arch.label}  {size}".rstrip() if has_strip else "")
    inner = place.inside(1, _STRIP if has_strip else 0)
    parts, more = _drawable(arch.parts, inner, is_stored)
    weights: list[float] = [_size(part.bytes, is_stored=is_stored) for part in parts]
    if more:
        weights.append(sum(_size(part.bytes, is_stored=is_stored) for part in more))
    if not any(weights) or inner.area < _SMALLEST:
        return element("g", head, class_=f"f-{family_with_colour(arch.family)}")
    places = squarify(inner, weights)
    drawn = [_part(arch.label, part, spot) for part, spot in zip(parts, places, strict=False)]
    if more:
        count = sum(max(1, part.bytes.count) for part in more)
        text = f"{count:,} smaller"
        drawn.append(
            _boxed(
                places[-1],
                "part rest",
                f"{text} kernels and parts\n{arch.label}\n{format_size(round(weights[-1]))}",
                text,
            )
        )
    return element("g", head, *drawn, class_=f"f-{family_with_colour(arch.family)}")


def _drawable(
    parts: Sequence[KernelGroup], inner: Rectangle, is_stored: bool
) -> tuple[list[KernelGroup], list[KernelGroup]]:
    """Return the parts that are large enough to be seen, and the parts that are drawn together."""
    whole = sum(_size(part.bytes, is_stored=is_stored) for part in parts)
    if not whole:
        return [], []
    least = _SMALLEST / inner.area * whole if inner.area else whole
    seen = [part for part in parts if _size(part.bytes, is_stored=is_stored) >= least and part.kind != "others"]
    return seen, [part for part in parts if part not in seen and _size(part.bytes, is_stored=is_stored)]


def _part(arch: str, part: KernelGroup, place: Rectangle) -> Markup:
    if part.kind == "kernels":
        what = f"{arch} · {format_count(part.bytes.count, 'kernel')}"
    else:
        kernels = f" · {format_count(part.bytes.count, 'kernel')}" if part.bytes.count else ""
        what = f"{arch}{kernels}"
    shown = part.name.rpartition("::")[2] if part.kind == "kernels" else part.name
    return _boxed(
        place,
        "part" if part.kind == "kernels" else "part rest",
        f"{shorten_name(part.name)}\n{what}\n{format_sizes(part.bytes)}",
        shown,
    )
