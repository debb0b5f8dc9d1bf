"""Skipped inputs (links, permissions, excluded names), and files that were not read completely.

Every result has both, because a result about files is only as good as its input.
"""

from __future__ import annotations

from fatpack.errors import pluralize
from fatpack.exit_codes import FINDINGS, MALFORMED
from fatpack.findings import CODES
from fatpack.printable import format_size
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from fatpack.inputs.files import SkipCounts
    from fatpack.tabular.columns import AnyRow

#: Findings of device code that was not read: nesting and other limits, a skipped part, formats that this version does
#: not read. Bytes between containers may have been a container.
NOT_READ = ("FP1002", "FP1004", "FP1005", "FP1006", "FP1008")

#: LIMIT: findings of one code in a file whose messages are listed; a row has three, and the number of the others
_SHOWN = 4

#: Field of :class:`Skipped` → singular, plural, and the reason, in the order of the message.
REASONS = {
    "denied": ("file or folder", "files and folders", "there is no permission to read them"),
    "vanished": ("file", "files", "they were gone when their turn came"),
    "special": ("pipe, socket or device", "pipes, sockets and devices", "they are not read"),
    "links": ("link", "links", "links in folders are not followed"),
    "excluded": ("file or folder", "files and folders", "excluded by name"),
    "passed": (
        "file passed over",
        "files passed over",
        "the name says that no device code is inside; a deep search looks there too",
    ),
}

#: Field → the words for a message in one line.
_SHORT = {
    "denied": "without permission",
    "vanished": "gone",
    "special": "no plain file",
    "excluded": "left out as asked",
    "passed": "by name (no device code)",
}


class UnreadFiles(Record):
    """The number and the bytes of files of one kind that are not read, a name of ``check --allow-unread``.

    ``carries`` is ``device code`` if such files are known to have some, ``files`` if they are archives or disk images
    of any files, and empty if no device code is known in them.
    """

    kind: str
    files: int
    size: int
    carries: str = ""


def unread_files(counts: Mapping[str, tuple[int, int]]) -> tuple[UnreadFiles, ...]:
    """Return the counts of unread files by kind; kinds that may have device code come first."""
    if not counts:
        return ()
    from fatpack.scanner.unread_kinds import KINDS

    found = [UnreadFiles(name, files, size, KINDS[name].carries) for name, (files, size) in sorted(counts.items())]
    return tuple(sorted(found, key=lambda item: (item.carries != "device code", not item.carries)))


def unread_sentence(items: Sequence[UnreadFiles]) -> str:
    """Return counts and bytes in words: ``not read: 3 databases of SQLite (12 MB)``; "" if there are none."""
    return f"not read: {', '.join(map(unread_words, items))}" if items else ""


def unread_words(item: UnreadFiles) -> str:
    """Return the count and bytes of one kind in words: ``3 databases of SQLite (12 MB)``."""
    from fatpack.scanner.unread_kinds import KINDS

    kind = KINDS[item.kind]
    has = ", device code" if item.carries == "device code" else ""
    one = kind.one if kind.one.startswith(("a ", "an ")) else f"a file {kind.one}"
    noun = one if item.files == 1 else f"{item.files:,} {kind.many}"
    return f"{noun} ({format_size(item.size)}{has})"


class Skipped(Record):
    """Counts of skipped inputs by reason; false if there were none.

    ``links``, ``special``: links, pipes, sockets and devices in folders. ``excluded``: files and folders that match
    ``--exclude``. ``passed``: files skipped by name. ``denied``: files without read permission. ``vanished``: files
    deleted during the walk. These two have rows with an error, too. ``not_read``: files of kinds that are not read.
    """

    links: int = 0
    special: int = 0
    excluded: int = 0
    passed: int = 0
    denied: int = 0
    vanished: int = 0
    not_read: tuple[UnreadFiles, ...] = ()

    def __bool__(self) -> bool:
        return any(self._values())

    @property
    def is_asked(self) -> bool:
        """True if inputs were skipped by name only: excluded, or of a type without device code."""
        return not (self.links or self.special or self.denied or self.vanished or self.not_read)

    def reasons(self) -> Iterator[tuple[int, str, str]]:
        """Yield the count, the noun, and the reason of each kind of skipped inputs."""
        for name, (one, many, why) in REASONS.items():
            count: int = getattr(self, name)
            if count:
                yield count, one if count == 1 else many, why
        for item in self.not_read:
            from fatpack.scanner.unread_kinds import KINDS

            kind = KINDS[item.kind]
            has = "; files of this kind carry device code" if item.carries == "device code" else ""
            why = f"this version does not read them ({format_size(item.size)}{has})"
            yield item.files, "file" if item.files == 1 else "files", f"{kind.many}: {why}"

    def sentence(self) -> str:
        """Return all counts in a line, ``skipped: 2 links, 14 by name (no device code)``; "" if there are none."""
        parts = [pluralize(self.links, "link")] if self.links else []
        parts += [f"{count:,} {words}" for name, words in _SHORT.items() if (count := getattr(self, name))]
        skipped = f"skipped: {', '.join(parts)}" if parts else ""
        return "; ".join(filter(None, (skipped, unread_sentence(self.not_read))))


def make_skipped(counts: SkipCounts) -> Skipped:
    """Return the skipped inputs of a walk."""
    names = (name for name in Skipped._fields if name != "not_read")
    return Skipped(**{name: getattr(counts, name) for name in names}, not_read=unread_files(counts.not_read))


class Incomplete(Record):
    """The reason that a file could not be read, or not completely, so that its contents are unknown; its exit code."""

    problem: str
    exit_code: int


class _FindingWords:
    """The messages of findings with one code, of many the first."""

    __slots__ = ("_more", "_texts")

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._more = 0

    def add(self, texts: Sequence[str]) -> None:
        room = _SHOWN - len(self._texts)
        self._texts += texts[:room]
        self._more += len(texts[room:])

    def told(self, code: str) -> list[str]:
        """Return the messages, the code itself if there are none."""
        return [*(self._texts or (code,)), *([f"{self._more} more with {code}"] if self._more else ())]


class CompletenessCheck:
    """Tells if files were read completely: takes the rows of each, and returns the result at its row ``file``."""

    __slots__ = ("_said",)

    def __init__(self) -> None:
        #: code → the messages of its findings
        self._said: dict[str, _FindingWords] = {}

    def missed(self, row: AnyRow) -> Incomplete | None:
        """Take a row. At a row ``file``, return the reason if the file was not read completely; else None."""
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
        words = [text for code in wrong for text in codes[code].told(code)]
        said = "; ".join(words) or "it is damaged"
        return Incomplete(f"not all of it can be read: {said}", max(own, FINDINGS))
