"""Reader of any LLVM offload binary; ``fast_path`` reads regular ones.

LLVM 22 checks the buffer, the header and two offsets, and crashes on the rest (image size, string counts, string
offsets). Every range is checked here before it is used, with exact integers, so counts of 2**63
are simply out of range.
"""

from __future__ import annotations

from fatpack import limits, magic_numbers
from fatpack.errors import FormatError, LimitExceeded, Unsupported, format_hex
from fatpack.findings import finding
from fatpack.formats.diagnostics import ErrorFactory
from fatpack.formats.offload_binary.byte_labels import check_places, keep_unknown
from fatpack.formats.offload_binary.layout import (
    FLAG_METADATA_ONLY,
    FORMS,
    MAGIC,
    OFFLOAD_BINARY_FORMAT,
    VERSIONS,
    OffloadBinaryEntry,
    OffloadBinaryHeader,
    decode_offload,
    layouts_for_order,
)
from fatpack.io.source import Span, View, VirtualName
from fatpack.model import Container, Finding, Image, Target

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.formats.offload_binary.layout import OffloadBinaryLayouts
    from fatpack.layout import ByteOrder


_errors = ErrorFactory(OFFLOAD_BINARY_FORMAT)
_fault = _errors.value


def extent(view: View, at: int) -> int | None:
    """Return how many bytes the binary at ``at`` takes by its header, or None if that cannot be right."""
    try:
        _, header = _read_prefix(view, at)
    except (FormatError, Unsupported):
        return None
    return header["size"]


def parse(view: View, at: int) -> Container:
    """Return the binary that starts at ``at``. Images are spans of the view; only compressed ones are copied.

    Raises BadMagic, Unsupported (a version above 3), Truncated, BadValue, LimitExceeded; offsets are absolute.
    """
    header = _read_header(view, at)
    tables = layouts_for_order(header.order)
    span = Span(view.offset(at), view.offset(at) + header.size, view.chain)
    findings: list[Finding] = []
    if header.order == "big":
        findings.append(finding("FP1206", span, "big-endian binary"))
    if header.size % 8 and not header.inflated_size:
        findings.append(finding("FP1202", span, f"size {header.size} is no multiple of 8"))

    entries = _read_entries(header, tables)
    strings = _Strings(header, tables)
    images = []
    for number, values in enumerate(entries):
        images.append(_read_image(header, tables, strings, number, values, findings))

    gaps = check_places(header, tables, images, strings.ranges(), findings)
    if header.body.source.is_streamed:
        # A program has hundreds of binaries, and an open stream has a window and tables.
        header.body.source.release_buffers()
    return Container(
        format=OFFLOAD_BINARY_FORMAT,
        version=header.version,
        images=tuple(images),
        span=span,
        attrs={"compression": header.compression} if header.compression else {},
        unknown=tuple(gap.span() for gap in gaps),
        findings=tuple(findings),
        record=keep_unknown(header, tables, gaps),
    )


def _read_prefix(view: View, at: int) -> tuple[ByteOrder, dict[str, int]]:
    """Return the byte order and the header's fields by name; version and size are checked against the bytes present."""
    head = view.head(at, 8)
    if not head or not MAGIC.startswith(head[:4]):
        raise _errors.magic(view, at, "not an offload binary", MAGIC.hex(" "))
    if len(head) < 8:
        raise _errors.cut(view, at, "header", 32)
    little, big = int.from_bytes(head[4:], "little"), int.from_bytes(head[4:], "big")
    # QUIRK(LLVM on s390x, sparc): producers write host byte order and no marker; it is the order that gives a version
    # from 1 to 3.
    order: ByteOrder = "big" if little not in VERSIONS and big in VERSIONS else "little"
    version = big if order == "big" else little
    if version not in VERSIONS:
        raise _errors.unsupported(view, at, f"version {version}", "fatpack reads 1, 2 and 3")
    tables = layouts_for_order(order)
    layout, entry_size = tables.header[version], tables.entry.size
    header = layout.named(view, at)
    size = header["size"]
    size_at = at + layout.field_offset("size")
    if size > len(view) - at:
        raise _fault(
            view,
            size_at,
            "size",
            f"{format_hex(size)} is past the end",
            f"at most {format_hex(len(view) - at)}",
            "the file looks cut short",
        )
    least = layout.size + (entry_size if version == 1 else 0)
    if size < least:
        raise _fault(view, size_at, "size", f"{size} cannot hold header and entry", f"at least {least}")
    return order, header


