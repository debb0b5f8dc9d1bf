"""The files of a tar archive: ranges of a plain one, read from the stream of a compressed one."""

from __future__ import annotations

import tarfile
from bisect import bisect_right

from fatpack import limits
from fatpack.errors import BadValue, FatpackError, FormatError, LimitExceeded, Truncated, pluralize
from fatpack.findings import code_for_error, finding
from fatpack.io.source import Span, VirtualName, join_read_pieces
from fatpack.packages import MemberSource, PackageMember
from fatpack.packages.members import StreamMemberOpener, SubRangeSource
from fatpack.packages.names import NameChecker, detect_compression, without_dot_prefix
from fatpack.packages.streams import ForwardStream, InflatedStream
from fatpack.packages.tar.reader import BLOCK, FORMAT, ForwardTarFile, SeekableTarFile, TarHeaders, is_header

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    from fatpack.io.source import Source, View
    from fatpack.model import Finding


# Sparse files.

#: Zeros for holes.
_ZEROS = bytes(64 << 10)


class SparseMember(MemberSource):
    """``size`` bytes: zeros except ``parts``, each (offset, size), which ``stored`` has one after the other.

    The parts are in order and do not overlap. ``stored`` is closed with this.
    """

    is_sparse = True

    def __init__(self, stored: Source, parts: Sequence[tuple[int, int]], size: int, name: str) -> None:
        self.name = name
        self.size = size
        self.present = stored.present
        self.budget = stored.budget
        self._stored = stored
        self._starts = [start for start, _ in parts]
        self._sizes = [length for _, length in parts]
        self._places = []
        place = 0
        for length in self._sizes:
            self._places.append(place)
            place += length

    @property
    def is_concurrent(self) -> bool:  # type: ignore[override]
        """True if several threads may read at once."""
        return self._stored.is_concurrent

    def check(self) -> None:
        """Check the stored parts. Raises FormatError."""
        self._stored.check()

    def read(self, offset: int, size: int) -> bytes:
        """Return ``size`` bytes at ``offset``."""
        return join_read_pieces(self.pieces(offset, size))

    def pieces(self, offset: int, size: int) -> Iterator[memoryview]:
        """Yield the range in stored pieces, with zeros between them."""
        end = offset + size
        while offset < end:
            start, stop, place = self._part(offset)
            stop = min(stop, end)
            if place is None:
                while offset < stop:
                    part = memoryview(_ZEROS)[: stop - offset]
                    yield part
                    offset += len(part)
            else:
                yield from self._stored.pieces(place + offset - start, stop - offset)
                offset = stop

    def skip_hole(self, start: int, end: int) -> int:
        """Return the first offset from ``start`` on that may have a byte other than zero, at most ``end``."""
        while start < end:
            _, stop, place = self._part(start)
            if place is not None:
                break
            start = stop
        return min(start, end)

    def _part(self, offset: int) -> tuple[int, int, int | None]:
        """Return start and end of the part or hole at an offset, and the stored offset of a part."""
        number = bisect_right(self._starts, offset) - 1
        start = 0
        if number >= 0:
            start = self._starts[number] + self._sizes[number]
            if offset < start:
                return self._starts[number], start, self._places[number]
        stop = self._starts[number + 1] if number + 1 < len(self._starts) else self.size
        return start, stop, None

    def close(self) -> None:
        """Close the source of the parts."""
        super().close()
        self._stored.close()


def are_parts_sound(parts: Sequence[tuple[int, int]], size: int, stored: int) -> bool:
    """Return whether parts are in order, inside ``size`` bytes, and ``stored`` bytes in total."""
    end = total = 0
    for start, length in parts:
        if length < 0 or start < end or start + length > size:
            return False
        end = start + length
        total += length
    return total == stored and len(parts) <= limits.SECTIONS


def members(view: View) -> Iterator[PackageMember | Finding]:
    """Yield the members; see :func:`fatpack.packages.tar.members`."""
    method = detect_compression(view)
    archive = _PlainArchive(view) if method is None else _StreamedArchive(view, method)
    yield from _listed(archive)


#: prefix of an empty file that removes another from lower layers (OCI image-spec 1.1, layer.md)
_WHITEOUT = ".wh."


