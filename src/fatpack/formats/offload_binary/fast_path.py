"""Fast path for regular offload binaries: numbers are checked, images made on demand.

A library has thousands of them, and nearly all have the layout of LLVM's writer: header, entries, string entries,
strings, images, zeros between them, little-endian. Any other binary is left to
:mod:`fatpack.formats.offload_binary.reader`, which reads such a binary from its start.
"""

from __future__ import annotations

from fatpack.formats.offload_binary.layout import (
    FLAG_METADATA_ONLY,
    FORMS,
    MAGIC,
    OFFLOAD_BINARY_FORMAT,
    OffloadBinaryEntry,
    OffloadBinaryHeader,
    decode_offload,
    layouts_for_order,
)
from fatpack.io.source import Span, View
from fatpack.model import Target, lazy_container, lazy_image

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from fatpack.model import Container, Image

    Pairs = tuple[tuple[bytes, bytes], ...]

#: Bytes read at once: everything before the images, in binaries of compilers.
_BLOCK = 1024

_LAYOUTS = layouts_for_order("little")
_ENTRY_SIZE = _LAYOUTS.entry.size

#: Entries may share their strings: for more pairs than this, the decoded bytes are counted.
_MOST_PAIRS = 64

#: Cache of targets: a library has thousands of images for a dozen of them.
_TARGETS: dict[tuple[str, str, str], Target] = {}
_MOST_TARGETS = 1000


def read_fast(view: View, at: int) -> Container | None:
    """Return the binary at a position if it is regular, else None."""
    block = view.head(at, _BLOCK)
    version = int.from_bytes(block[4:8], "little")
    layout = _LAYOUTS.header.get(version)
    if layout is None or not block.startswith(MAGIC) or len(block) < layout.size:
        return None
    _, _, size, entry_offset, count, *inflated_size = layout.struct.unpack_from(block)
    count = 1 if version == 1 else count
    end = layout.size + count * _ENTRY_SIZE
    if (
        size > len(view) - at
        or size % 8
        or any(inflated_size)
        or entry_offset != layout.size
        or end > min(size, len(block))
    ):
        return None
    images = _images(view, at, size, block[:size], version, block[entry_offset:end])
    if images is None:
        return None
    span = Span(view.start + at, view.start + at + size, view.chain)
    return lazy_container(
        OFFLOAD_BINARY_FORMAT, version, images, span, {}, _record, view, at, size, version, entry_offset, count
    )


def _images(view: View, at: int, size: int, block: bytes, version: int, table: bytes) -> tuple[Image, ...] | None:
    """Return the images of a binary that starts with ``block``, if all parts follow each other."""
    source, chain, start = view.source, view.chain, view.start + at
    images: list[Image] = []
    places: list[tuple[int, int]] = []
    ranges: list[tuple[int, int]] = []
    for values in _LAYOUTS.entry.struct.iter_unpack(table):
        image_kind, offload_kind, flags, string_at, string_count, image_at, image_size = values
        pairs = _pairs(block, version, string_at, string_count, ranges)
        if pairs is None or image_at + image_size > size:
            return None
        keys = dict(pairs)
        triple, arch = _text(keys.get(b"triple", b"")), _text(keys.get(b"arch", b""))
        offload, remark = decode_offload(offload_kind, triple, image_kind)
        if remark or len(keys) != len(pairs):
            return None
        form = FORMS.get(image_kind, "") if not flags & FLAG_METADATA_ONLY else ""
        data = View(source, start + image_at, start + image_at + image_size, chain)
        target = _target(triple, arch, offload)
        stored = image_kind, offload_kind, flags, pairs, string_at, image_at
        images.append(lazy_image(target, form, data, image_size, image_size, None, _parts, data, stored))
        if image_size:
            places.append((image_at, image_at + image_size))
    reached = _end_of_strings(block, _LAYOUTS.header[version].size + len(table), ranges)
    return tuple(images) if reached and _follow(view, at, block, reached, [*places, (size, size)]) else None


def _end_of_strings(block: bytes, reached: int, ranges: list[tuple[int, int]]) -> int:
    """Return the end of string entries and strings, 0 if they share bytes or have non-zero bytes between them.

    Strings that are tails of others share bytes too; the full reader counts their decoded bytes.
    """
    for low, high in sorted(ranges):
        if low < reached or high > len(block) or any(block[reached:low]):
            return 0
        reached = high
    return reached


def _follow(view: View, at: int, block: bytes, reached: int, places: list[tuple[int, int]]) -> bool:
    """Return whether images follow each other, with only zeros between them."""
    for low, high in places:
        if low < reached:
            return False
        if low <= len(block):
            if block[reached:low].strip(b"\0"):
                return False
        elif not view.is_zero(at + reached, low - reached):
            return False
        reached = high
    return True


def _pairs(block: bytes, version: int, at: int, count: int, ranges: list[tuple[int, int]]) -> Pairs | None:
    """Return keys and values of an entry if all of them are in the block, and add their ranges."""
    layout = _LAYOUTS.strings[version]
    end = at + count * layout.size
    if not count:
        return ()
    if end > len(block) or count > _MOST_PAIRS:
        return None
    ranges.append((at, end))
    pairs = []
    for key_at, value_at, *value_size in layout.struct.iter_unpack(block[at:end]):
        key_end = block.find(0, key_at)
        value_end = value_at + value_size[0] if value_size else block.find(0, value_at)
        if not (0 <= key_at <= key_end and 0 <= value_at <= value_end < len(block)):
            return None
        ranges += ((key_at, key_end + 1), (value_at, value_end + 1))
        pairs.append((block[key_at:key_end], block[value_at:value_end]))
    return tuple(pairs)


def _text(stored: bytes) -> str:
    return stored.decode("utf-8", "surrogateescape")


def _target(triple: str, arch: str, offload: str) -> Target:
    key = (triple, arch, offload)
    known = _TARGETS.get(key)
    if known is None:
        if len(_TARGETS) >= _MOST_TARGETS:
            _TARGETS.clear()
        known = _TARGETS[key] = Target(triple, arch, offload)
    return known


def _parts(data: View, stored: tuple[int, int, int, Pairs, int, int]) -> Mapping[str, object]:
    entry = OffloadBinaryEntry(*stored)
    attrs = {_text(key): _text(value) for key, value in entry.strings}
    for key in ("triple", "arch"):
        attrs.pop(key, None)
    return {"data": data, "span": data.span(), "attrs": attrs, "record": entry}


def _record(view: View, at: int, size: int, version: int, entry_offset: int, count: int) -> Mapping[str, object]:
    return {"record": OffloadBinaryHeader(version, "little", size, entry_offset, count, view.slice(at, size))}
