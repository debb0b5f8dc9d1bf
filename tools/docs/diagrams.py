"""Boxes for byte layouts: eight bytes in a row, as many characters for a field as it has bytes, in plain text."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from fatpack.layout import Layout

#: Bytes in a row, and characters for each of them with the line on its right.
_ROW, _WIDE = 8, 8
#: Characters left of a row: its offset, or blanks.
_MARGIN = 6


class _Cell(NamedTuple):
    """A part of a field within one row."""

    start: int
    end: int
    name: str
    is_first: bool
    is_last: bool


def boxes(layout: Layout) -> list[str]:
    """Return the lines of a layout's picture. A field of many rows has its first and last, and dots between them."""
    rows = _rows(layout)
    heads = "".join(f"{number:^{_WIDE}}" for number in range(_ROW))
    lines = [f"{'':{_MARGIN}} {heads}".rstrip()]
    previous: list[_Cell] = []
    for cells in rows:
        if _is_inside(cells):
            if not _is_inside(previous):
                lines += [_border(previous, cells), f"{'':{_MARGIN}}|{'...':^{_ROW * _WIDE - 1}}|"]
        else:
            lines += [_border(previous, cells), _line(cells)]
        previous = cells
    return [*lines, _border(previous, [])]


def _rows(layout: Layout) -> list[list[_Cell]]:
    """Return the cells of each row, in order."""
    rows: list[list[_Cell]] = [[] for _ in range(-(-layout.size // _ROW))]
    for offset, size, _, name, _ in layout.rows():
        start = int(offset, 16)
        end = start + int(size)
        at = start
        while at < end:
            until = min(end, (at // _ROW + 1) * _ROW)
            rows[at // _ROW].append(_Cell(at, until, name, at == start, until == end))
            at = until
    return rows


def _is_inside(cells: list[_Cell]) -> bool:
    """Return whether a row belongs to one field that begins above it and continues below."""
    return len(cells) == 1 and not cells[0].is_first and not cells[0].is_last


def _line(cells: list[_Cell]) -> str:
    """Return a row: its offset, and the names of the fields that begin in it."""
    line = f"{cells[0].start:#06x}{'':{_MARGIN - 6}}|"
    for cell in cells:
        wide = (cell.end - cell.start) * _WIDE - 1
        name = cell.name if cell.is_first else ""
        line += f"{name if len(name) <= wide else name[: wide - 1] + '…':^{wide}}|"
    return line


def _border(above: list[_Cell], below: list[_Cell]) -> str:
    """Return the line between two rows: open if a field continues from one to the other."""
    wide = _ROW * _WIDE
    line = [" "] * (wide + 1)
    for cells in (above, below):
        for cell in cells:
            start, end = (cell.start % _ROW) * _WIDE, ((cell.end - 1) % _ROW + 1) * _WIDE
            line[start] = line[end] = "+"
            goes_on = not cell.is_last if cells is above else not cell.is_first
            if not goes_on:
                line[start + 1 : end] = "-" * (end - start - 1)
    return f"{'':{_MARGIN}}{''.join(line)}".rstrip()
