"""The inside of modules: where a region ends, and which operations are in it, in one pass of one expression.

Operations of a dialect that nobody has registered here cannot be parsed, and need not be: only braces end a region,
and strings and comments are all that can hide them. On the way every place is noted where an operation starts:

* a bare identifier at the start of a line or of a region, perhaps behind ``%0 =`` (the form that dialects print);
* a string before ``(`` (the generic form), wherever it stands.

LIMIT: of several operations in one line, only the first is noticed unless they are in generic form; and lines end in a
line feed. Printers write nothing else.
"""

from __future__ import annotations

import re

from fatpack.formats.cir.comments import Comments
from fatpack.formats.cir.faults import fault, place
from fatpack.formats.cir.text import MARGIN, Text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from re import Match
    from typing import Protocol

    class Sink(Protocol):
        """What is told about a region: counts of all operations in it, and where those directly in it stand."""

        @property
        def counts(self) -> dict[bytes, int]:
            """How often each operation occurs; the region adds to it."""

        def child(self, name: bytes, start: int, name_end: int) -> int | None:
            """Take note of an operation directly in the region; return where to go on if it was read to its end."""

        def opened(self, at: int) -> None:
            """Take note that the latest operation opens a region at ``at``."""

        def closed(self, at: int) -> None:
            """Take note that a region of the latest operation is closed behind ``at``."""


_RESULTS = rb"(?:%[\w$.:,# %-]{1,2000}=[ \t]*)?"
_OPERATION = rb'(?:([A-Za-z_][\w$.]*)|"([\w$.]+)"[ \t]*\()'
OPERATION = re.compile(_RESULTS + _OPERATION)
#: Lines that start an operation, block labels with a comment behind them, and whatever can hide or end a region. (Every
#: alternative starts with one byte, not a set: the search is a third faster for it.)
_TOKEN = re.compile(
    rb'\n[ \t]*(?:\^[^\r\n"{}/]*:[ \t]*//[^\r\n]*|' + _RESULTS + _OPERATION + rb")"
    rb'|"(?:([\w$.]+)"[ \t]*\(|[^"\\\n\v\f]*"|)|[{}]|//'
)
#: What follows a brace: something that only dictionaries and types hold, a lone word, or an operation in its line.
_BRACE = re.compile(
    rb'\{(?:\s*(?:(?:"[^"\\\r\n]*"|[A-Za-z_][\w$.]*)\s*[=,]|"[^"\\\r\n]*"\s*\}|[}!#(<\[0-9-])()'
    rb"|[ \t]*([A-Za-z_][\w$.]*)[ \t]*\}|[ \t]*" + _RESULTS + rb"([A-Za-z_][\w$]*\.[\w$.]+))"
)
#: Operations that may stand alone in a region; any other lone word in braces is an attribute without a value.
_ALONE = (b"return", b"yield", b"break", b"continue", b"unreachable", b"trap", b"resume", b"terminator")
#: Bytes before a string and ``(`` that make it something else than an operation: ``loc("x"(#y))``.
_NO_OPERATION_BEHIND = b"([,<=@"


def region_end(text: Text, start: int, sink: Sink) -> int:
    """Return the position of the ``}`` that closes the region whose first byte is at ``start``.

    Raises BadValue, at the end of the text, when there is none.
    """
    region = _Region(text, start, sink)
    at = _directly(text, start, sink)
    while True:
        at, is_closed = region.window(at)
        if is_closed:
            return at
        if at >= text.size:
            opened = place(text.view, start - 1)
            raise fault(text.view, text.size, f"the region opened at {opened} is not closed", expected="'}'")


