"""Fast path for regular binary bundles: numbers are checked, images made on demand.

A library has hundreds of bundles, and nearly all are as clang-offload-bundler writes them: images after the table, in
its order, zeros between them, then the next bundle or the end of the file. Any other bundle is left to
:mod:`fatpack.formats.clang_bundle.reader`, which reads such a bundle from its start.
"""

from __future__ import annotations

from fatpack import limits
from fatpack.errors import FormatError
from fatpack.formats import format_by_magic
from fatpack.formats.clang_bundle.layout import (
    BUNDLE_FORMAT,
    COMPRESSED_MAGIC,
    DESCRIPTOR,
    HEADER,
    MAGIC,
    BinaryBundle,
    BundleEntry,
)
from fatpack.formats.clang_bundle.reader import FRONT, decode_id, find_alignment, target_for_id
from fatpack.io.source import Span, View
from fatpack.model import lazy_container, lazy_image

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from fatpack.model import Container, Image

    #: the ID of an image, its offset, its descriptor's offset, and its size
    EntryRow = tuple[bytes, int, int, int]


_header = HEADER.struct.unpack_from
_descriptor = DESCRIPTOR.struct.unpack_from
_FIRST, _STEP = HEADER.size, DESCRIPTOR.size

#: Maximum distance from the end of a bundle to the next one.
_PAGE = 4096


def read_fast(view: View, at: int) -> Container | None:
    """Return the bundle whose magic is at a position if it is regular, else None."""
    front = view.head(at, FRONT)
    if len(front) < _FIRST:
        return None
    found = _rows(front, _header(front)[1], len(view) - at)
    if found is None:
        return None
    rows, table_end = found
    end = table_end
    for _, offset, _, size in rows:
        if size:
            if offset < end or (offset > end and view.skip_zeros(at + end, at + offset) < at + offset):
                return None
            end = offset + size
    if any(offset > end for _, offset, _, _ in rows) or not _ends(view, at + end):
        return None
    source, chain, start = view.source, view.chain, view.start + at
    made = []
    for id, offset, place, size in rows:
        data = View(source, start + offset, start + offset + size, chain)
        made.append(
            lazy_image(target_for_id(decode_id(id)), "", data, size, size, None, _parts, data, id, offset, place)
        )
    images = tuple(made)
    align = find_alignment([(offset, size) for _, offset, _, size in rows], table_end)
    attrs = {"flavour": "binary", "align": str(align)}
    span = Span(start, start + end, chain)
    return lazy_container(BUNDLE_FORMAT, 0, images, span, attrs, _record, view, at, end, images, attrs, table_end)


def _rows(front: bytes, count: int, total: int) -> tuple[list[EntryRow], int] | None:
    """Return the rows of a table and its end, if ``front`` has all of it and every image is inside the file."""
    rows: list[EntryRow] = []
    ids = set()
    place, room = _FIRST, len(front)
    if count > limits.BUNDLE_ENTRIES:
        return None
    while len(rows) < count:
        if place + _STEP > room:
            return None
        offset, size, id_size = _descriptor(front, place)
        end = place + _STEP + id_size
        if not 0 < id_size <= limits.BUNDLE_ID or end > room or offset + size > total:
            return None
        id = front[place + _STEP : end]
        rows.append((id, offset, place, size))
        ids.add(id)
        place = end
    return (rows, place) if len(ids) == count else None


def _ends(view: View, end: int) -> bool:
    """Return whether the file ends at a position, or a container follows it and zeros."""
    if end >= len(view):
        return True
    limit = min(end + _PAGE + 1, len(view))
    following = view.skip_zeros(end, limit)
    return following < limit and format_by_magic(view.head(following, 24)) is not None


def _parts(data: View, id: bytes, offset: int, place: int) -> Mapping[str, object]:
    return {"data": data, "span": data.span(), "attrs": {"id": decode_id(id)}, "record": BundleEntry(id, offset, place)}


def _record(
    view: View, at: int, size: int, images: tuple[Image, ...], attrs: Mapping[str, str], table_end: int
) -> Mapping[str, object]:
    return {"record": BinaryBundle(view.slice(at, size), images, attrs, len(images), table_end)}


# Interface functions of the readers: detection of the flavour, and reading.
#
# A flavour's reader is imported on first use: writing needs none, and listing mostly one.


def detect(view: View, at: int = 0) -> bool:
    """Return whether a bundle starts at ``at``: one of the two magics, or a marker line within 4 KiB."""
    head = view.head(at, HEADER.size)
    if head.startswith(MAGIC):
        return len(head) == HEADER.size
    if head.startswith(COMPRESSED_MAGIC):
        return len(head) >= 8
    from fatpack.formats.clang_bundle.text_reader import find_comment

    return find_comment(view, at) is not None


def extent(view: View, at: int = 0) -> int | None:
    """Return how many bytes the bundle at ``at`` takes, or None if that is unknown.

    A binary bundle ends after its last image; version 1 of the compressed one stores no size and is measured by its
    stream. A text bundle takes the rest of the view.
    """
    try:
        head = view.head(at, len(MAGIC))
        if head == MAGIC:
            from fatpack.formats.clang_bundle import reader

            return reader.binary_extent(view, at)
        if head.startswith(COMPRESSED_MAGIC):
            from fatpack.formats.clang_bundle import compressed

            return compressed.compressed_extent(view, at)
        from fatpack.formats.clang_bundle.text_reader import find_comment

        return len(view) - at if find_comment(view, at) is not None else None
    except FormatError:
        return None


def parse(view: View, at: int = 0, *, strict: bool = False) -> Container:
    """Return the bundle that starts at ``at``. Images are spans of the view; only compressed ones are copied.

    Damaged entries are omitted and reported as findings of severity ``error``; ``strict`` raises for the
    first of them instead. Raises BadMagic, Unsupported, Truncated, BadValue, LimitExceeded if the bundle as a whole
    cannot be read; offsets are absolute.
    """
    head = view.head(at, len(MAGIC))
    if head == MAGIC:
        found = read_fast(view, at)
        if found is not None:
            return found
    from fatpack.formats.diagnostics import FindingCollector

    if head == MAGIC:
        from fatpack.formats.clang_bundle.reader import parse_binary

        return parse_binary(view, at, FindingCollector(strict))
    if head.startswith(COMPRESSED_MAGIC):
        from fatpack.formats.clang_bundle.compressed import parse_compressed

        return parse_compressed(view, at, FindingCollector(strict))
    from fatpack.formats.clang_bundle.text_reader import parse_text

    return parse_text(view, at, FindingCollector(strict))
