"""The files of an RPM package, taken from its payload as it goes by."""

from __future__ import annotations

from fatpack.errors import FormatError, counted
from fatpack.findings import finding, unread
from fatpack.io.source import Derived, Span
from fatpack.packages import Member
from fatpack.packages.compression import method_of
from fatpack.packages.forward import Forward
from fatpack.packages.names import Names, plain
from fatpack.packages.rpm.cpio import entries
from fatpack.packages.rpm.header import Header, payload
from fatpack.packages.rpm.layout import CPIO, FORMAT
from fatpack.packages.streams import Stream
from fatpack.packages.taken import Taken

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.io.source import View
    from fatpack.model import Finding


def members(view: View) -> Iterator[Member | Finding]:
    """Yield what the door does."""
    try:
        header, start = payload(view)
    except FormatError as error:
        at = 0 if error.offset is None else min(max(error.offset - view.start, 0), len(view))
        yield finding(unread("FP1701", error), view.span(at), error.describe(), error.hint, field=error.field)
        return
    yield from _listed(view, header, view.slice(start, len(view) - start))


def _listed(view: View, header: Header, data: View) -> Iterator[Member | Finding]:
    method = method_of(data)
    stream = None if method is None else Stream(data, method, format=FORMAT, field="payload")
    forward = Forward(data.pieces() if stream is None else stream())
    chain = (*view.chain, Derived("payload"))
    outer = view.chain[-1] if view.chain else view.source.name
    names, number = Names(), 0
    try:
        for entry in entries(forward, header.files, chain):
            span = Span(entry.at, entry.at + CPIO.size, chain)
            name = plain(entry.name)
            if entry.target is not None:
                yield from names.link(name, entry.target, span)
            elif entry.is_file:
                taken = Taken(forward, entry.start, entry.size, f"{outer}!{name}", view)
                findings = names.check(name, span)
                yield Member(name, number, entry.size, taken, is_lasting=False, findings=findings)
                taken.leave()
                number += 1
        while forward.take(1 << 20):
            pass  # what is padded behind the end; the stream may say more there
        yield from stream.findings if stream is not None else ()
    except FormatError as error:
        text = f"{error.describe()}; {counted(number, 'file')} before it"
        span = Span(forward.at, forward.at, chain)
        yield finding(unread("FP1701", error), span, text, error.hint, field=error.field)