class _Region:
    """A region on the way to its end; ``_stack`` has for each brace open in it whether that is a region."""

    def __init__(self, text: Text, start: int, sink: Sink) -> None:
        self._text = text
        self._sink = sink
        self._stack = bytearray()
        self._is_region = True
        self._comments = Comments(text, start)
        self._done = start

    def window(self, at: int) -> tuple[int, bool]:
        """Go through what the window shows; return where to go on, or where the region is closed and that it is."""
        text = self._text
        index = text.seek(at, 2 * MARGIN)  # or the first token could lie at the limit forever
        window, base = text.window, text.base
        limit = len(window) if text.is_last else len(window) - MARGIN
        while True:
            token = self._next(window, index, limit)
            if token is None:
                return max(base + limit, base + index), False
            begin, found = token.start(), token[0]
            if begin >= limit:
                return base + begin, False
            if token.lastindex:
                return self._done, False
            if found == b"}":
                return base + begin, True
            if found == b'"':
                index = text.string_end(base + begin) - base
            else:
                index = self._comments.end(base + begin) - base
            if index > limit or text.base != base:
                return base + index, False

    def _next(self, window: bytes, index: int, limit: int) -> Match[bytes] | None:
        """Return the next token behind which the search cannot simply go on: the end, a comment, a long string."""
        counts, stack = self._sink.counts, self._stack
        for token in _TOKEN.finditer(window, index):
            begin = token.start()
            if begin >= limit:
                return token
            group = token.lastindex
            if group:
                if not self._is_region or (group == 3 and not _is_operation(window, begin)):
                    continue
                name = token[group]
                if group > 1 and b"." not in name:
                    name = b'"' + name  # a keyword is spelled like that too, without the quotes
                counts[name] = counts.get(name, 0) + 1
                if not stack and self._child(token, name):
                    return token
                continue
            found = token[0]
            if found == b"{":
                self._open(window, begin)
            elif found == b"}":
                if not stack:
                    return token
                self._close(begin)
            elif found in (b'"', b"//"):
                return token
        return None

    def _child(self, token: Match[bytes], name: bytes) -> bool:
        """Tell of an operation directly in the region; return whether it was read to its end, which is noted."""
        found, group, base = token[0], token.lastindex or 1, self._text.base
        first = base + token.start() + len(found) - len(found.lstrip())
        done = self._sink.child(name, first, base + token.end(group) + (group > 1))
        if done is None:
            return False
        self._done = _directly(self._text, done, self._sink)
        return True

    def _open(self, window: bytes, at: int) -> None:
        self._is_region = _is_region(window, at, self._sink.counts)
        if self._is_region and not self._stack:
            self._sink.opened(self._text.base + at)
        self._stack.append(self._is_region)

    def _close(self, at: int) -> None:
        was_region = self._stack.pop()
        self._is_region = bool(self._stack[-1]) if self._stack else True
        if was_region and not self._stack:
            self._sink.closed(self._text.base + at + 1)


def _directly(text: Text, at: int, sink: Sink) -> int:
    """Take operations that follow without a line end in between; return where to go on."""
    while True:
        following = text.space_end(at)
        found = text.match(OPERATION, following)
        if found is None or not found.lastindex:
            return at
        group = found.lastindex
        name, name_end = found[group], text.base + found.end(group) + (group > 1)
        sink.counts[name] = sink.counts.get(name, 0) + 1
        done = sink.child(name, following, name_end)
        if done is None:
            return name_end
        at = done


def _is_operation(window: bytes, at: int) -> bool:
    before = window[max(at - 64, 0) : at].rstrip()
    return not before or before[-1] not in _NO_OPERATION_BEHIND


def _is_region(window: bytes, at: int, counts: dict[bytes, int]) -> bool:
    """Return whether a brace opens a region; an operation right behind it is counted."""
    if window[at - 1 : at] == b"<":
        return False
    found = _BRACE.match(window, at)
    if found is None:
        return True
    if found.lastindex == 1 or (found.lastindex == 2 and not found[2].endswith(_ALONE)):
        return False
    name = found[found.lastindex or 0]
    counts[name] = counts.get(name, 0) + 1
    return True
