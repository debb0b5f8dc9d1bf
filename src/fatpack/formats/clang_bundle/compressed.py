"""Bytes → model for the compressed bundle: a short header, then one zlib or zstd stream that holds a whole bundle.

LLVM believes none of the numbers in the header (section 4.4 of the notes on bundles), the HIP runtime believes the
total size. The stream itself says where it ends and how long its content is, so a wrong number is a finding.
"""

from __future__ import annotations

from fatpack.codec import decompress
from fatpack.errors import BadMagic, FormatError, Truncated, Unsupported, hexadecimal
from fatpack.formats import sniff
from fatpack.formats.clang_bundle.binary import parse_binary
from fatpack.formats.clang_bundle.digest import HASH_SIZE, new_digest
from fatpack.formats.clang_bundle.faults import Faults, fault
from fatpack.formats.clang_bundle.layout import COMPRESSED_VERSIONS, FORMAT, MAGIC, METHODS, WRAPPERS
from fatpack.formats.clang_bundle.stored import Bundle, Text, Wrapper
from fatpack.formats.clang_bundle.stream_end import stream_end
from fatpack.formats.clang_bundle.text import find_comment, parse_text
from fatpack.io.source import Derived, InflatedSource
from fatpack.model import Container
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.io.source import View
    from fatpack.model import Span

#: Behind a stream that is shorter than the header says, another bundle is looked for within this many bytes.
_ALIGNMENT = 4096


class _Header(Record):
    """The header as stored; ``size`` is None in version 1."""

    version: int
    method: int
    size: int | None
    inflated_size: int
    hash: bytes


def _read_header(rest: View) -> _Header:
    head = rest.head(0, 8)
    if len(head) < 8:
        raise Truncated(
            needed=8, left=len(head), format=FORMAT, offset=rest.offset(0), field="header", chain=rest.chain
        )
    version = int.from_bytes(head[4:6], "little")
    if version not in WRAPPERS:
        raise Unsupported(
            f"{FORMAT} at {hexadecimal(rest.offset(0))}: compressed bundle of version {version}",
            hint=f"known are {', '.join(map(str, COMPRESSED_VERSIONS))}",
            chain=rest.chain,
        )
    _, _, method, *sizes, stored_hash = WRAPPERS[version].read(rest, 0)
    return _Header(version, method, sizes[0] if len(sizes) > 1 else None, sizes[-1], stored_hash)


def extent(view: View, at: int) -> int | None:
    """Return the bytes that a compressed bundle takes by its header, or by its stream where that cannot be right."""
    rest = view.slice(at, len(view) - at)
    try:
        header = _read_header(rest)
    except (FormatError, Unsupported):
        return None
    front = WRAPPERS[header.version].size
    if header.size is not None and front <= header.size <= len(rest):
        return header.size
    if header.method not in METHODS:
        return None
    end = stream_end(rest.slice(front, len(rest) - front), METHODS[header.method])
    return None if end is None else front + end


def parse_compressed(view: View, at: int, faults: Faults) -> Container:
    """Return the compressed bundle that starts at ``at``, inflated to list it.

    The inflated bytes are kept for a while and inflated again when they are needed later. Raises Unsupported for a
    version or method we do not know, Truncated and BadValue for a damaged stream, LimitExceeded for a bomb, and what
    the bundle inside raises.
    """
    rest = view.slice(at, len(view) - at)
    header = _read_header(rest)
    if header.method not in METHODS:
        raise Unsupported(
            f"{FORMAT} at {hexadecimal(rest.offset(0))}: compression method {header.method}",
            hint="known are 0 (zlib) and 1 (zstd)",
            chain=rest.chain,
        )
    method = METHODS[header.method]
    stream, size = _delimit(rest, header, method, faults)
    stored = rest.slice(0, size)
    tail = stored.slice(WRAPPERS[header.version].size + len(stream), size - WRAPPERS[header.version].size - len(stream))
    unknown: list[Span] = []
    body = _inflate(stream, method)
    _check(header, stored, body, faults)
    inside = _parse_inside(body, faults)
    rest_inside = body.slice(inside.span.size, len(body) - inside.span.size)
    for extra, where in ((tail, "after the compressed data"), (rest_inside, "after the bundle inside")):
        if not extra.is_zero():
            unknown.append(extra.span())
            faults.odd("FP1308", extra.span(), f"{len(extra)} bytes {where} belong to nothing")
    images = tuple(image.replace(compression=method, stored_size=None) for image in inside.images)
    assert isinstance(inside.record, (Bundle, Text))
    attrs = {**inside.attrs, "flavour": "compressed", "inside": inside.attrs["flavour"], "compression": method}
    record = Wrapper(
        stored,
        images,
        attrs,
        header.version,
        method,
        header.size,
        header.inflated_size,
        header.hash,
        stream,
        inside.record,
    )
    unknown += inside.unknown
    findings = tuple(faults.findings)
    return Container(FORMAT, header.version, images, stored.span(), attrs, tuple(unknown), findings, record)


