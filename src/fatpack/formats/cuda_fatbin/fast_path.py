"""Fast path for regular fat binaries: numbers are checked, images made on demand; and resynchronisation after damage.

A library has thousands of fat binaries, and nearly all are regular: an entry takes one read and a dozen comparisons.
Others (with a group, obfuscated code, or any invalid number) are left to the walk over entries
(:mod:`fatpack.formats.cuda_fatbin.reader`), which reads such a container from its start.
"""

from __future__ import annotations

import struct

from fatpack import limits, magic_numbers
from fatpack.codecs import max_inflated_size
from fatpack.formats.cuda_fatbin.entry import (
    FRAME_HEAD_SIZE,
    NO_STRINGS,
    ends_in_nul,
    entry_image,
    entry_target,
    frame_content_size,
    has_method,
    inflated_image,
    read_entry_strings,
    without_padding,
)
from fatpack.formats.cuda_fatbin.layout import (
    ALIGN,
    COMPRESSED,
    DESCRIPTOR,
    ELF,
    ENTRY,
    ENTRY_VERSION,
    FATBIN_FORMAT,
    FLAG_OBFUSCATED,
    FORMS,
    HEADER,
    KINDS,
    MAGIC,
    METHODS,
    TEXTS,
    VERSION,
    CudaEntry,
    CudaEntryHeader,
    Fatbin,
    padded_size,
)
from fatpack.formats.diagnostics import FindingCollector
from fatpack.io.source import BytesSource, Span, View
from fatpack.model import lazy_container, lazy_image

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from fatpack.model import Container, Image


# Resynchronisation after a damaged entry: only the entry itself states where the next one starts.
#
# Entries start at multiples of 8 from the first. A candidate must be valid in every bounded field; a fat binary that
# starts inside means that the size of this one is wrong.

#: kind and version, the first bytes of an entry
ENTRY_STARTS = tuple((kind | ENTRY_VERSION << 16).to_bytes(4, "little") for kind in KINDS)

_FATBIN = HEADER.pack(MAGIC, VERSION, HEADER.size, 0)[:8]

#: LIMIT: the header of an entry; the longest known to us has 3952 bytes.
_MAX_ENTRY_HEADER = 1 << 16

#: LIMIT: false candidates for an entry, per fat binary. Code and data of real images have none.
_FALSE_HITS = 1000


class Resynchronizer:
    """Finds the next entry of a fat binary; every search continues where the last one ended, so together they cost
    one."""

    def __init__(self, stored: View) -> None:
        self._stored = stored
        self._next = dict.fromkeys([_FATBIN, *ENTRY_STARTS], -1)
        self._false_hits = 0

    def after(self, at: int) -> int:
        """Return the first position from ``at`` on where an entry or another fat binary starts, or the end."""
        while (at := self._candidate(at)) < len(self._stored):
            if starts_fatbin(self._stored, at) or is_entry(self._stored, at):
                return at
            self._false_hits += 1
            if self._false_hits > _FALSE_HITS:
                break
            at += ALIGN
        return len(self._stored)

    def _candidate(self, at: int) -> int:
        """Return the next position with the first bytes of an entry or a fat binary.

        Each start is searched for up to the nearest other: hundreds of fat binaries that all claim the rest of a file
        would otherwise search it as often. If nothing is found up to there, that position is recorded as the next.
        """
        nearest = len(self._stored)
        for start, place in self._next.items():
            if place < at:
                self._next[start] = self._aligned(start, at, nearest)
            nearest = min(nearest, self._next[start])
        return nearest

    def _aligned(self, start: bytes, at: int, end: int) -> int:
        """Return the next position of ``start`` at a multiple of 8 from ``at`` on, or ``end``."""
        stored = self._stored.slice(0, end)
        while (at := stored.find(start, at)) >= 0:
            if at % ALIGN == 0:
                return at
            self._false_hits += 1
            if self._false_hits > _FALSE_HITS:
                break
            at += 1
        return end


def starts_fatbin(stored: View, at: int) -> bool:
    """Return whether the header of a fat binary is at a position."""
    return stored.head(at, len(_FATBIN)) == _FATBIN


