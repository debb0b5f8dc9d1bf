"""The findings of a row: their codes, and what they say."""

from __future__ import annotations

from fatpack.findings import format_finding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from fatpack.model import Finding

#: LIMIT: findings of one code whose words a row has: a file has a million of a kind where one number is wrong
_SHOWN = 3


class FindingSummary:
    """Findings by their codes: of each code the words of the first ones, and how many more there were."""

    __slots__ = ("_by_code", "_path")

    def __init__(self, path: str, findings: Iterable[Finding] = ()) -> None:
        self._path = path
        self._by_code: dict[str, tuple[dict[str, None], int]] = {}
        for item in findings:
            self.add(item)

    def add(self, item: Finding) -> None:
        """Take the next finding."""
        texts, count = self._by_code.setdefault(item.code, ({}, 0))
        if len(texts) < _SHOWN:
            texts[format_finding(item, self._path)] = None
        self._by_code[item.code] = texts, count + item.count

    def update(self, other: FindingSummary) -> None:
        """Take the findings of another row."""
        for code, (texts, count) in other._by_code.items():
            own, before = self._by_code.setdefault(code, ({}, 0))
            own.update(dict.fromkeys([*texts][: _SHOWN - len(own)]))
            self._by_code[code] = own, before + count

    @property
    def codes(self) -> tuple[str, ...]:
        """Each code once."""
        return tuple(self._by_code)

    @property
    def messages(self) -> tuple[str, ...]:
        """What they say with offset and place; of many with one code the first ones, and how many more there are."""
        return tuple(text for code in self._by_code for text in self._words(code))

    def _words(self, code: str) -> Iterable[str]:
        texts, count = self._by_code[code]
        yield from texts
        if count > len(texts) and len(texts) == _SHOWN:
            yield f"{code}: {count - len(texts)} more"
