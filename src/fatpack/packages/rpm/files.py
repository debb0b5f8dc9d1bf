"""The cpio archive in an RPM package, read forwards: "new ASCII" headers, and headers with file numbers."""

from __future__ import annotations

from fatpack.errors import BadMagic, BadValue, FormatError, Truncated, pluralize
from fatpack.findings import code_for_error, finding
from fatpack.io.source import Span, VirtualName
from fatpack.packages import PackageMember
from fatpack.packages.members import StreamMemberOpener
from fatpack.packages.names import NameChecker, detect_compression, without_dot_prefix
from fatpack.packages.rpm.header import CPIO, FORMAT, STRIPPED, STRIPPED_SIZE, RpmHeader, find_payload
from fatpack.packages.streams import ForwardStream, InflatedStream
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from fatpack.io.source import View
    from fatpack.model import Finding
    from fatpack.packages.rpm.header import RpmFile


#: name of the last entry
_TRAILER = b"TRAILER!!!"

#: LIMIT: bytes of one name or target, the longest path of common systems, and its NUL.
_NAME = 4097

_KIND, _FILE, _LINK = 0o170000, 0o100000, 0o120000
_SUMMED, _PLAIN = b"070702", b"070701"


class CpioEntry(Record):
    """One entry: ``at`` is the offset of its header in the inflated payload, ``start`` that of its bytes."""

    name: str
    at: int
    start: int
    size: int
    is_file: bool
    #: target of a symbolic link, else None
    target: str | None


def read_cpio_entries(
    forward: ForwardStream, files: Callable[[], Sequence[RpmFile]], chain: tuple[str, ...]
) -> Iterator[CpioEntry]:
    """Yield every entry up to the trailer; ``files`` returns those of the package's header.

    Unread bytes of an entry are skipped when the next is requested. Raises FormatError.
    """
    reader = _CpioReader(forward, chain)
    known: Sequence[RpmFile] | None = None
    while True:
        at = forward.at
        magic = reader.read(6, at, "magic")
        if magic == STRIPPED:
            known = files() if known is None else known
            entry: CpioEntry | None = reader.stripped(at, known)
        elif magic in (_PLAIN, _SUMMED):
            entry = reader.full(at, magic)
        else:
            raise BadMagic(
                "the cpio archive has no header here",
                format=FORMAT,
                offset=at,
                field="cpio header: magic",
                expected=f"{_PLAIN.decode()}, {_SUMMED.decode()} or {STRIPPED.decode()}",
                found=repr(magic)[1:],
                hint="get the file again",
                chain=chain,
            )
        if entry is None:
            return
        yield entry
        end = entry.start + entry.size
        forward.skip_to(_padded(end))
        if forward.at < end:
            raise reader.cut(end - forward.at, 0, forward.at, entry.name)


