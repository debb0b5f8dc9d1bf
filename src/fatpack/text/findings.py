"""Findings as lines of text: those of one kind in one place once, with their number.

::

    warning FP1102 at 0x3300: stored as sm_90, but the image is for sm_80
    note FP1408, 5572 times, first at 0x1a40: obfuscated by NVIDIA's tools
"""

from __future__ import annotations

from fatpack.findings import ONCE, location_words, without_offset
from fatpack.io.source import is_in_file
from fatpack.printable import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import NotRequired, TypeAlias, TypedDict

    from fatpack.model import Finding

    class FindingRecord(TypedDict):
        """A finding as plain data. ``offset`` is None if the place is not in the file as such."""

        code: str
        severity: str
        offset: int | None
        message: str
        hint: str
        where: list[str]
        section: NotRequired[str]
        field: NotRequired[str]

    class UnlistedRecord(TypedDict):
        """The number of findings of one kind that are not listed; ``where`` is empty for all places together."""

        code: str
        severity: str
        where: list[str]
        count: int

    #: code, severity, and the chain of names that leads to the place
    ListKind: TypeAlias = tuple[str, str, tuple[str, ...]]

    TextKind: TypeAlias = tuple[str, tuple[str, ...]]


# The findings of a file: of one kind in one place the first ones, and how many more there are.

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
        """Keep a finding, or count it; keep one of several equal ones."""
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


def unlisted_records(*lists: FindingList) -> list[UnlistedRecord]:
    """Return how many findings of each kind are not kept, as plain data."""
    counts: dict[ListKind, int] = {}
    for each in lists:
        for kind, number in each.unlisted.items():
            counts[kind] = counts.get(kind, 0) + number
    return [
        {"code": code, "severity": severity, "where": list(where), "count": number}
        for (code, severity, where), number in counts.items()
    ]


def finding_record(item: Finding) -> FindingRecord:
    """Return a finding as plain data."""
    record: FindingRecord = {
        "code": item.code,
        "severity": item.severity,
        "offset": item.span.start if is_in_file(item.span.source) else None,
        "message": item.message,
        "hint": item.hint,
        "where": list(item.span.source),
    }
    if item.section:
        record["section"] = item.section
    if item.field:
        record["field"] = item.field
    return record


#: different messages of one kind in one place that are shown without ``-v``
_SHOWN = 3


def finding_lines_by_file(
    findings: Iterable[FindingRecord], unlisted: Iterable[UnlistedRecord], indent: str = "", *, verbose: int = 0
) -> Iterator[str]:
    """Yield the lines of findings in several files: those of one file together, each with the file's name."""
    groups: dict[str, list[FindingRecord]] = {}
    for item in findings:
        groups.setdefault(item["where"][0] if item["where"] else "", []).append(item)
    more: dict[str, list[UnlistedRecord]] = {}
    for counted in unlisted:
        more.setdefault(counted["where"][0] if counted["where"] else "", []).append(counted)
    for path in dict.fromkeys((*groups, *more)):
        yield from finding_lines(groups.get(path, ()), indent, unlisted=more.get(path, ()), title=path, verbose=verbose)


def finding_lines(
    findings: Sequence[FindingRecord],
    indent: str = "",
    *,
    unlisted: Sequence[UnlistedRecord] = (),
    title: str = "",
    path: str = "",
    verbose: int = 0,
) -> Iterator[str]:
    """Yield a line per kind, place and message: severity, code, number, place, message, hint.

    ``unlisted`` says how many more there are of a kind. ``title`` is the name of the file, if the lines are not printed
    below it; ``path`` is that of the file above the lines, in whose members they may be. Without ``verbose`` only the
    first few messages of a kind and place are shown, and the others counted.
    """
    groups: dict[TextKind, dict[tuple[str, str], list[FindingRecord]]] = {}
    for item in findings:
        group = groups.setdefault(_kind(item), {})
        group.setdefault((_message(item), item["hint"]), []).append(item)
    places: dict[str, int] = {}
    for code, _ in groups:
        places[code] = places.get(code, 0) + 1
    more: dict[TextKind, int] = {}
    for counted in unlisted:
        more[_kind(counted)] = more.get(_kind(counted), 0) + counted["count"]
    for kind, group in groups.items():
        rest = more.pop(kind, 0) + (more.pop((kind[0], ()), 0) if places[kind[0]] == 1 else 0)
        same = list(group.values())
        if len(same) == 1:
            yield indent + _line(same[0][0], len(same[0]) + rest, title, path)
            continue
        shown = same if verbose or len(same) <= _SHOWN + 1 else same[:_SHOWN]
        for items in shown:
            yield indent + _line(items[0], len(items), title, path)
        hidden = sum(map(len, same[len(shown) :]))
        if hidden + rest:
            advice = "; -v shows them" if hidden and not rest else ""
            where = _where(same[0][0], title, path)
            yield indent + printable(
                f"{same[0][0]['severity']} {kind[0]}{where}: {hidden + rest} more with other messages{advice}"
            )
    for counted in unlisted:
        number = more.pop(_kind(counted), 0)
        if number:
            place = _where(counted, title, path)
            yield indent + printable(f"{counted['severity']} {counted['code']}{place}: {number} more")


def _kind(item: FindingRecord | UnlistedRecord) -> TextKind:
    return item["code"], tuple(item["where"])


def _message(item: FindingRecord) -> str:
    """Return the message without the offset of the finding itself, which precedes the message."""
    return without_offset(item["message"], item["offset"])


def _line(item: FindingRecord, number: int, title: str, path: str) -> str:
    times = f", {number} times" if number > 1 else ""
    at = f" at {item['offset']:#x}" if item["offset"] is not None else ""
    first = ", first" if times and at else ""
    place = f": {title}{first}{at}" if title else f"{first}{at}{_where(item, title, path)}"
    hint = f"; {item['hint']}" if item["hint"] else ""
    return printable(f"{item['severity']} {item['code']}{times}{place}: {_message(item)}{hint}")


def _where(item: FindingRecord | UnlistedRecord, title: str, path: str) -> str:
    """Return the place of a finding in its file: a member, a section, a container that was inflated."""
    return f": {title}" if title else location_words(item["where"], path)
