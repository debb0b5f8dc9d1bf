"""Images that are listed and cannot be taken out: which one, where, and why. Each is left out alone.

What is damaged, and what this version cannot do, takes nothing away from its neighbours: extracting and converting
leave it out, report it, and do the rest.
"""

from __future__ import annotations

from fatpack.errors import FormatError, HostError, Unsupported
from fatpack.findings import code_for_error, finding
from fatpack.io.source import View
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from fatpack.io.source import Piece, Span
    from fatpack.model import Finding

#: What keeps one image from being taken out, and no other.
PER_IMAGE_ERRORS = (FormatError, HostError, Unsupported)


class UnreadableImage(Record):
    """An image that was left out: in words which one, where it lies, and the error that says why."""

    what: str
    span: Span
    error: FormatError | HostError | Unsupported

    @property
    def finding(self) -> Finding:
        """What to report: damage where the error says it is, or what this version cannot do with the image."""
        error, span = self.error, self.span
        if not isinstance(error, FormatError):
            return finding("FP1008", span, f"{self.what}: {error.problem}", error.hint)
        if error.offset is not None and error.chain == span.source:
            span = span.replace(start=error.offset, end=max(span.end, error.offset))
        return finding(
            code_for_error("FP1001", error), span, f"{self.what}: {error.describe()}", error.hint, field=error.field
        )


def read_error(pieces: Iterable[Piece]) -> FormatError | HostError | Unsupported | None:
    """Return the error that keeps some of the pieces from being read, None if all of them can be."""
    try:
        for piece in pieces:
            if isinstance(piece, View):
                for _ in piece.source.once(piece.start, len(piece)):
                    pass
    except PER_IMAGE_ERRORS as error:
        return error
    return None