def _padded(at: int) -> int:
    return -(-at // 4) * 4


class _CpioReader:
    """Reads headers in order."""

    def __init__(self, forward: ForwardStream, chain: tuple[str, ...]) -> None:
        self._forward = forward
        self._chain = chain

    def cut(self, needed: int, left: int, at: int, field: str) -> Truncated:
        """Return the error for an archive that ends early."""
        return Truncated(needed=needed, left=left, format=FORMAT, offset=at, field=field, chain=self._chain)

    def read(self, size: int, at: int, field: str) -> bytes:
        """Return the next bytes. Raises Truncated."""
        data = self._forward.read(size)
        if len(data) < size:
            raise self.cut(size, len(data), at, f"cpio header: {field}")
        return data

    def full(self, at: int, magic: bytes) -> CpioEntry | None:
        """Return the entry of a full header, None for the trailer."""
        fields = CPIO.struct.unpack(magic + self.read(CPIO.size - 6, at, "fields"))
        try:
            _, _, mode, _, _, links, _, size, _, _, _, _, name_size, _ = (int(field, 16) for field in fields)
        except ValueError as error:
            raise self._wrong(at, "fields", "a number that is none", "hexadecimal digits", repr(fields)) from error
        if not 1 <= name_size <= _NAME:
            raise self._wrong(at, "name_size", "no name is so long", f"1 to {_NAME}", str(name_size))
        name = self.read(name_size, at, "name")[:-1]
        self._forward.skip_to(_padded(at + CPIO.size + name_size))
        if name == _TRAILER:
            return None
        is_linked = links > 1 and not size
        return self._entry(name.decode("utf-8", "surrogateescape"), at, mode, size, is_linked)

    def stripped(self, at: int, files: Sequence[RpmFile]) -> CpioEntry:
        """Return the entry of a header that only has a file's number."""
        digits = self.read(STRIPPED_SIZE - 6, at, "number")[:8]
        try:
            number = int(digits, 16)
        except ValueError as error:
            raise self._wrong(at, "number", "a number that is none", "hexadecimal digits", repr(digits)) from error
        if not 0 <= number < len(files):
            raise self._wrong(at, "number", "the package has no such file", f"less than {len(files)}", str(number))
        file = files[number]
        is_file = file.mode & _KIND in (_FILE, _LINK)
        size = file.size if is_file and not file.is_linked else 0
        return self._entry(file.name, at, file.mode, size, file.is_linked)

    def _entry(self, name: str, at: int, mode: int, size: int, is_linked: bool) -> CpioEntry:
        start = self._forward.at
        kind = mode & _KIND
        target = None
        if kind == _LINK:
            if size > _NAME:
                raise self._wrong(at, "size", "no target of a link is so long", f"at most {_NAME}", str(size))
            target = self.read(size, start, "target").decode("utf-8", "surrogateescape")
        return CpioEntry(name, at, start, size, kind == _FILE and not is_linked, target)

    def _wrong(self, at: int, field: str, problem: str, expected: str, found: str) -> BadValue:
        return BadValue(
            problem,
            format=FORMAT,
            offset=at,
            field=f"cpio header: {field}",
            expected=expected,
            found=found,
            hint="get the file again",
            chain=self._chain,
        )


# The files of an RPM package, read from its payload as a stream.


def members(view: View) -> Iterator[PackageMember | Finding]:
    """Yield the members; see :func:`fatpack.packages.rpm.members`."""
    try:
        header, start = find_payload(view)
    except FormatError as error:
        at = 0 if error.offset is None else min(max(error.offset - view.start, 0), len(view))
        yield finding(code_for_error("FP1701", error), view.span(at), error.describe(), error.hint, field=error.field)
        return
    yield from _listed(view, header, view.slice(start, len(view) - start))


def _listed(view: View, header: RpmHeader, data: View) -> Iterator[PackageMember | Finding]:
    method = detect_compression(data)
    stream = None if method is None else InflatedStream(data, method, format=FORMAT, field="payload")
    forward = ForwardStream(data.pieces() if stream is None else stream())
    chain = (*view.chain, VirtualName("payload"))
    outer = view.chain[-1] if view.chain else view.source.name
    names, number = NameChecker(), 0
    try:
        for entry in read_cpio_entries(forward, header.files, chain):
            span = Span(entry.at, entry.at + CPIO.size, chain)
            name = without_dot_prefix(entry.name)
            if entry.target is not None:
                yield from names.link(name, entry.target, span)
            elif entry.is_file:
                taken = StreamMemberOpener(forward, entry.start, entry.size, f"{outer}!{name}", view)
                findings = names.check(name, span)
                yield PackageMember(name, number, entry.size, taken, is_lasting=False, findings=findings)
                taken.leave()
                number += 1
        while forward.take(1 << 20):
            pass  # padding after the end; reading it may raise an error of the stream
        yield from stream.findings if stream is not None else ()
    except FormatError as error:
        text = f"{error.describe()}; {pluralize(number, 'file')} before it"
        span = Span(forward.at, forward.at, chain)
        yield finding(code_for_error("FP1701", error), span, text, error.hint, field=error.field)
