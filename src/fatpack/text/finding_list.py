"""The findings of a file: of one kind in one place the first ones, and how many more there are."""

from __future__ import annotations

from fatpack.findings import ONCE
from fatpack.io.source import is_in_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any, TypeAlias

    from fatpack.model import Finding

    #: code, severity, and the chain of names that leads to the place
    ListKind: TypeAlias = tuple[str, str, tuple[str, ...]]

#: LIMIT: findings kept of one kind in one place. A gigabyte of damaged magics has one every 8 bytes, and libraries of
#: NVIDIA have thousands of obfuscated images.
KEPT_OF_A_KIND = 1000

#: LIMIT: findings kept of a file. A record of one takes some 500 bytes.
KEPT = 20_000


class FindingList:
    """Findings in the order they came. Any number can be added: memory stays bounded, and none goes uncounted."""

    def __init__(self) -> None:
        self.kept: list[Finding] = []
        #: how many more there are of a kind; beyond ``KEPT``, without the place
        self.unlisted: dict[ListKind, int] = {}
        self._count_of: dict[ListKind, int] = {}

    def add(self, item: Finding) -> None:
        """Keep a finding, or count it; of one that stands for several, keep one."""
        kind: ListKind = (item.code, item.severity, item.span.source)
        more = item.count
        if len(self.kept) >= KEPT:
            kind = (item.code, item.severity, ())
        elif (before := self._count_of.get(kind, 0)) < (1 if item.code in ONCE else KEPT_OF_A_KIND):
            self._count_of[kind] = before + 1
            self.kept.append(item)
            more -= 1
        if more:
            self.unlisted[kind] = self.unlisted.get(kind, 0) + more

    def extend(self, items: Iterable[Finding]) -> None:
        """Keep or count several findings."""
        for item in items:
            self.add(item)

    def __bool__(self) -> bool:
        return bool(self.kept)


def unlisted_records(*lists: FindingList) -> list[dict[str, Any]]:
    """Return how many findings of each kind are not kept, as plain data."""
    counts: dict[ListKind, int] = {}
    for each in lists:
        for kind, number in each.unlisted.items():
            counts[kind] = counts.get(kind, 0) + number
    return [
        {"code": code, "severity": severity, "where": list(where), "count": number}
        for (code, severity, where), number in counts.items()
    ]


def finding_record(item: Finding) -> dict[str, Any]:
    """Return a finding as plain data."""
    return {
        "code": item.code,
        "severity": item.severity,
        "offset": item.span.start if is_in_file(item.span.source) else None,
        "message": item.message,
        "hint": item.hint,
        "where": list(item.span.source),
        **({"section": item.section} if item.section else {}),
        **({"field": item.field} if item.field else {}),
    }
