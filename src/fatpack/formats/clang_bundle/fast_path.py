"""The quick way through a binary bundle in which nothing is unexpected: numbers are checked, the rest made on demand.

A library has hundreds of bundles, and nearly all are as clang-offload-bundler writes them: images behind the table, in
its order, zeros between them, and the next bundle or the end of the file behind. Whatever is unusual is left to
:mod:`fatpack.formats.clang_bundle.binary`, which reads such a bundle from its start.
"""

from __future__ import annotations

from fatpack import limits
from fatpack.formats import format_by_magic
from fatpack.formats.clang_bundle.clang_bundle_stored import BinaryBundle, BundleEntry
from fatpack.formats.clang_bundle.entries import FRONT, decode_id, find_alignment, target_for_id
from fatpack.formats.clang_bundle.layout import BUNDLE_FORMAT, DESCRIPTOR, HEADER
from fatpack.io.source import Span, View
from fatpack.model import lazy_container, lazy_image

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from fatpack.model import Container, Image

    #: the ID of an image, where it lies, where its descriptor is, and its size
    EntryRow = tuple[bytes, int, int, int]

_header = HEADER.struct.unpack_from
_descriptor = DESCRIPTOR.struct.unpack_from
_FIRST, _STEP = HEADER.size, DESCRIPTOR.size

#: How far behind a bundle the next one may start.
_PAGE = 4096


def read_fast(view: View, at: int) -> Container | None:
    """Return the bundle at a position, where the magic is, if nothing in it is unexpected, else None."""
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
    """Return the rows of a table and where it ends, if all of it is in the first bytes and every image is there."""
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
    """Return whether the file ends at a position, or a container is behind it and the zeros there."""
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