def is_entry(stored: View, at: int) -> bool:
    """Return whether every bounded field is valid for an entry at a position."""
    numbers = stored.head(at, ENTRY.size)
    if numbers[:4] not in ENTRY_STARTS or len(numbers) < ENTRY.size:
        return False
    return is_plausible(CudaEntryHeader(*ENTRY.struct.unpack(numbers)), len(stored) - at)


def is_plausible(head: CudaEntryHeader, available: int) -> bool:
    """Return whether the bounded numbers of an entry are valid, with ``available`` bytes from its start on."""
    has_sizes = bool(head.compressed_size and head.inflated_size)
    is_packed = has_sizes and head.padded_size - padded_size(head.compressed_size) in (0, ALIGN)
    return (
        head.kind in KINDS
        and head.version == ENTRY_VERSION
        and range_problem(head, available) is None
        and head.place <= _MAX_ENTRY_HEADER
        and max(head.options_offset, head.identifier_offset + head.identifier_size) <= head.place
        and is_packed == bool(head.flags & COMPRESSED)
    )


def range_problem(head: CudaEntryHeader, available: int) -> tuple[str, str] | None:
    """Return the field and the problem if an entry does not fit into the remaining bytes."""
    if head.place < ENTRY.size or head.place % ALIGN or head.place > available:
        return "header_size", f"it is {head.place:#x}, with {available:#x} bytes left"
    if head.padded_size % ALIGN or head.padded_size > available - head.place:
        return "padded_size", f"it is {head.padded_size:#x}, with {available - head.place:#x} bytes left"
    return None


#: Bytes read at once: header and area of most entries, and the beginning of their image.
_BLOCK = 256

#: The longest header read here: entries with kilobytes of strings are rare.
_MOST = 4096

_header = HEADER.struct.unpack_from
_entry = struct.Struct("<HHIQIIHHIIIQQQ").unpack_from
_descriptor = DESCRIPTOR.struct.unpack_from

_LEAST, _FATBIN_HEADER_SIZE = ENTRY.size, HEADER.size
_ZSTD = magic_numbers.ZSTD


def read_fast(view: View, at: int) -> Container | None:
    """Return the fat binary at a position if it is regular, else None."""
    block = view.head(at, _BLOCK)
    if len(block) < _FATBIN_HEADER_SIZE or view.source.budget.inflated is not None:
        return None
    magic, version, header_size, size = _header(block)
    end = at + _FATBIN_HEADER_SIZE + size
    if magic != MAGIC or version != VERSION or header_size != _FATBIN_HEADER_SIZE or end > len(view):
        return None
    images: list[Image] = []
    place, in_block = at + _FATBIN_HEADER_SIZE, _FATBIN_HEADER_SIZE  # the entry's offset in the block
    while place < end:
        if in_block + _LEAST > len(block):
            block, in_block = view.head(place, _BLOCK), 0
        found = _read_entry(view, place, end, block, in_block)
        if found is None or len(images) >= limits.IMAGES:
            return None
        image, following = found
        images.append(image)
        in_block += following - place
        place = following
    if end < len(view) and (block[in_block : in_block + 4] or view.head(end, 4)) in ENTRY_STARTS:
        return None  # its size may be too small
    stored = tuple(images)
    span = Span(view.start + at, view.start + end, view.chain)
    return lazy_container(FATBIN_FORMAT, version, stored, span, {}, _record, view, at, end - at, stored)


