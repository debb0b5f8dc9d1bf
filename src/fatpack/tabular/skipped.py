"""What was met and not looked into, in one record, and the one question whether what was read was read to its end.

Every answer has both: an answer about files is worth as much as what it was made from.
"""

from __future__ import annotations

from fatpack.errors import pluralize
from fatpack.exit_codes import FINDINGS, MALFORMED, UNSUPPORTED
from fatpack.findings import CODES
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fatpack.inputs.files import SkipCounts
    from fatpack.tabular.columns import AnyRow

#: Findings that say that device code was met and not read, whatever the listing goes on with: nesting and other limits,
#: a part that was skipped, what this version cannot read. Bytes between containers, which are none, may have been one.
NOT_READ = ("FP1002", "FP1004", "FP1005", "FP1006", "FP1008")

#: those of them that say that this version cannot do it
_UNSUPPORTED = ("FP1006", "FP1008")

#: LIMIT: findings of one code in a file whose words are told; a row has three, and how many more there are
_SHOWN = 4

#: Field of :class:`Unlooked` → one of them, several, and why they were not looked into; in the order of telling.
REASONS = {
    "denied": ("file or folder", "files and folders", "there is no permission to read them"),
    "vanished": ("file", "files", "they were gone when their turn came"),
    "special": ("pipe, socket or device", "pipes, sockets and devices", "they are not read"),
    "links": ("link", "links", "links in folders are not followed"),
    "excluded": ("file or folder", "files and folders", "left out by name, as was asked"),
    "passed": (
        "file passed over",
        "files passed over",
        "the name says that no device code is inside; a deep search looks there too",
    ),
}

#: Field → the words of a line that has all of them.
_SHORT = {
    "denied": "without permission",
    "vanished": "gone",
    "special": "no plain file",
    "excluded": "left out as asked",
    "passed": "passed over by name",
}


class Skipped(Record):
    """How much was met on the way and not looked into, counted by why; false if there was none.

    ``links`` and ``special`` (pipes, sockets, devices) stand in folders. ``excluded`` files and folders were left out
    as was asked, ``passed`` files because their names say that no device code is in them. ``denied`` must not be read,
    and ``vanished`` were gone when their turn came: these two have rows with an error, too.
    """

    links: int = 0
    special: int = 0
    excluded: int = 0
    passed: int = 0
    denied: int = 0
    vanished: int = 0

    def __bool__(self) -> bool:
        return any(self._values())

    @property
    def is_asked(self) -> bool:
        """Whether nothing but what was asked for was left out: exclusions, and names that say it all."""
        return not (self.links or self.special or self.denied or self.vanished)

    def reasons(self) -> Iterator[tuple[int, str, str]]:
        """Yield how many of what there were, and why they were not looked into."""
        for name, (one, many, why) in REASONS.items():
            count: int = getattr(self, name)
            if count:
                yield count, one if count == 1 else many, why

    def sentence(self) -> str:
        """Return all of it in a line, ``not looked into: 2 links, 14 passed over by name``; "" if there is none."""
        parts = [pluralize(self.links, "link")] if self.links else []
        parts += [f"{count:,} {words}" for name, words in _SHORT.items() if (count := getattr(self, name))]
        return f"not looked into: {', '.join(parts)}" if parts else ""


def make_skipped(counts: SkipCounts) -> Skipped:
    """Return what a walk met and did not look into."""
    return Skipped(**{name: getattr(counts, name) for name in Skipped._fields})


class Incomplete(Record):
    """Why a file could not be read, or not to its end, so that nobody knows what it holds; and its exit code."""

    problem: str
    exit_code: int


class _FindingWords:
    """What findings with one code say, of many the first."""

    __slots__ = ("_more", "_texts")

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._more = 0

    def add(self, texts: Sequence[str]) -> None:
        room = _SHOWN - len(self._texts)
        self._texts += texts[:room]
        self._more += len(texts[room:])

    def told(self, code: str) -> list[str]:
        """Return the texts, the code itself where there are none."""
        return [*(self._texts or (code,)), *([f"{self._more} more with {code}"] if self._more else ())]


class CompletenessCheck:
    """Whether files were read to their end: takes the rows of each, and says so at its row ``file``."""

    __slots__ = ("_said",)

    def __init__(self) -> None:
        #: code → what findings with it say
        self._said: dict[str, _FindingWords] = {}

    def missed(self, row: AnyRow) -> Incomplete | None:
        """Take a row. Return what was not read of a file at its row ``file``; None for all else."""
        for code in row.findings:
            self._said.setdefault(code, _FindingWords()).add([text for text in row.messages if text.startswith(code)])
        if row.row != "file":
            return None
        codes, self._said = self._said, {}
        own = row.exit_code or 0
        if row.error is not None:
            return Incomplete(row.error.removeprefix(f"{row.path}: "), own or MALFORMED)
        skipped = [code for code in codes if code in NOT_READ]
        if own <= FINDINGS and not skipped:
            return None
        wrong = [code for code in codes if code in skipped or CODES[code][0] == "error"]
        if own <= FINDINGS:
            own = UNSUPPORTED if all(code in _UNSUPPORTED for code in skipped) else MALFORMED
        words = [text for code in wrong for text in codes[code].told(code)]
        return Incomplete(f"not all of it can be read: {'; '.join(words) or 'it is damaged'}", own)
