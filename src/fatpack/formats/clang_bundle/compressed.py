"""Bytes → model for the compressed bundle: a short header, then one zlib or zstd stream that holds a whole bundle.

LLVM trusts none of the numbers in the header; the HIP runtime trusts the total size. The stream itself has its end and
the size of its content, so a wrong number is a finding.

Reading a bundle needs only the table at its beginning, so only that is inflated; images are inflated when they are
read. The checks that need the whole content, its hash and the bytes between images, are made at once if the content is
small, otherwise by :func:`fatpack.formats.clang_bundle.compressed.verify`.
"""

from __future__ import annotations

from importlib import import_module

from fatpack import limits, magic_numbers
from fatpack.codecs import decompress, inflate_beginning, inflate_pieces, inflation_budget, inflation_limit_error
from fatpack.errors import FormatError, Unsupported, format_hex
from fatpack.formats import format_by_magic
from fatpack.formats.clang_bundle.byte_labels import find_gaps, note_stray_bytes
from fatpack.formats.clang_bundle.layout import (
    BUNDLE_FORMAT,
    COMPRESSED_HEADERS,
    COMPRESSED_VERSIONS,
    MAGIC,
    METHODS,
    BinaryBundle,
    CompressedBundle,
    bundle_error,
    bundle_errors,
    stored_bundle,
)
from fatpack.formats.clang_bundle.reader import parse_binary
from fatpack.formats.clang_bundle.text_reader import find_comment, parse_text
from fatpack.formats.diagnostics import FindingCollector
from fatpack.io.inflated import InflatedSource, PicklableCall, StreamedSource
from fatpack.io.source import VirtualName
from fatpack.model import Container
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Protocol

    from typing_extensions import Buffer

    from fatpack.io.source import Span, View
    from fatpack.model import Finding

    class Md5Digest(Protocol):
        """A hash object of ``hashlib``."""

        def update(self, data: Buffer, /) -> None:
            """Add bytes."""

        def digest(self) -> bytes:
            """Return all 16 bytes."""


# The checksum in compressed bundles: the first 8 bytes of the MD5 of the bundle inside.

HASH_SIZE = 8

#: Size from which the faster MD5 of OpenSSL is worth the 4 ms of loading it.
_LARGE = 4 << 20


def new_digest(size: int) -> Md5Digest:
    """Return a new MD5 for ``size`` bytes; bundles store ``digest()[:HASH_SIZE]``."""
    try:
        module = import_module("hashlib" if size >= _LARGE else "_md5")
    except ImportError:  # an interpreter without its own MD5
        module = import_module("hashlib")
    digest: Md5Digest = module.md5(usedforsecurity=False)
    return digest


# An image that is one zstd frame: inflated on demand, and only the first block if only its first bytes are read.
#
# Programs have thousands of such images, and listing them reads the first bytes of each in turn.

#: Bytes inflated of the beginning: the header of any image, and the preamble of SPIR-V with some of its kernels.
_BEGINNING = 4096


class BeginningCache:
    """The beginning of the image read last; a whole section keeps only this one."""

    def __init__(self) -> None:
        self.owner: InflatedSource | None = None
        self.data = b""


class _FrameSource(InflatedSource):
    """The content of a frame; ``frame`` are its bytes as stored."""

    def __init__(self, frame: View, size: int, name: str, latest: BeginningCache) -> None:
        present = min(len(frame), frame.source.present)
        stream = PicklableCall(_frame_pieces, frame, size)
        super().__init__(
            size, PicklableCall(_inflate_frame, frame, size), name, present=present, origin=frame.source, stream=stream
        )
        self._frame = frame
        self._latest = latest

    def read(self, offset: int, size: int) -> bytes:
        """Return a copy of ``size`` inflated bytes at ``offset``."""
        if self._data is None and offset + size <= _BEGINNING:
            latest = self._latest
            if latest.owner is not self:
                latest.owner, latest.data = None, b""
                latest.data = inflate_beginning(self._frame, min(_BEGINNING, self.size), format=BUNDLE_FORMAT)
                latest.owner = self
            if offset + size <= len(latest.data):
                return latest.data[offset : offset + size]
        return super().read(offset, size)


def _inflate_frame(frame: View, size: int) -> bytes | bytearray:
    return decompress(frame, "zstd", size, format=BUNDLE_FORMAT)


def _frame_pieces(frame: View, size: int) -> Iterator[bytes]:
    return inflate_pieces(frame, "zstd", size, format=BUNDLE_FORMAT)


