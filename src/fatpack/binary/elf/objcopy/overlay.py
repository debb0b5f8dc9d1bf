"""Ranges of bytes painted over each other: segments overlap, and headers lie inside them."""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import pairwise

from fatpack.binary.elf.editor.editing_editable import zero_pieces
from fatpack.io.source import View
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fatpack.io.source import Piece


class Layer(Record):
    """A range of ``size`` bytes to be painted at a position; ``content`` None is zeros."""

    at: int
    size: int
    content: View | bytes | None


def flatten(layers: Sequence[Layer], end: int) -> list[Piece]:
    """Return what is seen from position 0 to ``end``: of layers that overlap the last one, between them zeros."""
    edges = {edge for layer in layers for edge in (layer.at, layer.at + layer.size) if edge < end}
    events = sorted({0, end, *edges})
    starts = sorted((layer.at, number) for number, layer in enumerate(layers) if layer.size)
    active: list[tuple[int, int]] = []
    pieces: list[Piece] = []
    upcoming = 0
    for position, following in pairwise(events):
        while upcoming < len(starts) and starts[upcoming][0] <= position:
            number = starts[upcoming][1]
            heappush(active, (-number, layers[number].at + layers[number].size))
            upcoming += 1
        while active and active[0][1] <= position:
            heappop(active)
        layer = layers[-active[0][0]] if active else None
        pieces += _part(layer, position, following - position)
    return pieces


def _part(layer: Layer | None, position: int, size: int) -> Iterator[Piece]:
    if layer is None or layer.content is None:
        yield from zero_pieces(size)
    elif isinstance(layer.content, View):
        yield layer.content.slice(position - layer.at, size)
    else:
        yield layer.content[position - layer.at : position - layer.at + size]