def _read_header(view: View, at: int) -> OffloadBinaryHeader:
    order, fields = _read_prefix(view, at)
    version, size = fields["version"], fields["size"]
    # Version 1 has a size in place of the count; LLVM 22 accepts 0 and 39 there.
    header = OffloadBinaryHeader(
        version, order, size, fields["entry_offset"], fields.get("entry_count", 1), view.slice(at, size)
    )
    inflated_size = fields.get("inflated_size", 0)
    return _inflate(header, layouts_for_order(order).header[version].size, inflated_size) if inflated_size else header


def _inflate(header: OffloadBinaryHeader, header_size: int, inflated_size: int) -> OffloadBinaryHeader:
    """Return the header of a compressed v3 binary, with the whole inflated binary as its body."""
    from fatpack.io.inflated import InflatedSource, PicklableCall, StreamedSource

    stored = header.body
    if header.entry_offset != header_size:
        raise _fault(stored, 16, "entry_offset", f"{header.entry_offset} in a compressed binary", str(header_size))
    if inflated_size < header_size:
        raise _fault(stored, 32, "inflated_size", f"{inflated_size} is less than the header", f"at least {header_size}")
    data = stored.slice(header_size, len(stored) - header_size)
    most = stored.source.budget.inflatable
    if inflated_size > most:
        claim, expected = f"{len(data)} bytes claim to inflate to {inflated_size}", f"at most {most}"
        raise _errors.limit(stored, 32, "inflated_size", claim, expected, limits.inflated_hint(inflated_size))
    method = "zstd" if data.head(0, 4) == magic_numbers.ZSTD else "zlib"
    name = VirtualName(f"inflated {method} at {format_hex(stored.start)}")
    present = min(len(data), data.source.present)
    stream = PicklableCall(_pieces, stored, method, header_size, inflated_size)
    source: InflatedSource
    # Its tables are at the beginning, and the images are inflated on demand.
    if inflated_size > limits.INFLATED_AT_ONCE:
        source = StreamedSource(inflated_size, stream, name, present=present, origin=data.source)
    else:
        inflate = PicklableCall(_inflated, stored, method, header_size, inflated_size)
        source = InflatedSource(inflated_size, inflate, name, present=present, origin=data.source, data=inflate())
    body = View(source, 0, inflated_size, (*stored.chain, name))
    return header.replace(body=body, inflated_size=inflated_size, compression=method)


def _pieces(stored: View, method: str, header_size: int, inflated_size: int) -> Iterator[bytes]:
    """Yield the inflated binary, after the header of the compressed one."""
    from fatpack.codecs import inflate_pieces

    data = stored.slice(header_size, len(stored) - header_size)
    yield stored.read(0, header_size)
    yield from inflate_pieces(data, method, inflated_size - header_size, format=OFFLOAD_BINARY_FORMAT)


def _inflated(stored: View, method: str, header_size: int, inflated_size: int) -> bytes:
    """Return what :func:`_pieces` yields."""
    return b"".join(_pieces(stored, method, header_size, inflated_size))


def _read_entries(header: OffloadBinaryHeader, tables: OffloadBinaryLayouts) -> list[tuple[int, ...]]:
    body, entry = header.body, tables.entry
    if header.entry_count > limits.IMAGES:
        at = tables.header[header.version].field_offset("entry_offset")
        problem, most = f"{header.entry_count} entries", f"at most {limits.IMAGES}"
        raise _errors.limit(body, at, "entry table", problem, most, limits.advice("IMAGES"))
    end = header.entry_offset + header.entry_count * entry.size
    if end > len(body):
        raise _fault(
            body,
            tables.header[header.version].field_offset("entry_offset"),
            "entry table",
            f"{header.entry_count} entries at {format_hex(header.entry_offset)} do not fit",
            f"at most {format_hex(len(body))}",
        )
    return list(entry.struct.iter_unpack(body.read(header.entry_offset, end - header.entry_offset)))


