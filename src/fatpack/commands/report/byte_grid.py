"""The bytes of a file as a grid, left to right and top to bottom: each cell as many bytes as it takes."""

from __future__ import annotations

from fatpack.commands.report.colours import family_with_colour
from fatpack.commands.report.drawing import svg_element, text_element
from fatpack.commands.report.words import shorten_name
from fatpack.printable import format_size
from fatpack.text.markup import Markup, element

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fatpack.commands.report.byte_regions import ByteRegion, FileRegions

_COLUMNS, _MAX_GRID_ROWS = 128, 40
_GRID_STEP, _EDGE, _TOP = 8.0, 84.0, 3.0


def draw_byte_grid(map: FileRegions) -> Markup | None:
    """Return the picture; None for a file without bytes. A cell has the colour of what most of its bytes are."""
    if not map.size:
        return None
    cell = -(-map.size // (_COLUMNS * _MAX_GRID_ROWS))
    if cell > 16:  # whole numbers that people can add
        cell = 1 << (cell - 1).bit_length()
    base = map.cells[0].start if map.cells else 0
    count = -(-map.size // cell)
    rows = -(-count // _COLUMNS)
    drawn: list[Markup] = []
    for region, runs in _runs(map.cells, base, cell, count):
        path = "".join(_path(first, last) for first, last in runs)
        class_ = f"b-image f-{family_with_colour(region.family)}" if region.family else f"b-{region.kind}"
        drawn.append(element("g", element("title", _title(region)), element("path", d=path), class_=class_))
    every = max(1, rows // 10)
    for row in range(0, rows, every):
        at = base + row * _COLUMNS * cell
        drawn.append(text_element(f"{at:#x}", _EDGE - 8, _TOP + row * _GRID_STEP + _GRID_STEP / 2, "soft end"))
    title = f"The bytes of a file: each cell is {format_size(cell)}"
    return svg_element(_EDGE + _COLUMNS * _GRID_STEP, rows * _GRID_STEP + 2 * _TOP, title, *drawn)


def _title(region: ByteRegion) -> str:
    first = f"{region.start:#x} · {region.size:,} {'byte' if region.size == 1 else 'bytes'}"
    return "\n".join(
        filter(
            None, (shorten_name(region.name), shorten_name(region.value), region.arch, shorten_name(region.doc), first)
        )
    )


def _runs(
    regions: Sequence[ByteRegion], base: int, cell: int, count: int
) -> Iterator[tuple[ByteRegion, list[tuple[int, int]]]]:
    """Yield each region that has most of a cell, with its cells: one run, since regions follow each other."""
    owner: ByteRegion | None = None
    first = number = 0
    for at in range(count):
        start, end = base + at * cell, base + (at + 1) * cell
        while number + 1 < len(regions) and regions[number].start + regions[number].size <= start:
            number += 1
        best, most, look = regions[number], 0, number
        while look < len(regions) and regions[look].start < end:
            region = regions[look]
            share = min(end, region.start + region.size) - max(start, region.start)
            if share > most:
                best, most = region, share
            look += 1
        if best is not owner:
            if owner is not None:
                yield owner, [(first, at)]
            owner, first = best, at
    if owner is not None:
        yield owner, [(first, count)]


def _path(first: int, end: int) -> str:
    """Return the outline of cells from one to before another, row by row, with a gap between the cells of a row."""
    parts: list[str] = []
    while first < end:
        row, column = divmod(first, _COLUMNS)
        last = min(end, (row + 1) * _COLUMNS)
        width = (last - first) * _GRID_STEP - 0.6
        parts.append(
            f"M{_EDGE + column * _GRID_STEP:g} {_TOP + row * _GRID_STEP:g}h{width:g}v{_GRID_STEP - 0.8:g}h{-width:g}z"
        )
        first = last
    return "".join(parts)
