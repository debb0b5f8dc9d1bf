"""The inside of modules: where a region ends, and which operations are in it, at the speed of compiled expressions.

Operations of a dialect that nobody has registered here cannot be parsed, and need not be: only braces end a region,
and strings and comments are all that can hide them. Three steps, none of which makes an object per token:

1. One expression (``patterns.RUN``) steps over everything up to the next place that somebody has to look at: a brace
   without its partner in the window, a comment that might be none, or an operation that the sink wants to know.
   Whether a comment might be none is found out once per window, for all of it (``Comments.certain``).
2. What was stepped over is counted by another (``patterns.count``) in one call per window.
3. Only what stopped the first is looked at one by one; functions that look as printers write them, by one expression.

An operation is a bare identifier at the start of a line or behind a brace, perhaps behind ``%0 =`` (the form that
dialects print), or a string before ``(`` (the generic form), wherever it stands.

LIMIT: of several operations in one line, only the first is noticed unless they are in generic form; and lines end in a
line feed. Printers write nothing else.
"""

from __future__ import annotations

from fatpack.formats.cir.text import patterns
from fatpack.formats.cir.text.comments import Comments
from fatpack.formats.cir.text.faults import line_and_column, syntax_error
from fatpack.formats.cir.text.lexer import MARGIN, Lexer
from fatpack.formats.cir.text.patterns import NOTHING, OPERATION

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    class RegionVisitor(Protocol):
        """What is known of a region: counts of all operations in it, and where those directly in it stand."""

        @property
        def counts(self) -> dict[bytes, int]:
            """How often each operation occurs; the region adds to it."""

        def wants(self, window: bytes, start: int, end: int) -> int:
            """Return which operations directly in the region to tell of, by what is in a part of a window."""

        def functions(self, window: bytes, base: int, start: int, end: int) -> int:
            """Take note of functions that are plain, in a part of the window at ``base``; return the index behind."""

        def child(self, name: bytes, start: int, name_end: int) -> int | None:
            """Take note of an operation directly in the region; return where to go on if it was read to its end."""

        def opened(self, at: int) -> None:
            """Take note that the latest operation opens a region at ``at``."""

        def closed(self, at: int) -> None:
            """Take note that a region of the latest operation is closed behind ``at``."""


#: Bytes before a position that expressions look back at.
_BACK = 64

_CLOSE, _OPEN, _QUOTE, _SLASH = b'}{"/'


def find_region_end(text: Lexer, start: int, sink: RegionVisitor) -> int:
    """Return the position of the ``}`` that closes the region whose first byte is at ``start``.

    Raises BadValue, at the end of the text, when there is none.
    """
    region = _RegionReader(text, start, sink)
    at = _directly(text, start, sink)
    while True:
        at, is_closed = region.window(at)
        if is_closed:
            return at
        if at >= text.size:
            opened = line_and_column(text.view, start - 1)
            raise syntax_error(text.view, text.size, f"the region opened at {opened} is not closed", expected="'}'")


