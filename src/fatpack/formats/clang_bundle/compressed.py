"""Bytes → model for the compressed bundle: a short header, then one zlib or zstd stream that holds a whole bundle.

LLVM believes none of the numbers in the header (section 4.4 of the notes on bundles), the HIP runtime believes the
total size. The stream itself says where it ends and how long its content is, so a wrong number is a finding.

Reading a bundle takes the table at its beginning, so no more than that is inflated, and images come out of the stream
when they are read. What only the whole content can tell, its hash and the bytes between images, is checked at once if
the content is small, and by :func:`fatpack.formats.clang_bundle.verify.verify` else.
"""

from __future__ import annotations

from fatpack import limits
from fatpack.codecs import decompress, inflate_pieces, inflation_budget, inflation_limit_error
from fatpack.errors import FormatError, Unsupported, format_hex
from fatpack.formats import format_by_magic
from fatpack.formats.clang_bundle.binary import parse_binary
from fatpack.formats.clang_bundle.clang_bundle_stored import CompressedBundle, stored_bundle
from fatpack.formats.clang_bundle.digest import HASH_SIZE, new_digest
from fatpack.formats.clang_bundle.faults import bundle_error, bundle_errors
from fatpack.formats.clang_bundle.layout import BUNDLE_FORMAT, COMPRESSED_HEADERS, COMPRESSED_VERSIONS, MAGIC, METHODS
from fatpack.formats.clang_bundle.stream_end import find_stream_end, inflates_beyond, measure_stream
from fatpack.formats.clang_bundle.text_reader import find_comment, parse_text
from fatpack.formats.diagnostics import FindingCollector
from fatpack.io.inflated import InflatedSource, PicklableCall
from fatpack.io.source import VirtualName
from fatpack.io.streamed import StreamedSource
from fatpack.model import Container
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.io.source import Span, View

#: Behind a stream that is shorter than the header says, another bundle is looked for within this many bytes.
_ALIGNMENT = 4096

#: A stream of zlib does not say where it ends. It is inflated to find out, so far at most: where it goes on then, the
#: header is believed until somebody inflates all of it.
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
    """Return the bytes that a compressed bundle takes by its header, or by its stream where that cannot be right."""
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
    """A compressed bundle and what came out of it: ``stored`` is all of it, ``stream`` the compressed data in it.

    ``body`` is what came out; ``size`` (None in version 1) and ``inflated_size`` are what the header says.
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
    """Return the compressed bundle at the start of ``rest``, whatever it turns out to hold.

    Its body is inflated as it is read, which raises BadValue where the stream is damaged and LimitExceeded for a bomb;
    one of up to ``limits.INFLATED_AT_ONCE`` bytes, or of unknown size, is inflated and checked here. Raises Unsupported
    for a version or method we do not know, Truncated and BadValue for a stream that is cut short.
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
    """Return the compressed bundle that starts at ``at``, its table inflated to list it.

    Raises what :func:`inflate` raises, and what the bundle inside does.
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
            faults.unexpected("FP1308", extra.span(), f"{len(extra)} bytes {where} belong to nothing")
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
        # A library has hundreds of bundles, and a stream that stands open has a window and tables.
        body.source.rest()
    return Container(
        BUNDLE_FORMAT, found.version, images, stored.span(), attrs, tuple(unknown), tuple(faults.findings), record
    )


def _delimit(
    rest: View, header: _CompressedHeader, method: str, faults: FindingCollector
) -> tuple[View, int, int | None]:
    """Return the stream, the size of the whole container as stored unless the stream proves it wrong, and what it
    inflates to, as far as the stream says so.
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
        faults.unexpected("FP1303", span, f"the size is {claimed} by the header, {front + end} by the {method} stream")
    return data.slice(0, end), front + end, inflated_size


def _hides_bundle(data: View, start: int, end: int) -> bool:
    """Return whether a container starts between the end of a stream and the end by the header, zeros before it."""
    head = data.head(start, min(end - start, _ALIGNMENT) + len(MAGIC))
    content = head.lstrip(b"\0")
    return start + len(head) - len(content) < end and format_by_magic(content) is not None


def _inflate_stream(stream: View, method: str, size: int | None) -> View:
    """Return the content of the stream, which is inflated as it is read; at once if it is small or of unknown size."""
    name = VirtualName(f"inflated {method} at {format_hex(stream.start)}")
    present, origin = min(len(stream), stream.source.present), stream.source
    source: InflatedSource
    if size is None:  # nobody says it: counted, and nothing is kept meanwhile
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
        faults.unexpected(
            "FP1305", span, f"the inflated size is {header.inflated_size} by the header, {len(body)} in fact"
        )
    if not body.source.is_streamed:
        digest = new_digest(len(body))
        for piece in body.pieces():
            digest.update(piece)
        check_hash(stored, header.version, header.hash, digest.digest(), faults)


def check_hash(stored: View, version: int, stored_hash: bytes, digest: bytes, faults: FindingCollector) -> None:
    """Note a hash that is not that of the content, whose MD5 is ``digest``."""
    real = digest[:HASH_SIZE]
    if stored_hash != real:
        span = stored.span(COMPRESSED_HEADERS[version].field_offset("hash"), HASH_SIZE)
        faults.unexpected("FP1304", span, f"the hash is {stored_hash.hex()}, the content has {real.hex()}")


def _parse_inside(body: View, faults: FindingCollector) -> Container:
    if body.head(0, len(MAGIC)) == MAGIC:
        return parse_binary(body, 0, faults, is_inflated=True)
    if find_comment(body):
        return parse_text(body, 0, faults)
    raise bundle_errors.magic(body, 0, "the compressed data is no bundle", MAGIC.decode(), repr(body.head(0, 24))[1:])
