"""The files of an RPM package, taken from its payload as it goes by."""

from __future__ import annotations

from fatpack.errors import FormatError, pluralize
from fatpack.findings import code_for_error, finding
from fatpack.io.source import Span, VirtualName
from fatpack.packages import PackageMember
from fatpack.packages.compression import detect_compression
from fatpack.packages.forward import ForwardStream
from fatpack.packages.names import NameChecker, without_dot_prefix
from fatpack.packages.rpm.files import read_cpio_entries
from fatpack.packages.rpm.header import RpmHeader, find_payload
from fatpack.packages.rpm.layout import CPIO, FORMAT
from fatpack.packages.streams import InflatedStream
from fatpack.packages.taken import StreamMemberOpener

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.io.source import View
    from fatpack.model import Finding


def members(view: View) -> Iterator[PackageMember | Finding]:
    """Yield what the door does."""
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
            pass  # what is padded behind the end; the stream may say more there
        yield from stream.findings if stream is not None else ()
    except FormatError as error:
        text = f"{error.describe()}; {pluralize(number, 'file')} before it"
        span = Span(forward.at, forward.at, chain)
        yield finding(code_for_error("FP1701", error), span, text, error.hint, field=error.field)