def frame_view(frame: View, size: int, latest: BeginningCache) -> View:
    """Return the ``size`` bytes of a zstd frame's content; reading them raises BadValue if it does not inflate to
    that."""
    name = VirtualName(f"inflated zstd at {format_hex(frame.start)}")
    return _FrameSource(frame, size, name, latest).view().replace(chain=(*frame.chain, name))


# The end of compressed data, found from the data itself.
#
# Version 1 of the compressed bundle stores no size; later versions may store a wrong one, which LLVM ignores. A zstd
# frame is walked by its block headers without inflating anything (RFC 8878, 3.1.1); zlib has no such headers and is
# inflated piece by piece, keeping nothing.

#: LIMIT: blocks of zstd per byte stored. Compressors make blocks of 128 KiB, which take a few hundred bytes or more
#: in device code; a stream of empty blocks of 3 bytes would take a second per 3 MB.
_BYTES_PER_BLOCK = 32
_LEAST_BLOCKS = 4096

#: Content of every zstd block except the last one: 128 KiB of zeros take 4 bytes.
_BLOCK_CONTENT = 128 << 10

_ZLIB_STEP = 1 << 20


def find_stream_end(data: View, method: str) -> int | None:
    """Return how many bytes the stream at the start of ``data`` takes, or None if it is damaged or cut short.

    Raises LimitExceeded for a zlib stream that inflates to more than the limit. For zstd, consecutive frames, skippable
    ones included, are one stream.
    """
    found = measure_stream(data, method)
    return None if found is None else found[0]


def measure_stream(data: View, method: str) -> tuple[int, int | None] | None:
    """Return the end of a stream, like :func:`find_stream_end`, and the size of its content.

    The size is the sum of those in the headers of zstd frames, which decompressors check; None if a frame has none.
    """
    return _measure_zstd(data) if method == "zstd" else _measure_zlib(data)


def _measure_zstd(data: View) -> tuple[int, int | None] | None:
    at, end, content = 0, None, 0
    is_known = True
    budget = [_block_budget(data)]
    while True:
        magic = data.head(at, 4)
        if magic == magic_numbers.ZSTD:
            found = _frame(data, at, budget)
            if found is None:
                return None
            at = end = found[0]
            is_known = is_known and found[1] is not None
            content += found[1] or 0
        elif magic[1:] == magic_numbers.SKIPPABLE and magic[0] & 0xF0 == 0x50:
            size = data.head(at + 4, 4)
            at += 8 + int.from_bytes(size, "little")
            if len(size) < 4 or at > len(data):
                return None
            if end is not None:
                end = at
        else:
            return None if end is None else (end, content if is_known else None)


def _block_budget(data: View) -> int:
    return _LEAST_BLOCKS + len(data) // _BYTES_PER_BLOCK


def measure_frame(data: View) -> tuple[int, int | None] | None:
    """Return how many bytes the one zstd frame at the start of ``data`` takes, and the content size in its header.

    The content size is None if the header has none. Returns None if there is no frame, or it is damaged or truncated.
    """
    return _frame(data, 0, [_block_budget(data)]) if data.head(0, 4) == magic_numbers.ZSTD else None


def _frame(data: View, at: int, budget: list[int]) -> tuple[int, int | None] | None:
    """Return the end of the frame whose magic is at ``at``, and its content's size."""
    head = data.head(at + 4, 14)
    flags = head[0] if head else 0x08
    if flags & 0x08:
        return None
    is_single = bool(flags & 0x20)
    width = (int(is_single), 2, 4, 8)[flags >> 6]
    start = 1 + (not is_single) + (0, 1, 2, 4)[flags & 3]
    size = int.from_bytes(head[start : start + width], "little") + (256 if width == 2 else 0)
    at += 4 + start + width
    budget[0] += size // _BLOCK_CONTENT
    while True:
        budget[0] -= 1
        block = int.from_bytes(data.head(at, 3), "little")
        kind = block >> 1 & 3
        if at + 3 > len(data) or kind == 3 or budget[0] < 0:
            return None
        at += 3 + (1 if kind == 1 else block >> 3)
        if block & 1:
            at += 4 if flags & 4 else 0
            return (at, size if width else None) if at <= len(data) else None


def inflates_beyond(data: View, size: int) -> bool:
    """Return whether a zlib stream inflates to more than ``size`` bytes before it ends or turns out to be damaged."""
    return any(made > size for _, made in _zlib_steps(data))


