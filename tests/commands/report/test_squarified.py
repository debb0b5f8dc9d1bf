"""A treemap's tiles have the areas they are to have: together they are the box, and none overlaps another."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from fatpack.commands.report.treemap import Rectangle, squarify

SIZES = st.lists(st.integers(0, 10**12), min_size=1, max_size=30)


@given(SIZES, st.integers(1, 2000), st.integers(1, 2000))
def test_areas_are_proportional_and_tile_the_box(sizes: list[int], width: int, height: int) -> None:
    box = Rectangle(3.0, 5.0, width, height)
    placed = squarify(box, sizes)
    whole = sum(sizes)
    for tile, size in zip(placed, sizes, strict=True):
        wanted = box.area * size / whole if whole else 0.0
        assert abs(tile.area - wanted) <= 1e-6 * box.area
        assert tile.x >= box.x - 1e-6 and tile.x + tile.width <= box.x + box.width + 1e-6
        assert tile.y >= box.y - 1e-6 and tile.y + tile.height <= box.y + box.height + 1e-6
    for one, other in combinations([tile for tile in placed if tile.area], 2):
        across = min(one.x + one.width, other.x + other.width) - max(one.x, other.x)
        down = min(one.y + one.height, other.y + other.height) - max(one.y, other.y)
        assert min(across, down) <= 1e-6, "two tiles overlap"


def test_equal_sizes_make_squares_of_a_square() -> None:
    placed = squarify(Rectangle(0, 0, 100, 100), [1, 1, 1, 1])
    assert {(tile.width, tile.height) for tile in placed} == {(50, 50)}


def test_order_of_tiles_is_the_order_of_sizes() -> None:
    small, large = squarify(Rectangle(0, 0, 100, 10), [1, 3])
    assert (small.area, large.area) == (250, 750)
