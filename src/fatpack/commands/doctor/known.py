"""Known bugs: which of ``data/known.toml`` the findings of files, and facts about them, are evidence of.

The facts that the table names, beside codes of findings, are what formats call symptoms (``formats.symptoms``).
"""

from __future__ import annotations

import os
from importlib import import_module

from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from fatpack.model import Finding


class BugMatch(Record):
    """A finding that is evidence: its code; its field and words of its message where these are given."""

    code: str
    field: str = ""
    words: str = ""

    def fits(self, item: Finding) -> bool:
        """Return whether a finding is such evidence."""
        return item.code == self.code and (not self.field or item.field == self.field) and self.words in item.message


class KnownBugRow(Record):
    """A line of ``data/known.toml``, which says what the fields mean."""

    name: str
    side: str
    producer: str
    versions: str
    what: str
    advice: str
    sources: tuple[str, ...]
    match: tuple[BugMatch, ...] = ()
    facts: tuple[str, ...] = ()

    def evidence(self, findings: Iterable[Finding], facts: Iterable[str]) -> tuple[str, ...]:
        """Return what of findings and facts shows this bug: codes and names, each once; nothing if none does."""
        codes = (item.code for item in findings if any(match.fits(item) for match in self.match))
        return tuple(dict.fromkeys([*codes, *(name for name in facts if name in self.facts)]))


_loaded: list[tuple[KnownBugRow, ...]] = []


def known_bugs() -> tuple[KnownBugRow, ...]:
    """Return all lines of the table; it is read by the first call."""
    if not _loaded:
        path = os.path.join(os.path.dirname(__file__), "data", "known.toml")
        with open(path, "rb") as file:
            data: Mapping[str, Any] = import_module("tomllib").load(file)
        _loaded.append(tuple(_bug(row) for row in data["bug"]))
    return _loaded[0]


def _bug(row: dict[str, Any]) -> KnownBugRow:
    lists = {name: tuple(row.get(name, ())) for name in ("sources", "facts")}
    return KnownBugRow(**{**row, **lists, "match": tuple(BugMatch(**each) for each in row.get("match", ()))})