def _measure_zlib(data: View) -> tuple[int, int | None] | None:
    return next(((end, made) for end, made in _zlib_steps(data) if end is not None), None)


def _zlib_steps(data: View) -> Iterator[tuple[int | None, int]]:
    """Yield the end of a stream, None until it is reached, and the number of bytes inflated so far."""
    import zlib

    stream = zlib.decompressobj()
    taken = made = 0
    try:
        for piece in data.pieces():
            rest = bytes(piece)
            taken += len(rest)
            while True:
                out = stream.decompress(rest, _ZLIB_STEP)
                made += len(out)
                rest = stream.unconsumed_tail
                if not data.source.charge(data.start, made):
                    raise inflation_limit_error(data, None, format=BUNDLE_FORMAT)
                yield taken - len(stream.unused_data) if stream.eof else None, made
                if stream.eof:
                    return
                if not rest and len(out) < _ZLIB_STEP:
                    break
    except zlib.error:
        return


#: After a stream that is shorter than the header says, this many bytes are searched for another bundle.
_ALIGNMENT = 4096

#: A zlib stream does not state its size. At most this much is inflated to find its end; if it goes on after that, the
#: header is trusted until all of it is inflated.
_MEASURED = 16 << 20


class _CompressedHeader(Record):
    """The header as stored; ``size`` is None in version 1."""

    version: int
    method: int
    size: int | None
    inflated_size: int
    hash: bytes


def _read_header(rest: View) -> _CompressedHeader:
    head = rest.head(0, 8)
    if len(head) < 8:
        raise bundle_errors.cut(rest, 0, "header", 8)
    version = int.from_bytes(head[4:6], "little")
    if version not in COMPRESSED_HEADERS:
        hint = f"fatpack reads {', '.join(map(str, COMPRESSED_VERSIONS))}"
        raise bundle_errors.unsupported(rest, 0, f"compressed bundle of version {version}", hint)
    _, _, method, *sizes, stored_hash = COMPRESSED_HEADERS[version].read(rest, 0)
    return _CompressedHeader(version, method, sizes[0] if len(sizes) > 1 else None, sizes[-1], stored_hash)


def compressed_extent(view: View, at: int) -> int | None:
    """Return the size of a compressed bundle by its header, or by its stream if that cannot be right."""
    rest = view.slice(at, len(view) - at)
    if int.from_bytes(rest.head(4, 2), "little") not in COMPRESSED_HEADERS:
        return None
    try:
        header = _read_header(rest)
    except (FormatError, Unsupported):
        return None
    front = COMPRESSED_HEADERS[header.version].size
    if header.size is not None and front <= header.size <= len(rest):
        return header.size
    if header.method not in METHODS:
        return None
    end = find_stream_end(rest.slice(front, len(rest) - front), METHODS[header.method])
    return None if end is None else front + end


class InflatedBundle(Record):
    """A compressed bundle and its content: ``stored`` are all its bytes, ``stream`` the compressed data in it.

    ``body`` is the content; ``size`` (None in version 1) and ``inflated_size`` are from the header.
    """

    stored: View
    version: int
    method: str
    size: int | None
    inflated_size: int
    hash: bytes
    stream: View
    body: View


def inflate_bundle(rest: View, faults: FindingCollector) -> InflatedBundle:
    """Return the compressed bundle at the start of ``rest``; its content may be anything.

    Its body is inflated on demand, which raises BadValue if the stream is damaged and LimitExceeded for a bomb; a body
    of up to ``limits.INFLATED_AT_ONCE`` bytes, or of unknown size, is inflated and checked here. Raises Unsupported for
    an unknown version or method, Truncated and BadValue for a truncated stream.
    """
    header = _read_header(rest)
    if header.method not in METHODS:
        hint = "fatpack reads 0 (zlib) and 1 (zstd)"
        raise bundle_errors.unsupported(rest, 0, f"compression method {header.method}", hint)
    method = METHODS[header.method]
    stream, size, inflated_size = _delimit(rest, header, method, faults)
    stored = rest.slice(0, size)
    body = _inflate_stream(stream, method, inflated_size)
    _check(header, stored, body, faults)
    return InflatedBundle(stored, header.version, method, header.size, header.inflated_size, header.hash, stream, body)


