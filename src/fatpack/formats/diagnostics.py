"""Damage in the bytes of a container: the errors of a format, and findings if the rest can be read."""

from __future__ import annotations

from fatpack import limits
from fatpack.errors import BadMagic, BadValue, LimitExceeded, Truncated, Unsupported, UsageError, format_hex
from fatpack.findings import FindingTally, code_for_error, finding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypedDict

    from fatpack.errors import FormatError
    from fatpack.io.source import Span, View
    from fatpack.model import Finding

    class _ErrorPlace(TypedDict):
        format: str
        offset: int
        chain: tuple[str, ...]


class ErrorFactory:
    """Makes the errors of one format, each at a position of a view, with format, offset and chain."""

    def __init__(self, format: str) -> None:
        self._format = format

    def value(self, view: View, at: int, field: str, problem: str, expected: str = "", hint: str = "") -> BadValue:
        """Return the error for an invalid value of a field."""
        return BadValue(problem, expected=expected, hint=hint, field=field, **self._where(view, at))

    def limit(self, view: View, at: int, field: str, problem: str, expected: str = "", hint: str = "") -> LimitExceeded:
        """Return the error for a field whose value exceeds a limit; ``hint`` tells how to raise it."""
        return LimitExceeded(problem, expected=expected, hint=hint, field=field, **self._where(view, at))

    def cut(self, view: View, at: int, field: str, needed: int) -> Truncated:
        """Return the error for a read of ``needed`` bytes that the view does not have from ``at`` on."""
        return Truncated(needed=needed, left=len(view) - at, field=field, **self._where(view, at))

    def magic(self, view: View, at: int, problem: str, expected: str, found: str = "") -> BadMagic:
        """Return the error for a wrong magic; by default the first four bytes are shown."""
        found = found or view.head(at, 4).hex(" ") or "nothing"
        return BadMagic(problem, expected=expected, found=found, field="magic", **self._where(view, at))

    def unsupported(self, view: View, at: int, what: str, hint: str) -> Unsupported:
        """Return the error for something that this version does not support."""
        return Unsupported(f"{self._format} at {format_hex(view.offset(at))}: {what}", hint=hint, chain=view.chain)

    def _where(self, view: View, at: int) -> _ErrorPlace:
        return {"format": self._format, "offset": view.offset(at), "chain": view.chain}


def not_parsed_error(what: str) -> UsageError:
    """Return the error for asking about stored bytes of an object that was not read from a file."""
    problem = f"this {what} was not read from bytes, so nothing is known of how it is stored"
    return UsageError(problem, hint="write it, and parse what was written")


class FindingCollector:
    """Collects findings; with ``strict`` the first loss of data is raised instead.

    LIMIT: no more than ``limits.FINDINGS`` of a code are kept; the others are counted.
    """

    def __init__(self, strict: bool = False) -> None:
        self._kept: list[Finding] = []
        self._tally = FindingTally(limits.FINDINGS)
        self._strict = strict

    def __bool__(self) -> bool:
        """Return whether there is any finding."""
        return bool(self._kept)

    @property
    def findings(self) -> list[Finding]:
        """The findings in the order in which they were made, then the counts of omitted ones."""
        return [*self._kept, *self._tally.rest()]

    def add_error(self, code: str, error: FormatError, span: Span) -> None:
        """Record that something cannot be read, at the error's field; with ``strict`` raise the error.

        ``code`` is the code for damage. A limit is not damage; it is reported with the limits' own code (FP1005).
        """
        if self._strict:
            raise error
        at = error.offset
        if at is not None and span.start < at < span.end:
            span = span.replace(start=at)
        self.add_warning(code_for_error(code, error), span, error.describe(), error.hint, error.field or "")

    def add_warning(self, code: str, span: Span, message: str, hint: str = "", field: str = "") -> None:
        """Record a fault that does not prevent reading."""
        self._add(finding(code, span, message, hint, field=field))

    def empty_copy(self) -> FindingCollector:
        """Return an empty collector, for a part that may have to be discarded."""
        return FindingCollector(self._strict)

    def extend(self, other: FindingCollector) -> None:
        """Add everything from another collector."""
        for item in other.findings:
            self._add(item)

    def _add(self, item: Finding) -> None:
        if self._tally.keeps(item):
            self._kept.append(item)
