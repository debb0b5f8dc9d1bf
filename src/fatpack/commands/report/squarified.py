"""A rectangle divided into tiles whose areas are as given numbers, and which are as square as may be.

The way is that of "Squarified Treemaps" (Bruls, Huizing, van Wijk, 2000): from the largest on, tiles are put into a
row along the shorter side as long as that makes the worst of them squarer.
"""

from __future__ import annotations

from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


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
    """Return a tile for each size, in their order: together they are the box. What is not above 0 has no area."""
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
    """Lay a row along the shorter side of what is left, and return what is left then."""
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