def parse_compressed(view: View, at: int, faults: FindingCollector) -> Container:
    """Return the compressed bundle that starts at ``at``, with its table inflated.

    Raises the errors of :func:`inflate_bundle`, and of the bundle inside.
    """
    found = inflate_bundle(view.slice(at, len(view) - at), faults)
    stored, stream, body, method = found.stored, found.stream, found.body, found.method
    front = COMPRESSED_HEADERS[found.version].size + len(stream)
    tail = stored.slice(front, len(stored) - front)
    unknown: list[Span] = []
    inside = _parse_inside(body, faults)
    rest_inside = body.slice(inside.span.size, len(body) - inside.span.size)
    for extra, where in ((tail, "after the compressed data"), (rest_inside, "after the bundle inside")):
        if not extra.is_zero():
            unknown.append(extra.span())
            faults.add_warning("FP1308", extra.span(), f"{len(extra)} bytes {where} belong to nothing")
    images = tuple(image.replace(compression=method, stored_size=None) for image in inside.images)
    attrs = {**inside.attrs, "flavour": "compressed", "inside": inside.attrs["flavour"], "compression": method}
    record = CompressedBundle(
        stored,
        images,
        attrs,
        found.version,
        method,
        found.size,
        found.inflated_size,
        found.hash,
        stream,
        stored_bundle(inside),
    )
    unknown += inside.unknown
    if body.source.is_streamed:
        # A library has hundreds of bundles, and an open stream has a window and tables.
        body.source.release_buffers()
    return Container(
        BUNDLE_FORMAT, found.version, images, stored.span(), attrs, tuple(unknown), tuple(faults.findings), record
    )


def _delimit(
    rest: View, header: _CompressedHeader, method: str, faults: FindingCollector
) -> tuple[View, int, int | None]:
    """Return the stream, the container's size (as stored unless the stream proves it wrong), and the content size if
    the stream has it.
    """
    layout = COMPRESSED_HEADERS[header.version]
    front = layout.size
    data = rest.slice(front, len(rest) - front)
    claimed = header.size
    if claimed is not None and front <= claimed <= len(rest):
        whole = data.slice(0, claimed - front)
        if method == "zlib" and header.inflated_size > _MEASURED and inflates_beyond(whole, _MEASURED):
            return whole, claimed, header.inflated_size
        found = measure_stream(whole, method)
        if found is not None and not _hides_bundle(data, found[0], len(whole)):
            return whole.slice(0, found[0]), claimed, found[1]
    found = measure_stream(data, method)
    if found is None:
        if claimed is not None and claimed > len(rest):
            raise bundle_errors.cut(rest, 0, "size", claimed)
        raise bundle_error(data, 0, "compressed data", f"the {method} stream is damaged or cut short")
    end, inflated_size = found
    if claimed is not None:
        span = rest.span(layout.field_offset("size"), 4 if header.version == 2 else 8)
        faults.add_warning("FP1303", span, f"the size is {claimed} by the header, {front + end} by the {method} stream")
    return data.slice(0, end), front + end, inflated_size


def _hides_bundle(data: View, start: int, end: int) -> bool:
    """Return whether a container starts between the end of a stream and the end by the header, after zeros."""
    head = data.head(start, min(end - start, _ALIGNMENT) + len(MAGIC))
    content = head.lstrip(b"\0")
    return start + len(head) - len(content) < end and format_by_magic(content) is not None


def _inflate_stream(stream: View, method: str, size: int | None) -> View:
    """Return the content of the stream, inflated on demand; at once if it is small or of unknown size."""
    name = VirtualName(f"inflated {method} at {format_hex(stream.start)}")
    present, origin = min(len(stream), stream.source.present), stream.source
    source: InflatedSource
    if size is None:  # unknown: counted by inflating, without keeping anything
        size = sum(map(len, inflate_pieces(stream, method, None, format=BUNDLE_FORMAT)))
    if size > inflation_budget(stream):
        raise inflation_limit_error(stream, size, format=BUNDLE_FORMAT)
    if size > limits.INFLATED_AT_ONCE:
        source = StreamedSource(
            size, PicklableCall(_stream_pieces, stream, method, size), name, present=present, origin=origin
        )
    else:
        data = decompress(stream, method, size, format=BUNDLE_FORMAT)
        inflate = PicklableCall(_bytes, stream, method, size)
        source = InflatedSource(size, inflate, name, present=present, origin=origin, data=data)
    return source.view().replace(chain=(*stream.chain, name))


def _stream_pieces(stream: View, method: str, size: int) -> Iterator[bytes]:
    return inflate_pieces(stream, method, size, format=BUNDLE_FORMAT)