class _RegionReader:
    """A region on the way to its end; ``_depth`` braces are open in it."""

    def __init__(self, text: Lexer, start: int, sink: RegionVisitor) -> None:
        self._text = text
        self._sink = sink
        self._depth = 0
        self._is_noted = False
        self._is_certain = True  # in the part that is gone through, every ``//`` outside of strings is a comment
        self._base = 0  # of the window that is gone through: the sink may move the text's own
        self._comments = Comments(text, start)

    def window(self, at: int) -> tuple[int, bool]:
        """Go through what the window shows; return where to go on, or where the region is closed and that it is."""
        text = self._text
        index = at - text.base
        if index < min(_BACK, at) or (index + 2 * MARGIN > len(text.window) and not text.is_last):
            text.load(max(at - _BACK, 0))
            index = at - text.base
        window, base = text.window, text.base
        self._base = base
        bound = len(window) if text.is_last else _limit(window, index)
        limit, self._is_certain = self._comments.certain(window, index, bound, base)
        return self._through(window, index, limit, bound)

    def _through(self, window: bytes, index: int, limit: int, bound: int) -> tuple[int, bool]:
        """Go through a part of the window up to ``limit``; what the sink wants is asked for all up to ``bound``."""
        text, base = self._text, self._base
        counted = begin = index
        wanted = self._sink.wants(window, index, bound)
        while True:
            run = patterns.RUN[NOTHING if self._depth else wanted, self._is_certain].match(window, index, limit)
            assert run is not None  # it matches nothing at least
            index = run.end()
            if index >= limit:
                self._count(window, counted, limit)
                return base + limit, False
            code = window[index]
            if code == _CLOSE:
                if not self._depth:
                    self._count(window, counted, index)
                    return base + index, True
                index = self._closed(window, index, limit)
            elif code == _OPEN:
                index = self._opened(window, index, limit)
                wanted = self._sink.wants(window, index, bound)
            elif code == _QUOTE and (self._depth or not patterns.WANTED_STRING.match(window, index)):
                # The end of the window may cut it: then it is looked at again with more behind it.
                self._count(window, counted, index)
                return base + index if index > begin else text.string_end(base + index), False
            elif code == _SLASH:
                index = self._comments.end(base + index) - base
                if index > limit:
                    self._count(window, counted, limit)
                    return base + index, False
            else:
                done, index = self._child(window, index, limit, counted)
                if done is not None:
                    return done, False
                wanted = self._sink.wants(window, index, bound)

    def _count(self, window: bytes, start: int, end: int) -> None:
        if start < end:
            patterns.count_operations(window, start, end, self._sink.counts)

    def _child(self, window: bytes, index: int, limit: int, counted: int) -> tuple[int | None, int]:
        """Tell of the operation at a line end or string; return where it was read to, and the index behind its name.

        What is read to its end counts itself, so that what stands before it, and its name, are counted now.
        Functions that are plain are taken in one go; then the index is that behind the last.
        """
        base = self._base
        if self._is_certain:
            behind = self._sink.functions(window, base, index, limit)
            if behind > index:
                return None, behind
        first = index
        while window[first] in b" \t\r\n":
            first += 1
        found = OPERATION.match(window, first)
        if found is None or not found.lastindex:  # a blank line, or a line of values that are no results
            return None, first
        group = found.lastindex
        name, name_end = found[group], found.end(group) + (group > 1)
        done = self._sink.child(name, base + first, base + name_end)
        if done is None:
            return None, name_end
        self._count(window, counted, index)
        self._sink.counts[name] = self._sink.counts.get(name, 0) + 1
        self._comments = Comments(self._text, done)  # what was read to its end need not be gone through once more
        return _directly(self._text, done, self._sink), name_end

    def _opened(self, window: bytes, index: int, limit: int) -> int:
        """Step over a brace, and what it encloses if that is all in the window; return the index behind."""
        base = self._base
        is_noted = not self._depth and patterns.is_region(window, index)
        if is_noted:
            self._sink.opened(base + index)
        group = patterns.GROUP[self._is_certain].match(window, index, limit)
        if group:
            if is_noted:
                self._sink.closed(base + group.end())
            return group.end()
        if not self._depth:
            self._is_noted = is_noted
        many = patterns.OPENERS.match(window, index, limit)
        if many is None:
            self._depth += 1
            return index + 1
        self._depth += window.count(b"{", index, many.end())
        return many.end()

    def _closed(self, window: bytes, index: int, limit: int) -> int:
        """Step over closing braces, as many as are open; return the index behind."""
        run = patterns.CLOSERS.match(window, index, limit)
        assert run is not None
        if window.count(b"}", index, run.end()) < self._depth:
            self._depth -= window.count(b"}", index, run.end())
            return run.end()
        while self._depth:
            index = window.index(b"}", index) + 1
            self._depth -= 1
        if self._is_noted:
            self._is_noted = False
            self._sink.closed(self._base + index)
        return index


def _limit(window: bytes, index: int) -> int:
    """Return up to where a window is looked at that is not the last: up to a line end, or some other safe place."""
    limit = window.rfind(b"\n", index + 1)
    if limit > index:
        return limit
    limit = max(len(window) - MARGIN, index + 1)
    for safe in range(limit, max(limit - _BACK, index + 1), -1):
        if window[safe - 1] not in b'" \t/{\\':
            return safe
    return limit


def _directly(text: Lexer, at: int, sink: RegionVisitor) -> int:
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
