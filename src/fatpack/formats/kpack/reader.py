"""Reader of kpack archives.

Every offset and size is checked before it is used. A code object in the table but not in the archive is a finding, and
all others are listed.
"""

from __future__ import annotations

import sys

from fatpack import limits
from fatpack.errors import BadValue, FormatError, LimitExceeded, Unsupported, format_hex, pluralize
from fatpack.formats.diagnostics import FindingCollector
from fatpack.formats.kpack.layout import (
    COUNT,
    FORMS,
    FRAME,
    HEADER,
    KPACK_FORMAT,
    MAGIC,
    SCHEMES,
    TRIPLE,
    VERSION,
    KpackEntry,
    KpackHeader,
    kpack_errors,
)
from fatpack.formats.kpack.toc import KpackToc, decode_text, too_many_code_objects
from fatpack.io.source import Span, View, VirtualName
from fatpack.model import Container, Image, Label, Target, fill_gaps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fatpack.formats.kpack.toc import TocRow


# Byte labels.


def label_kpack(body: View, header: KpackHeader, container: Container) -> Iterator[Label]:
    """Yield a label for every byte of an archive, once, in order."""
    return fill_gaps(body, _raw_labels(body, header, container))


def _raw_labels(body: View, header: KpackHeader, container: Container) -> Iterator[Label]:
    yield from HEADER.labels(body, 0, "header")
    if header.data_offset:
        yield from COUNT.labels(body, header.data_offset, "frames")
    for number, image in enumerate(container.images):
        entry = image.record
        if not isinstance(entry, KpackEntry):
            continue
        at = entry.stored.start - body.start
        if header.data_offset:
            yield from FRAME.labels(body, at - FRAME.size, f"image[{number}]")
        if len(entry.stored):
            words, doc = pluralize(len(entry.stored), "byte"), "the code object"
            yield Label(entry.stored.span(), f"image[{number}]", words, doc, "data")
    entries = [_entry(body, number, image) for number, image in enumerate(container.images)]
    yield from _table(body, header, [label for label in entries if label is not None])


def _entry(body: View, number: int, image: Image) -> Label | None:
    entry = image.record
    if not isinstance(entry, KpackEntry):
        return None
    text = f"{image.attrs['binary']} for {image.target.arch}: {image.attrs['type']}, blob {entry.ordinal}"
    return Label(body.span(entry.at, entry.end - entry.at), f"toc[{number}]", text, "the entry of a code object")


def _table(body: View, header: KpackHeader, entries: Sequence[Label]) -> Iterator[Label]:
    """Yield labels for the pairs of the table; in the pair of the code objects, for each entry."""
    toc = KpackToc(body.slice(header.toc_offset, len(body) - header.toc_offset))
    yield Label(toc.view.span(0, 1), "toc", "", "the head of the table: how many pairs it has")
    ends = [at for at, _ in toc.pairs[1:]] + [toc.size]
    for (at, key), end in zip(toc.pairs, ends, strict=False):  # an empty map has an end, but no pair
        pair = Label(toc.view.span(at, end - at), f"toc.{decode_text(key)}", "", "a pair of the table")
        yield from _divided(pair, entries) if key == b"toc" else (pair,)


def _divided(pair: Label, entries: Sequence[Label]) -> Iterator[Label]:
    reached = pair.span.start
    for entry in sorted(entries, key=lambda entry: entry.span.start):
        if entry.span.start > reached:
            yield pair.replace(span=pair.span.replace(start=reached, end=entry.span.start))
        yield entry
        reached = entry.span.end
    if reached < pair.span.end:
        yield pair.replace(span=pair.span.replace(start=reached))


#: Bytes of a damaged table that must be readable for it to count as a table.
_BELIEVED = 64


def detect(view: View, at: int = 0) -> bool:
    """Return whether a kpack archive seems to start at ``at``: there are its magic and bytes for a version."""
    head = view.head(at, 8)
    return head[:4] == MAGIC and len(head) == 8


def extent(view: View, at: int = 0) -> int | None:
    """Return how many bytes the archive at ``at`` takes: its table of contents is last.

    If the table is damaged, the bytes before the damage count, so that they are not read again; None if the damage is
    so near its start that it may not be a table.
    """
    try:
        _, toc = _tables(view, at)
    except Unsupported:
        return None
    except FormatError as error:
        _, _, start = HEADER.read(view, at) if len(view) - at >= HEADER.size else (0, 0, 0)
        reached = limits.KPACK_TOC if isinstance(error, LimitExceeded) else _reached(error, view, at) - start
        return start + reached if reached >= _BELIEVED else None
    return toc.view.start - view.start - at + toc.size


def _reached(error: FormatError, view: View, at: int) -> int:
    """Return the number of bytes between ``at`` and the position of an error."""
    return 0 if error.offset is None else error.offset - view.offset(at)