def _delimit(rest: View, header: _Header, method: str, faults: Faults) -> tuple[View, int]:
    """Return the stream, and the size of the whole container: as stored, unless the stream proves it wrong."""
    layout = WRAPPERS[header.version]
    front = layout.size
    data = rest.slice(front, len(rest) - front)
    claimed = header.size
    if claimed is not None and front <= claimed <= len(rest):
        whole = data.slice(0, claimed - front)
        end = stream_end(whole, method)
        if end is not None and not _hides_bundle(data, end, len(whole)):
            return whole.slice(0, end), claimed
    end = stream_end(data, method)
    if end is None:
        if claimed is not None and claimed > len(rest):
            raise Truncated(
                needed=claimed, left=len(rest), format=FORMAT, offset=rest.offset(0), field="size", chain=rest.chain
            )
        raise fault(data, 0, "compressed data", f"the {method} stream is damaged or cut short")
    if claimed is not None:
        span = rest.span(layout.field_offset("size"), 4 if header.version == 2 else 8)
        faults.odd("FP1303", span, f"the size is {claimed} by the header, {front + end} by the {method} stream")
    return data.slice(0, end), front + end


def _hides_bundle(data: View, start: int, end: int) -> bool:
    """Return whether a container starts between the end of a stream and the end by the header, zeros before it."""
    head = data.head(start, min(end - start, _ALIGNMENT) + len(MAGIC))
    content = head.lstrip(b"\0")
    return start + len(head) - len(content) < end and sniff(content) is not None


def _inflate(stream: View, method: str) -> View:
    """Return the inflated bundle; whoever reads it later makes the stream inflate again if need be."""
    data = decompress(stream, method, None, format=FORMAT)
    name = Derived(f"inflated {method} at {hexadecimal(stream.start)}")
    source = InflatedSource(
        len(data),
        lambda: decompress(stream, method, None, format=FORMAT),
        name,
        present=min(len(stream), stream.source.present),
        origin=stream.source,
        data=data,
    )
    return source.view().replace(chain=(*stream.chain, Derived(name)))


def _check(header: _Header, stored: View, body: View, faults: Faults) -> None:
    layout = WRAPPERS[header.version]
    if header.inflated_size != len(body):
        span = stored.span(layout.field_offset("inflated_size"), 8 if header.version == 3 else 4)
        faults.odd("FP1305", span, f"the inflated size is {header.inflated_size} by the header, {len(body)} in fact")
    digest = new_digest(len(body))
    for piece in body.pieces():
        digest.update(piece)
    real = digest.digest()[:HASH_SIZE]
    if header.hash != real:
        span = stored.span(layout.field_offset("hash"), 8)
        faults.odd("FP1304", span, f"the hash is {header.hash.hex()}, the content has {real.hex()}")


def _parse_inside(body: View, faults: Faults) -> Container:
    if body.head(0, len(MAGIC)) == MAGIC:
        return parse_binary(body, 0, faults, is_inflated=True)
    if find_comment(body):
        return parse_text(body, 0, faults)
    raise BadMagic(
        "the compressed data is no bundle",
        format=FORMAT,
        offset=0,
        field="magic",
        expected=MAGIC.decode(),
        found=repr(body.head(0, 24))[1:],
        chain=body.chain,
    )