def _listed(archive: _PlainArchive | _StreamedArchive) -> Iterator[PackageMember | Finding]:
    names, number = NameChecker(), 0
    removed: list[str] = []
    count = 0
    headers = TarHeaders(archive.file, archive.where)
    data_end, is_padded = 0, True
    try:
        for header in headers:
            data_end = header.offset_data + _stored_size(header, headers.next_at - header.offset_data)
            span = archive.span(header.offset)
            room = headers.next_at - header.offset_data
            name = without_dot_prefix(header.name)
            if header.issym() or header.islnk():
                yield from names.link(name, header.linkname, span, is_hard=header.islnk())
            elif header.isreg() and not header.size and name.rpartition("/")[2].startswith(_WHITEOUT):
                count += 1
                removed += [name] if len(removed) < _SHOWN else []
            elif header.isfile() or header.type not in tarfile.SUPPORTED_TYPES:
                findings = names.check(name, span)
                if header.type not in tarfile.SUPPORTED_TYPES:
                    text = f"file {name!r} is of kind {header.type.decode('latin-1')!r}, which only its writer knows"
                    findings = (*findings, finding("FP1709", span, text, field="kind"))
                size = int(header.size)
                yield PackageMember(
                    name, number, size, archive.opening(header, name, room), archive.is_lasting, findings
                )
                archive.leave()
                number += 1
    except FormatError as error:
        if not (isinstance(error, Truncated) and data_end <= archive.size < headers.next_at):
            yield _damage(archive, error, headers.next_at, number)
            return
        # umoci 0.4.7 pads the last file to no block and writes no end; all that pull images take its layers.
        is_padded = False
    try:
        if is_padded:
            yield from _end(archive, headers, number)
        else:
            yield finding("FP1712", archive.span(data_end), _NO_END)
            yield from archive.findings
        if removed:
            more = f" and {count - len(removed)} more" if count > len(removed) else ""
            text = f"this layer removes {', '.join(map(_shown, removed))}{more} from those below, which are listed too"
            yield finding("FP1711", archive.span(0), text)
    except FormatError as error:
        yield _damage(archive, error, headers.next_at, number)


_NO_END = "the archive ends without blocks of zeros: it may be cut short between two files"

#: names of removed files that are shown
_SHOWN = 5


def _shown(whiteout: str) -> str:
    """Return the removed file of a whiteout, or the folder that it empties (``.wh..wh..opq``)."""
    folder, slash, name = whiteout.rpartition("/")
    name = name.removeprefix(_WHITEOUT)
    return f"all of {folder or '.'!r}" if name.startswith(_WHITEOUT) else repr(f"{folder}{slash}{name}")


def _damage(archive: _PlainArchive | _StreamedArchive, error: FormatError, offset: int, count: int) -> Finding:
    text = f"{error.describe()}; {pluralize(count, 'file')} before it"
    return finding(code_for_error("FP1701", error), archive.span(offset), text, error.hint, field=error.field)


class _PlainArchive:
    """A plain archive: files are ranges of it."""

    is_lasting = True

    def __init__(self, view: View) -> None:
        self._view = view
        self.file = SeekableTarFile(view)

    @property
    def size(self) -> int:
        """The bytes of the archive."""
        return len(self._view)

    def where(self, offset: int) -> tuple[int, tuple[str, ...]]:
        """Return the offset and the chain of names of a position, for errors."""
        return self._view.offset(offset), self._view.chain

    def span(self, offset: int) -> Span:
        """Return the span of the header at a position."""
        return self._view.span(offset, min(BLOCK, max(0, len(self._view) - offset)))

    def opening(self, header: tarfile.TarInfo, name: str, room: int) -> Callable[[], MemberSource]:
        """Return the opener of a file that has ``room`` bytes of the archive."""
        view, start, size = self._view, header.offset_data, int(header.size)
        parts = _parts(header)
        stored = _stored(size, parts, room)

        def opened() -> MemberSource:
            if start + stored > len(view):
                field = f"file {name}"
                raise Truncated(
                    needed=stored,
                    left=len(view) - start,
                    format=FORMAT,
                    offset=view.offset(start),
                    field=field,
                    chain=view.chain,
                )
            source = SubRangeSource(view.slice(start, stored), _path(view, name))
            return source if parts is None else _sparse(source, parts, size, view, start)

        return opened

    def leave(self) -> None:
        """Do nothing: files stay readable."""

    def rest(self, at: int) -> tuple[int, int, bytes]:
        """Return the first non-zero byte's position from ``at`` on, the end, and the first bytes there."""
        view = self._view
        start = view.skip_zeros(min(at, len(view)))
        return start, len(view), view.head(start, BLOCK)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """No findings: it is not compressed."""
        return ()