def parse(view: View, at: int = 0) -> Container:
    """Return the archive that starts at ``at``; its images in the order of their ordinals. Nothing is inflated.

    Raises BadMagic, Unsupported (an unknown version or compression scheme), Truncated, BadValue and
    LimitExceeded; offsets are absolute.
    """
    toc_offset, toc = _tables(view, at)
    body = view.slice(at, toc_offset + toc.size)
    faults = FindingCollector()
    stated = toc.number(b"format_version")
    if stated is not None and stated != VERSION:
        faults.add_warning("FP1603", _place(toc, b"format_version"), f"format_version is {stated}, the header says 1")
    for key in toc.repeated:
        faults.add_warning(
            "FP1603", toc.view.span(0, toc.size), f"the key {key!r} occurs twice in the table of contents"
        )
    scheme = toc.scheme()
    compression = SCHEMES[scheme]
    data_offset = data_size = 0
    if compression is None:
        blobs = [_blob(body, offset, size, toc_offset) for offset, size in toc.blobs()]
    else:
        data_offset, data_size = toc.number(b"zstd_offset") or 0, toc.number(b"zstd_size") or 0
        blobs = list(_frames(body, toc, data_offset, data_size, faults))
    images = _images(body, toc, blobs, compression, faults)
    archs = toc.texts(b"gfx_arches")
    served = frozenset(image.target.arch for image in images)
    _check_archs(toc, archs, served, faults)
    texts = {"group": toc.text(b"group_name"), "family": toc.text(b"gfx_arch_family"), "compression": compression or ""}
    header = KpackHeader(VERSION, toc_offset, len(body), archs, served, tuple(toc.further), data_offset)
    gaps = _unknown(body, header, data_size, blobs)
    for gap in gaps:
        faults.add_warning("FP1604", gap.span(), f"{len(gap)} bytes that belong to nothing")
    return Container(
        format=KPACK_FORMAT,
        version=VERSION,
        images=tuple(images),
        span=body.span(),
        attrs={key: text for key, text in texts.items() if text},
        unknown=tuple(gap.span() for gap in gaps),
        findings=tuple(faults.findings),
        record=header,
    )


def _tables(view: View, at: int) -> tuple[int, KpackToc]:
    """Return the offset of the table of contents, from the magic, and the table."""
    head = view.head(at, HEADER.size)
    if not head or not MAGIC.startswith(head[:4]):
        raise kpack_errors.magic(view, at, "not a kpack archive", MAGIC.hex(" "))
    if len(head) < HEADER.size:
        raise kpack_errors.cut(view, at, "header", HEADER.size)
    _, version, toc_offset = HEADER.read(view, at)
    if version != VERSION:
        raise kpack_errors.unsupported(view, at, f"version {version}", f"fatpack reads {VERSION}")
    offset_at = at + HEADER.field_offset("toc_offset")
    if toc_offset >= len(view) - at:
        most = f"less than {format_hex(len(view) - at)}"
        problem = f"{format_hex(toc_offset)} is past the end"
        raise kpack_errors.value(view, offset_at, "toc_offset", problem, most, "the file looks cut short")
    if toc_offset < HEADER.size:
        least = f"at least {format_hex(HEADER.size)}"
        raise kpack_errors.value(view, offset_at, "toc_offset", f"{format_hex(toc_offset)} is in the header", least)
    return toc_offset, KpackToc(view.slice(at + toc_offset, len(view) - at - toc_offset))


def _blob(body: View, offset: int, size: int, toc_offset: int) -> View | None:
    """Return the bytes of a blob, None if the archive does not have them."""
    return body.slice(offset, size) if HEADER.size <= offset and offset + size <= toc_offset else None


def _frames(body: View, toc: KpackToc, start: int, size: int, faults: FindingCollector) -> Iterator[View]:
    """Yield the zstd frames of the archive, one after the other by their stored sizes."""
    end = start + size
    if start < HEADER.size or end > toc.view.start - body.start or size < COUNT.size:
        problem = f"the frames at {format_hex(start)} take {size} bytes"
        room = f"inside {format_hex(HEADER.size)} to {format_hex(toc.view.start - body.start)}"
        raise toc.bad(toc.place(b"zstd_offset") or 0, "zstd_offset", problem, room)
    (count,) = COUNT.read(body, start)
    at = start + COUNT.size
    for number in range(count):
        if number >= limits.IMAGES:
            raise too_many_code_objects(body, at, "frames")
        if at + FRAME.size > end or at + FRAME.size + FRAME.read(body, at)[0] > end:
            problem = f"frame {number} of {count} is past the end of the frames ({format_hex(body.offset(end))})"
            error = kpack_errors.value(body, min(at, end - 1), "frame_size", problem)
            faults.add_error("FP1602", error, body.span(start, size))
            return
        (frame_size,) = FRAME.read(body, at)
        yield body.slice(at + FRAME.size, frame_size)
        at += FRAME.size + frame_size