def _bytes(stream: View, method: str, size: int) -> bytes | bytearray:
    return decompress(stream, method, size, format=BUNDLE_FORMAT)


def _check(header: _CompressedHeader, stored: View, body: View, faults: FindingCollector) -> None:
    layout = COMPRESSED_HEADERS[header.version]
    if header.inflated_size != len(body):
        span = stored.span(layout.field_offset("inflated_size"), 8 if header.version == 3 else 4)
        faults.add_warning(
            "FP1305", span, f"the inflated size is {header.inflated_size} by the header, {len(body)} in fact"
        )
    if not body.source.is_streamed:
        digest = new_digest(len(body))
        for piece in body.pieces():
            digest.update(piece)
        check_hash(stored, header.version, header.hash, digest.digest(), faults)


def check_hash(stored: View, version: int, stored_hash: bytes, digest: bytes, faults: FindingCollector) -> None:
    """Report a stored hash that differs from the content's MD5, ``digest``."""
    real = digest[:HASH_SIZE]
    if stored_hash != real:
        span = stored.span(COMPRESSED_HEADERS[version].field_offset("hash"), HASH_SIZE)
        faults.add_warning("FP1304", span, f"the hash is {stored_hash.hex()}, the content has {real.hex()}")


def _parse_inside(body: View, faults: FindingCollector) -> Container:
    if body.head(0, len(MAGIC)) == MAGIC:
        return parse_binary(body, 0, faults, is_inflated=True)
    if find_comment(body):
        return parse_text(body, 0, faults)
    raise bundle_errors.magic(body, 0, "the compressed data is no bundle", MAGIC.decode(), repr(body.head(0, 24))[1:])


# Checks that need the whole content of a compressed bundle: the hash, and stray bytes.


def is_hashed(container: Container) -> bool:
    """Return whether a hash of its content is stored: true for all compressed bundles."""
    return isinstance(container.record, CompressedBundle)


def is_unchecked(container: Container) -> bool:
    """Return whether a container is a compressed bundle whose content was too large to be checked when it was read."""
    record = container.record
    return isinstance(record, CompressedBundle) and record.inside.stored.source.is_streamed


def verify(container: Container) -> list[Finding]:
    """Return the findings about the content of an unchecked container; none for any other.

    Inflates everything, in bounded memory, and shares only the file with other readers of the container: it may run in
    a thread of its own. Raises FormatError for a damaged stream.
    """
    record = container.record
    faults = FindingCollector()
    if not isinstance(record, CompressedBundle) or not is_unchecked(container):
        return faults.findings
    inside = record.inside
    size = inside.stored.source.size
    places = find_gaps(inside) if isinstance(inside, BinaryBundle) else iter(())
    stray_bytes = _StrayBytes(places)
    digest = new_digest(size)
    for piece in inflate_pieces(record.stream, record.method, size, format=BUNDLE_FORMAT):
        digest.update(piece)
        stray_bytes.look(piece)
    if record.method == "zlib":  # its end is also known only after inflating
        _tail(record, faults)
    for start, end, owner in stray_bytes.found:
        note_stray_bytes(inside.stored, start, end, owner, faults)
    check_hash(record.stored, record.version, record.hash, digest.digest(), faults)
    return faults.findings


def _tail(record: CompressedBundle, faults: FindingCollector) -> None:
    """Report bytes after a stream that the container's size includes."""
    end = find_stream_end(record.stream, record.method)
    tail = None if end is None else record.stream.slice(end, len(record.stream) - end)
    if tail is not None and not tail.is_zero():
        faults.add_warning("FP1308", tail.span(), f"{len(tail)} bytes after the compressed data belong to nothing")


class _StrayBytes:
    """Finds gaps with non-zero bytes in content that comes in pieces."""

    def __init__(self, places: Iterator[tuple[int, int, str]]) -> None:
        self.found: list[tuple[int, int, str]] = []
        self._places = places
        self._gap = next(places, None)
        self._at = 0

    def look(self, piece: bytes) -> None:
        """Check the next piece of the content."""
        end = self._at + len(piece)
        while self._gap is not None and self._gap[0] < end:
            start, stop, _ = self._gap
            part = piece[max(start - self._at, 0) : stop - self._at]
            is_stray = bool(part.strip(b"\0"))
            if is_stray:
                self.found.append(self._gap)
            if stop > end and not is_stray:
                break
            self._gap = next(self._places, None)
        self._at = end