class _StreamedArchive:
    """A compressed archive, read as a stream: a file must be opened before the next is requested."""

    is_lasting = False

    def __init__(self, view: View, method: str) -> None:
        self._view = view
        self._stream = InflatedStream(view, method, format=FORMAT)
        self._forward = ForwardStream(self._stream())
        self.file = ForwardTarFile(self._forward)
        self._chain = (*view.chain, VirtualName(f"{method} data"))
        self._opener: StreamMemberOpener | None = None

    @property
    def size(self) -> int:
        """The inflated bytes: all of them after a search for a header past the end."""
        return self._forward.at

    def where(self, offset: int) -> tuple[int, tuple[str, ...]]:
        """Return the offset and the chain of names of a position, for errors."""
        return offset, self._chain

    def span(self, offset: int) -> Span:
        """Return the span of the header at a position in what was inflated."""
        return Span(offset, offset + BLOCK, self._chain)

    def opening(self, header: tarfile.TarInfo, name: str, room: int) -> Callable[[], MemberSource]:
        """Return the opener of a file that has ``room`` bytes of the archive; it works until the next is requested."""
        view, start, size = self._view, header.offset_data, int(header.size)
        parts = _parts(header)
        opener = StreamMemberOpener(self._forward, start, _stored(size, parts, room), _path(view, name), view)
        self._opener = opener
        return opener if parts is None else lambda: _sparse(opener(), parts, size, view, start)

    def leave(self) -> None:
        """Buffer the last file if it is open, and skip the rest. Raises FormatError."""
        if self._opener is not None:
            self._opener.leave()
            self._opener = None

    def rest(self, at: int) -> tuple[int, int, bytes]:
        """Return the first non-zero byte's position from ``at`` on, the end, and the first bytes there."""
        forward, start, first = self._forward, None, b""
        forward.skip_to(at)
        while piece := forward.take(limits.CHUNK):
            if start is None and (stripped := bytes(piece).lstrip(b"\0")):
                start, first = forward.at - len(stripped), stripped[:BLOCK]
        return forward.at if start is None else start, forward.at, first

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Findings about the compressed stream and the bytes after it, complete once all of it was read."""
        return self._stream.findings


def _end(archive: _PlainArchive | _StreamedArchive, headers: TarHeaders, count: int) -> Iterator[Finding]:
    """Yield findings about the end: an invalid header or nothing in place of zeros; data after the zeros."""
    at, block = headers.next_at, headers.last
    if block.strip(b"\0"):
        text = "the header does not add up to its checksum"
        if len(block) < BLOCK:
            text = f"the header has {len(block)} of {BLOCK} bytes: the file looks cut short"
        text += f"; {pluralize(count, 'file')} before it"
        yield finding("FP1701", archive.span(at), text, "get the file again", field="header")
        return
    if len(block) < BLOCK:
        yield finding("FP1712", archive.span(at), _NO_END)
    start, end, first = archive.rest(at)
    if start < end:
        text = f"{end - start} bytes after the end of the archive are not read"
        if is_header(first):
            text += ": another archive"
        yield finding("FP1706", archive.span(start), text)
    yield from archive.findings


def _path(view: View, name: str) -> str:
    return f"{view.chain[-1] if view.chain else view.source.name}!{name}"


def _parts(header: tarfile.TarInfo) -> list[tuple[int, int]] | None:
    """Return the stored parts of a sparse file, (offset, size) each."""
    sparse: Any = header.sparse
    return None if sparse is None else [(offset, size) for offset, size in sparse if size]


def _stored_size(header: tarfile.TarInfo, room: int) -> int:
    """Return how many bytes of the archive a header's data takes, without padding."""
    has_data = header.isreg() or header.type not in tarfile.SUPPORTED_TYPES  # as tarfile's _proc_builtin
    return _stored(int(header.size), _parts(header), room) if has_data else 0


def _stored(size: int, parts: list[tuple[int, int]] | None, room: int) -> int:
    """Return the number of a file's bytes in the archive."""
    return size if parts is None else min(max(0, sum(length for _, length in parts)), max(0, room))


def _sparse(stored: MemberSource, parts: list[tuple[int, int]], size: int, view: View, start: int) -> MemberSource:
    """Return a file with holes. Raises BadValue for an invalid map, LimitExceeded for holes beyond the budget."""
    problem: FatpackError | None = None
    if not are_parts_sound(parts, size, stored.size):
        problem = BadValue(
            "the parts of a sparse file overlap, or lie outside of it",
            format=FORMAT,
            offset=view.offset(0),
            field=stored.name,
            expected=f"parts in order, within {size} bytes",
            hint="get the file again",
            chain=view.chain,
        )
    elif not view.source.charge(view.start + start, size):
        problem = LimitExceeded(
            f"a sparse file of {size} bytes",
            format=FORMAT,
            offset=view.offset(0),
            field=stored.name,
            expected=f"at most {view.source.budget.inflatable} for all that a command inflates",
            hint=limits.inflated_hint(size),
            chain=view.chain,
        )
    if problem is not None:
        stored.close()
        raise problem
    return SparseMember(stored, parts, size, stored.name)