def _images(
    body: View, toc: KpackToc, blobs: Sequence[View | None], compression: str | None, faults: FindingCollector
) -> list[Image]:
    found: list[tuple[int, int, Image]] = []
    for number, kernel in enumerate(toc.kernels()):
        if isinstance(kernel, BadValue):
            faults.add_error("FP1601", kernel, toc.view.span(0, toc.size))
            continue
        stored = blobs[kernel.ordinal] if kernel.ordinal < len(blobs) else None
        if stored is None:
            has = f"blob {kernel.ordinal} lies outside of the archive"
            if kernel.ordinal >= len(blobs):
                has = f"it is blob {kernel.ordinal}, and there are {pluralize(len(blobs), 'blob')}"
            error = toc.bad(kernel.at, f"entry of {kernel.binary} for {kernel.arch}", has)
            faults.add_error("FP1601", error, toc.view.span(kernel.at, kernel.end - kernel.at))
            continue
        found.append((kernel.ordinal, number, _image(body, toc, kernel, stored, compression, faults)))
    return [image for _, _, image in sorted(found, key=lambda item: item[:2])]


def _image(
    body: View, toc: KpackToc, kernel: TocRow, stored: View, compression: str | None, faults: FindingCollector
) -> Image:
    shift = toc.view.start - body.start
    entry = KpackEntry(kernel.ordinal, stored, kernel.further, shift + kernel.at, shift + kernel.end)
    if compression is None:
        data = stored
        if kernel.size is not None and kernel.size != len(stored):
            span = toc.view.span(kernel.at, kernel.end - kernel.at)
            text = f"original_size is {kernel.size}, and the blob has {len(stored)} bytes"
            faults.add_warning("FP1603", span, f"{kernel.binary} for {kernel.arch}: {text}")
    else:
        data = _inflated(stored, compression, kernel.size)
    attrs = {"binary": kernel.binary, "type": kernel.type}
    target = Target(TRIPLE, kernel.arch, "hip")
    form = FORMS.get(kernel.type, "")
    return Image(target, form, data, len(data), len(stored), stored.span(), compression, attrs, entry)


def _inflated(stored: View, method: str, size: int | None) -> View:
    """Return a frame inflated on demand; its size is from the table, or else from the frame itself."""
    from fatpack.io.inflated import InflatedSource, PicklableCall

    stated = _stated_size(stored) if size is None else size
    size = min(stated, sys.maxsize)  # no view is longer
    name = VirtualName(f"inflated {method} at {format_hex(stored.start)}")
    source = InflatedSource(
        size,
        PicklableCall(_whole, stored, method, stated),
        name,
        present=min(len(stored), stored.source.present),
        origin=stored.source,
        stream=PicklableCall(_pieces, stored, method, stated),
        start=PicklableCall(_start, stored, method),
    )
    return View(source, 0, size, (*stored.chain, name))


def _start(stored: View, method: str, size: int) -> bytes:
    from fatpack.codecs import inflate_beginning

    return inflate_beginning(stored, size, method=method, format=KPACK_FORMAT)


def _whole(stored: View, method: str, size: int) -> bytes | bytearray:
    from fatpack.codecs import decompress

    return decompress(stored, method, size, format=KPACK_FORMAT)


def _pieces(stored: View, method: str, size: int) -> Iterator[bytes]:
    from fatpack.codecs import inflate_pieces

    return inflate_pieces(stored, method, size, format=KPACK_FORMAT)


#: Bytes at the start of a frame that have its content's size; RFC 8878, 3.1.1.1.
_FRAME_HEADER = 18


def _stated_size(stored: View) -> int:
    """Return the content size in a zstd frame, 0 if it has none: reading the image then raises the error."""
    import zstandard

    try:
        return max(zstandard.frame_content_size(stored.head(0, _FRAME_HEADER)), 0)
    except zstandard.ZstdError:
        return 0


def _check_archs(toc: KpackToc, archs: Sequence[str], served: frozenset[str], faults: FindingCollector) -> None:
    """Report differences between the list of architectures, by which the runtime chooses an archive, and the
    images'."""
    span = _place(toc, b"gfx_arches")
    for arch in dict.fromkeys(archs):
        if arch not in served:
            text = f"the archive lists {arch} and has no code object for it; the runtime looks here first all the same"
            faults.add_warning("FP1605", span, text, "leave the architecture out, or the archive")
    for arch in sorted(served.difference(archs)):
        text = f"the archive has code objects for {arch} and does not list it: the runtime does not look for them here"
        faults.add_warning("FP1605", span, text, "add it to gfx_arches")


def _place(toc: KpackToc, key: bytes) -> Span:
    at = toc.place(key)
    return toc.view.span(0, toc.size) if at is None else toc.view.span(at, 1)


def _unknown(body: View, header: KpackHeader, data_size: int, blobs: Sequence[View | None]) -> list[View]:
    """Return the bytes before the table that are neither zeros nor described by it."""
    parts = [(HEADER.size, HEADER.size), (header.toc_offset, header.toc_offset)]
    if header.data_offset:
        parts.append((header.data_offset, header.data_offset + data_size))
    else:
        parts += [(blob.start - body.start, blob.end - body.start) for blob in blobs if blob is not None]
    gaps, reached = [], HEADER.size
    for start, end in sorted(parts):
        if start > reached and not body.is_zero(reached, start - reached):
            gaps.append(body.slice(reached, start - reached))
        reached = max(reached, end)
    return gaps
