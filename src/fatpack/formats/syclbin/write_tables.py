"""Version 1 on the way out: headers, the metadata table, the table of images.

DPC++'s tools put the text of a module in front of those of its images, its runtime those of all modules in front of
all others. What was read is written in the order in which it was stored.
"""

from __future__ import annotations

from fatpack.errors import Unsupported
from fatpack.formats.syclbin.syclbin_layout import (
    ABSTRACT,
    HEADER,
    IR,
    IR_MODULE,
    MAGIC,
    NATIVE,
    NATIVE_IMAGE,
    padded_size,
)
from fatpack.formats.syclbin.writer import group_by_module
from fatpack.io.source import View

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from fatpack.formats.syclbin.stored import SyclbinHeader
    from fatpack.formats.syclbin.writer import SyclbinPart
    from fatpack.io.source import Piece


def write_version1(
    parts: Sequence[SyclbinPart], modules: Sequence[Piece], global_text: Piece, stored: SyclbinHeader | None
) -> list[Piece]:
    """Return a file of version 1 in pieces. Raises Unsupported for images of a file that share their bytes."""
    _refuse_shared(parts, stored)
    texts, images = _BlobTable(stored), _BlobTable(stored)
    rows: dict[str, list[tuple[int, int, int, int]]] = {IR: [], NATIVE: []}
    abstract = []
    groups = group_by_module(parts)
    global_at = texts.add(global_text)
    for number, metadata in enumerate(modules):
        firsts = len(rows[IR]), len(rows[NATIVE])
        text = texts.add(metadata)
        _add_images(groups.pop(number, ()), rows, texts, images)
        counts = len(rows[IR]) - firsts[0], len(rows[NATIVE]) - firsts[1]
        abstract.append((text, len(metadata), counts[0], firsts[0], counts[1], firsts[1]))
    _add_images(groups.pop(None, ()), rows, texts, images)
    text_pieces, text_at, text_size = texts.laid_out()
    image_pieces, image_at, image_size = images.laid_out()
    front = [
        HEADER.pack(
            int.from_bytes(MAGIC, "little"),
            1,
            len(abstract),
            len(rows[IR]),
            len(rows[NATIVE]),
            stored.padding if stored is not None else 0,
            text_size,
            image_size,
            text_at[global_at],
            len(global_text),
        )
    ]
    front += [ABSTRACT.pack(text_at[text], *rest) for text, *rest in abstract]
    for role, layout in ((IR, IR_MODULE), (NATIVE, NATIVE_IMAGE)):
        for text, size, image, image_bytes in rows[role]:
            front.append(layout.pack(text_at[text], size, image_at[image], image_bytes))
    end = padded_size(image_size) - image_size if stored is None or stored.is_padded else 0
    return [b"".join(front), *text_pieces, bytes(padded_size(text_size) - text_size), *image_pieces, bytes(end)]


def _add_images(
    parts: Sequence[SyclbinPart],
    rows: dict[str, list[tuple[int, int, int, int]]],
    texts: _BlobTable,
    images: _BlobTable,
) -> None:
    for part in parts:
        data = part.image.data
        rows[part.role].append((texts.add(part.metadata), len(part.metadata), images.add(data), len(data)))


def _refuse_shared(parts: Sequence[SyclbinPart], stored: SyclbinHeader | None) -> None:
    if stored is None:
        return
    places = {
        (data.start, data.end) for data in (part.image.data for part in parts) if data.source is stored.body.source
    }
    if sum(end - start for start, end in places) > len(stored.body):
        raise Unsupported(
            "images of this file share their bytes; one by one they would take more than all of it",
            hint="extract the one you need and pack it again",
            chain=stored.body.chain,
        )


class _BlobTable:
    """Bytes and views one behind the other: what was read in the order in which it was stored, then what is new."""

    def __init__(self, stored: SyclbinHeader | None) -> None:
        self._source = stored.body.source if stored is not None else None
        self._pieces: dict[tuple[int, int, int], Piece] = {}
        self._keys: list[tuple[int, int, int]] = []

    def add(self, piece: Piece) -> int:
        """Add a piece, and return its number; what has all its bytes in common with another is written once."""
        if isinstance(piece, View) and piece.source is self._source:
            key = (0, piece.start, piece.end)
        else:
            key = (1, len(self._keys), 0)
        self._pieces[key] = piece
        self._keys.append(key)
        return len(self._keys) - 1

    def laid_out(self) -> tuple[list[Piece], list[int], int]:
        """Return the pieces in order, where each that was added starts, and how many bytes they are together."""
        places: dict[tuple[int, int, int], int] = {}
        at, ordered = 0, []
        for key in sorted(self._pieces):
            piece = self._pieces[key]
            places[key] = at
            ordered.append(piece)
            at += len(piece)
        return ordered, [places[key] for key in self._keys], at
