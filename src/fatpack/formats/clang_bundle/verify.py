"""What only the whole content of a compressed bundle can tell, and its table cannot: the hash, and stray bytes."""

from __future__ import annotations

from fatpack.codecs import inflate_pieces
from fatpack.formats.clang_bundle.byte_labels import find_gaps, note_stray_bytes
from fatpack.formats.clang_bundle.clang_bundle_stored import BinaryBundle, CompressedBundle
from fatpack.formats.clang_bundle.compressed import check_hash
from fatpack.formats.clang_bundle.digest import new_digest
from fatpack.formats.clang_bundle.layout import BUNDLE_FORMAT
from fatpack.formats.clang_bundle.stream_end import find_stream_end
from fatpack.formats.diagnostics import FindingCollector

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.model import Container, Finding


def is_hashed(container: Container) -> bool:
    """Return whether a hash of its content is stored: in all compressed bundles."""
    return isinstance(container.record, CompressedBundle)


def is_unchecked(container: Container) -> bool:
    """Return whether a container is a compressed bundle whose content was too large to be checked when it was read."""
    record = container.record
    return isinstance(record, CompressedBundle) and record.inside.stored.source.is_streamed


def verify(container: Container) -> list[Finding]:
    """Return what is wrong with the content of an unchecked container; nothing for any other.

    Inflates everything, in bounded memory, and shares nothing with other readers of the container but the file: it may
    run in a thread of its own. Raises FormatError for a damaged stream.
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
    if record.method == "zlib":  # where that ends only inflating tells, too
        _tail(record, faults)
    for start, end, owner in stray_bytes.found:
        note_stray_bytes(inside.stored, start, end, owner, faults)
    check_hash(record.stored, record.version, record.hash, digest.digest(), faults)
    return faults.findings


def _tail(record: CompressedBundle, faults: FindingCollector) -> None:
    """Note bytes behind a stream that its container counts as a part of it."""
    end = find_stream_end(record.stream, record.method)
    tail = None if end is None else record.stream.slice(end, len(record.stream) - end)
    if tail is not None and not tail.is_zero():
        faults.unexpected("FP1308", tail.span(), f"{len(tail)} bytes after the compressed data belong to nothing")


class _StrayBytes:
    """Finds the gaps that are not zero in content that passes by in pieces."""

    def __init__(self, places: Iterator[tuple[int, int, str]]) -> None:
        self.found: list[tuple[int, int, str]] = []
        self._places = places
        self._gap = next(places, None)
        self._at = 0

    def look(self, piece: bytes) -> None:
        """Look at the next piece of the content."""
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