class _Strings:
    """Reads string entries; equal ranges are decoded once, and the total of decoded bytes is limited.

    LIMIT: entries may share and overlap string entries and strings, so a file of n bytes could ask for n*n. The
    number of string entries is bounded by what fits into the binary, the decoded bytes by limits.STRING_RATIO.
    """

    def __init__(self, header: OffloadBinaryHeader, tables: OffloadBinaryLayouts) -> None:
        self.body = header.body
        self.layout = tables.strings[header.version]
        self.sized = header.version > 1
        self.count_left = len(self.body) // self.layout.size
        self.bytes_left = max(limits.STRING_FLOOR, limits.STRING_RATIO * len(self.body))
        self.known: dict[tuple[int, int], bytes] = {}

    def read(self, at: int, count: int, entry: str) -> tuple[tuple[bytes, bytes], ...]:
        body, size = self.body, self.layout.size
        if count == 0:
            return ()
        if at + count * size > len(body):
            raise _fault(
                body,
                min(at, len(body)),
                f"{entry} string entries",
                f"{count} entries at {format_hex(at)} are past the end",
                f"at most {format_hex(len(body))}",
            )
        self.count_left -= count
        if self.count_left < 0:
            raise self._too_much(at, f"{entry} string entries", "the entries share more string entries than can fit")
        pairs = []
        for index, values in enumerate(self.layout.struct.iter_unpack(body.read(at, count * size))):
            name = f"{entry} string[{index}]"
            value = self._sized(values[1], values[2], name) if self.sized else self._until_nul(values[1], name)
            pairs.append((self._until_nul(values[0], name), value))
            # Counted again for the text made of each pair, shared or not.
            self._spend(len(pairs[-1][0]) + len(value), at, name)
        return tuple(pairs)

    def _until_nul(self, at: int, name: str) -> bytes:
        known = self.known.get((at, -1))
        if known is None:
            if at >= len(self.body):
                raise _fault(
                    self.body,
                    len(self.body),
                    name,
                    f"offset {format_hex(at)} is past the end",
                    f"below {format_hex(len(self.body))}",
                )
            parts: list[bytes] = []
            place, step = at, 64
            while True:
                part = self.body.head(place, step)
                nul = part.find(0)
                if nul >= 0:
                    parts.append(part[:nul])
                    break
                if not part:
                    raise _fault(self.body, at, name, "no NUL before the end of the binary")
                self._spend(len(part), at, name)
                parts.append(part)
                place += len(part)
                step = min(2 * step, limits.CHUNK)
            known = self.known[at, -1] = b"".join(parts)
            self._spend(len(parts[-1]), at, name)
        return known

    def _sized(self, at: int, size: int, name: str) -> bytes:
        known = self.known.get((at, size))
        if known is None:
            if at + size > len(self.body):
                raise _fault(
                    self.body,
                    min(at, len(self.body)),
                    name,
                    f"value {format_hex(at)} + {format_hex(size)} is past the end",
                    f"at most {format_hex(len(self.body))}",
                )
            self._spend(size, at, name)
            known = self.known[at, size] = self.body.read(at, size)
        return known

    def ranges(self) -> list[tuple[int, int]]:
        """Return the ranges of the binary that hold strings, each with its NUL, in order."""
        return sorted((at, at + len(known) + 1) for (at, _), known in self.known.items())

    def _spend(self, size: int, at: int, name: str) -> None:
        self.bytes_left -= size
        if self.bytes_left < 0:
            raise self._too_much(at, name, "the strings decode to many times the size of the binary")

    def _too_much(self, at: int, name: str, problem: str) -> LimitExceeded:
        return _errors.limit(self.body, at, name, problem, hint=limits.advice("STRING_RATIO"))


def decode_string(stored: bytes) -> str:
    """Return a stored string as text; bytes that are not UTF-8 survive as surrogates."""
    return stored.decode("utf-8", "surrogateescape")


def _read_image(
    header: OffloadBinaryHeader,
    tables: OffloadBinaryLayouts,
    strings: _Strings,
    number: int,
    values: tuple[int, ...],
    findings: list[Finding],
) -> Image:
    image_kind, offload_kind, flags, string_at, string_count, image_at, size = values
    body, place = header.body, header.entry_offset + number * tables.entry.size
    name = f"entry[{number}]"
    if image_at + size > len(body):
        raise _fault(
            body,
            place + tables.entry.field_offset("image_offset"),
            f"{name} image",
            f"{format_hex(image_at)} + {format_hex(size)} is past the end",
            f"at most {format_hex(len(body))}",
            "the file looks cut short",
        )
    pairs = strings.read(string_at, string_count, name)
    attrs = {
        decode_string(key): decode_string(value) for key, value in pairs
    }  # the last of equal keys counts, as in LLVM
    if len(attrs) != len(pairs):
        findings.append(finding("FP1204", body.span(place, tables.entry.size), f"{name} has a key twice"))
    triple, arch = attrs.pop("triple", ""), attrs.pop("arch", "")
    offload, remark = decode_offload(offload_kind, triple, image_kind)
    if remark:
        findings.append(finding("FP1201", body.span(place, tables.entry.size), f"{name}: offload kind {remark}"))
    data = body.slice(image_at, size)
    return Image(
        target=Target(triple, arch, offload),
        form=FORMS.get(image_kind, "") if not flags & FLAG_METADATA_ONLY else "",
        data=data,
        size=size,
        stored_size=None if header.inflated_size else size,
        span=data.span(),
        compression=header.compression,
        attrs=attrs,
        record=OffloadBinaryEntry(image_kind, offload_kind, flags, pairs, string_at, image_at),
    )
