"""Which byte of a universal file is what."""

from __future__ import annotations

from fatpack.binary.macho.universal import read_slices
from fatpack.binary.macho.universal_layout import HEADER, SLICES
from fatpack.byte_map import fill_gaps
from fatpack.errors import FormatError
from fatpack.model import Label

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.io.source import View


def label_universal(view: View) -> Iterator[Label]:
    """Yield a label for every byte: the table field by field, slices whole."""
    layout = SLICES.get(view.head(0, 4))
    if layout is None or len(view) < HEADER.size:
        yield from fill_gaps(view, [])
        return
    yield from HEADER.labels(view, 0, "header")
    found: list[Label] = []
    try:
        for item in read_slices(view):
            yield from layout.labels(view, HEADER.size + item.number * layout.size, f"slice[{item.number}]")
            span, text = view.span(item.offset, item.size), f"{item.title}, {item.size} bytes"
            found.append(Label(span, f"slice[{item.number}].data", text, "the slice's bytes", "data"))
    except FormatError:
        pass  # a table that is cut: what its whole records describe is labelled
    yield from fill_gaps(view, found, HEADER.size + len(found) * layout.size)
