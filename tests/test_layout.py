"""Covering a file with labels: every byte once, whatever the parts claim."""

from __future__ import annotations

import pytest

from fatpack.io.source import BytesSource, View
from fatpack.model import Label, fill_gaps


def view_of(data: bytes) -> View:
    return BytesSource(b"around" + data + b"around").view().slice(6, len(data))


def rows(data: bytes, parts: list[tuple[int, int]], at: int = 0) -> list[tuple[int, int, str]]:
    """Return (start, end, name) of the labels that cover data, of parts with their number as name."""
    view = view_of(data)
    labels = [Label(view.span(start, end - start), str(number)) for number, (start, end) in enumerate(parts)]
    found = fill_gaps(view, labels, at)
    return [(label.span.start - view.start, label.span.end - view.start, label.name) for label in found]


def test_gaps_are_padding_where_they_are_zero() -> None:
    assert rows(b"ab\0\0cde", [(4, 5), (0, 2)]) == [(0, 2, "1"), (2, 4, "padding"), (4, 5, "0"), (5, 7, "unknown")]


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ([(0, 3), (2, 5)], [(0, 3, "0"), (3, 5, "1")]),
        ([(0, 1), (0, 5)], [(0, 5, "1")]),
        ([(3, 99), (0, 3)], [(0, 3, "1"), (3, 5, "0")]),
        ([(9, 12), (5, 5)], [(0, 5, "unknown")]),
        ([(-2, 5)], [(0, 5, "0")]),
    ],
    ids=["overlap", "inside", "over-the-end", "outside", "before-the-start"],
)
def test_parts_are_cut_where_they_overlap_or_end(
    parts: list[tuple[int, int]], expected: list[tuple[int, int, str]]
) -> None:
    assert rows(b"12345", parts) == expected


def test_what_lies_before_the_position_is_left_out() -> None:
    assert rows(b"12345", [(0, 3)], at=2) == [(2, 3, "0"), (3, 5, "unknown")]


def test_an_empty_file_has_no_labels() -> None:
    assert rows(b"", [(0, 4)]) == []
