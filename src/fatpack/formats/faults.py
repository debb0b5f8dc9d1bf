"""Damage inside a container whose other parts can be read: a finding, or an error for those who want none."""

from __future__ import annotations

from fatpack.findings import Tally, finding
from fatpack.io import limits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.errors import FormatError
    from fatpack.model import Finding, Span


class Faults:
    """Collects findings; with ``strict`` the first loss of data is raised instead.

    LIMIT: no more than ``limits.FINDINGS`` of a code are kept; the others are counted.
    """

    def __init__(self, strict: bool = False) -> None:
        self._kept: list[Finding] = []
        self._tally = Tally(limits.FINDINGS)
        self._strict = strict

    def __bool__(self) -> bool:
        """Return whether anything is wrong."""
        return bool(self._kept)

    @property
    def findings(self) -> list[Finding]:
        """What is wrong, in the order in which it was met; what was only counted comes last."""
        return [*self._kept, *self._tally.rest()]

    def lost(self, code: str, error: FormatError, span: Span) -> None:
        """Note that something cannot be read, at the field that says so; raises the error if that is wanted."""
        if self._strict:
            raise error
        at = error.offset
        if at is not None and span.start < at < span.end:
            span = span.replace(start=at)
        self.odd(code, span, error.describe(), error.hint, error.field or "")

    def odd(self, code: str, span: Span, message: str, hint: str = "", field: str = "") -> None:
        """Note something that does not keep anything from being read."""
        self._add(finding(code, span, message, hint, field=field))

    def fresh(self) -> Faults:
        """Return an empty collection for a part of which may turn out that it was read wrongly."""
        return Faults(self._strict)

    def take(self, other: Faults) -> None:
        """Take over everything that another collection holds."""
        for item in other.findings:
            self._add(item)

    def _add(self, item: Finding) -> None:
        if self._tally.keeps(item):
            self._kept.append(item)