def _read_entry(view: View, at: int, end: int, block: bytes, in_block: int) -> tuple[Image, int] | None:
    """Return the image of an entry at an offset in a block, and the next entry's position; None if it is not
    regular."""
    if in_block + _LEAST > len(block):
        return None
    numbers = _entry(block, in_block)
    kind, version, place, padded_size, compressed_size, options_at = numbers[:6]
    sm, identifier_at, identifier_size, flags, _, inflated_size = numbers[8:]
    form, image_at = FORMS.get(kind), at + place
    following = image_at + padded_size
    if (
        form is None
        or version != ENTRY_VERSION
        or not _LEAST <= place <= _MOST
        or (place | padded_size) % ALIGN
        or not padded_size
        or following > end
        or flags & FLAG_OBFUSCATED
    ):
        return None
    if in_block + place + FRAME_HEAD_SIZE > len(block):
        block, in_block = view.head(at, place + FRAME_HEAD_SIZE), 0
    head = block[in_block : in_block + place]
    if (identifier_at or options_at) and not _holds_area(head, kind, identifier_at, identifier_size, options_at):
        return None
    image: Image | None = None
    if flags & COMPRESSED:
        method = METHODS.get(flags & COMPRESSED)
        start = block[in_block + place : in_block + place + FRAME_HEAD_SIZE]
        if method and _is_sound(start, method, padded_size, compressed_size, inflated_size, view):
            size = inflated_size
            if kind in TEXTS and ends_in_nul(view, image_at + compressed_size - 1, method):
                size -= 1
            made_for = entry_target(sm, flags)
            start_at = view.start + image_at
            stored = Span(start_at, start_at + compressed_size, view.chain)
            image = lazy_image(
                made_for, form, None, size, compressed_size, method, _parts, view, at, head, size, span=stored
            )
    elif not (compressed_size or inflated_size):
        start_at = view.start + image_at
        if kind in TEXTS and in_block + place + padded_size <= len(block):  # a short text, which was read already
            last = in_block + place + padded_size - ALIGN
            size = padded_size - ALIGN + len(block[last : last + ALIGN].rstrip(b"\0"))
            data = View(view.source, start_at, start_at + size, view.chain)
        else:
            data = without_padding(View(view.source, start_at, start_at + padded_size, view.chain), kind)
            size = data.end - data.start
        image = lazy_image(entry_target(sm, flags), form, data, size, size, None, _parts, view, at, head, data)
    return None if image is None else (image, following)


def _is_sound(start: bytes, method: str, padded_size: int, size: int, inflated_size: int, view: View) -> bool:
    """Return whether the sizes of a compressed image are consistent, also with the start of its stream."""
    start = start[:size]
    if (
        not 0 < size <= padded_size < size + 2 * ALIGN
        or not 0 < inflated_size <= min(view.source.budget.inflatable, max_inflated_size(method, size))
        or not (start.startswith(_ZSTD) if method == "zstd" else has_method(method, start))
    ):
        return False
    stated = frame_content_size(method, start)
    return stated is None or stated <= inflated_size


def _holds_area(head: bytes, kind: int, identifier_at: int, identifier_size: int, options_at: int) -> bool:
    """Return whether the strings of an entry are inside its header."""
    place = len(head)
    if identifier_at and not _LEAST <= identifier_at <= place - identifier_size:
        return False
    if not options_at:
        return True
    if not _LEAST <= options_at <= place - DESCRIPTOR.size:
        return False
    string_at, size = _descriptor(head, options_at)
    lead = 1 if kind == ELF else 0
    return not (string_at or size) or _LEAST <= string_at <= place - lead - size


def _parts(view: View, at: int, head: bytes, known: View | int) -> Mapping[str, object]:
    """Return the deferred fields of an image, from the header of its entry; the file is not read.

    ``known`` is the image, inflated if it is compressed.
    """
    numbers = CudaEntryHeader(*_entry(head))
    area = NO_STRINGS
    if numbers.options_offset or numbers.identifier_offset:
        area = read_entry_strings(BytesSource(head).view(), numbers, FindingCollector(True))
    stored = view.slice(at, numbers.place + numbers.padded_size)
    packed = stored.slice(numbers.place, numbers.compressed_size or numbers.padded_size)
    data = known if isinstance(known, View) else inflated_image(packed, numbers, known < numbers.inflated_size)
    entry = CudaEntry(numbers, stored, area, packed, data)
    image = entry_image(entry)
    return {"data": data, "span": image.span, "attrs": image.attrs, "record": entry}


def _record(view: View, at: int, size: int, images: tuple[Image, ...]) -> Mapping[str, object]:
    return {"record": Fatbin(view.slice(at, size), images, {})}
