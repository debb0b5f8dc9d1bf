"""Regions of modules: their ends and the operations in them, at the speed of compiled expressions.

Operations of an unknown dialect cannot be parsed, and need not be: only braces end a region, and only strings and
comments can hide braces. There are three steps, none of which makes an object per token:

1. One expression (``patterns.RUN``) steps over everything up to the next place that needs attention: a brace
   without its partner in the window, a ``//`` that might not be a comment, or an operation that the visitor wants.
   Whether all ``//`` are comments is determined once per window (``Comments.certain``).
2. Another expression counts the operations that were stepped over, in one call per window (``count_operations``).
3. Only the places where the first one stopped are examined one by one; functions in printers' layout, by one
expression.

An operation is a bare identifier at the start of a line or after a brace, perhaps after ``%0 =`` (the form that
dialects print), or a string before ``(`` (the generic form) anywhere.

LIMIT: of several operations in one line, only the first is noticed unless they are in generic form; and lines end in a
line feed. Printers write no other layout.
"""

from __future__ import annotations

from collections import Counter

from fatpack.formats.cir.text.lexer import MARGIN, STRING, Comments, Lexer
from fatpack.formats.cir.text.strings import line_and_column, syntax_error
from fatpack.formats.cir.vocabulary import LazyExpression

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    class RegionVisitor(Protocol):
        """Receives the contents of a region: counts of all operations in it, and the positions of those directly in
        it."""

        @property
        def counts(self) -> dict[bytes, int]:
            """The count of each operation; the region adds to it."""

        def wants(self, window: bytes, start: int, end: int) -> int:
            """Return which operations directly in the region to report, based on a part of a window."""

        def functions(self, window: bytes, base: int, start: int, end: int) -> int:
            """Record plain functions in a part of the window at ``base``; return the index after the part."""

        def child(self, name: bytes, start: int, name_end: int) -> int | None:
            """Record an operation directly in the region; return its end if it was read to its end."""

        def opened(self, at: int) -> None:
            """Record that the latest operation opens a region at ``at``."""

        def closed(self, at: int) -> None:
            """Record that a region of the latest operation is closed after ``at``."""


# The expressions for the bodies of modules; the module's docstring explains how they work together.
#
# Every piece of text has one way to match, and repeats are possessive, so that no expression tries a range twice.
# Alternatives start with the byte that decides, so the others cost one comparison.

#: Kinds of operations directly in a region that stop the run: none; modules; functions and globals too; all.
NOTHING, MODULES, FUNCTIONS, ALL = range(4)


def _any(*items: bytes) -> bytes:
    """Return the expression for any number of these."""
    return b"(?:" + b"|".join(items) + b")*+"


RESULTS = rb"(?:%[\w$.:,# %-]{1,2000}+=[ \t]*+|)"
OPERATION = LazyExpression(RESULTS + rb'(?:([A-Za-z_][\w$.]*)|"([\w$.]+)"[ \t]*\()')

_TEXT = rb'[^{}"/]++'
_LINE_TEXT = rb'[^{}"/\n]++'
_COMMENT = rb"//[^\r\n]*+"
#: A slash where ``//`` may be no comment: the run stops at both bytes together.
_ONE_SLASH = rb"/(?!/)"

#: Braces that enclose others up to a depth; deeper ones are counted brace by brace.
_LEVELS = 8


def _group(*items: bytes) -> bytes:
    group = rb"\{" + _any(*items) + rb"\}"
    for _ in range(_LEVELS - 1):
        group = rb"\{" + _any(*items, group) + rb"\}"
    return group


def _slash(is_certain: bool) -> bytes:
    return _COMMENT + rb"|/" if is_certain else _ONE_SLASH


OPENERS = LazyExpression(rb'\{(?:[ \t\r]*\n[^{}"/\n=]*\{)+(?=[ \t\r]*\n)')
CLOSERS = LazyExpression(rb"\}(?:[ \t\r\n]*\})*")

_MODULE_NAMES = rb"builtin\.module|gpu\.module|cir\.offload\.(?:container|module)"
#: A word at the start of a line that continues the head of an operation instead of starting one.
_HEAD_WORD = rb"(?!(?:module|func|return)\b)[A-Za-z_]\w*+(?![\w$.])"


def _matters(word: bytes) -> bytes:
    """Return the expression for the text after an operation's name if its head may contain ``word``.

    The word is in its line, or the head goes on after that, or the window ends before that shows. Blank lines and
    comments may be between.
    """
    first = word[:1]
    return (
        rb"(?=(?:[^\na" + first + rb"]++|" + first + rb"(?!" + word[1:] + rb")"
        rb"|a(?!ttributes[ \t]*+\{[ \t\r]*+(?://[^\n]*+|)\n))*+"
        rb"(?:[a" + first + rb"]|\Z|\n(?<!\{\n)(?<!\{\r\n)(?:[ \t\r]*+(?://[^\n]*+|)\n)*+"
        rb"(?:[ \t\r]*+(?://[^\n]*+|)\Z|[ \t]*+(?:->|[%@!(),:{]|" + _HEAD_WORD + rb"))))"
    )


_FUNCTION_MATTERS = _matters(b"kernel")
_GLOBAL_MATTERS = _matters(b"fatbin_str")
#: A function that may be a kernel or launch one, and a global that may hold a GPU binary, after the name.
FUNCTION_MATTERS = LazyExpression(_FUNCTION_MATTERS)
GLOBAL_MATTERS = LazyExpression(_GLOBAL_MATTERS)
_NAMES = {
    MODULES: rb"module|" + _MODULE_NAMES,
    FUNCTIONS: rb"module|"
    + _MODULE_NAMES
    + rb"|(?=[\w$.]*func)[\w$.]++"
    + _FUNCTION_MATTERS
    + rb"|(?=[\w$.]*global)[\w$.]++"
    + _GLOBAL_MATTERS,
    ALL: rb"(?!" + _HEAD_WORD + rb')[A-Za-z_][\w$.]*+|"[\w$.]++"',
}
_GENERIC_NAMES = {
    MODULES: _MODULE_NAMES,
    FUNCTIONS: _MODULE_NAMES + rb"|(?=[\w$.]*(?:func|global))[\w$.]++",
    ALL: rb"[\w$.]++",
}
#: After these, a string before ``(`` is not an operation: ``loc("x"(#y))``. Matched after the quote.
_NO_VALUE = rb'(?<![(\[,<@]")(?<![(\[,<@] ")(?<!at ")'
_NO_OPERATION = _NO_VALUE + rb'(?<!=")(?<!= ")'
#: A string at which a run stops because it names an operation, not because it does not end.
WANTED_STRING = LazyExpression(b'"' + _NO_OPERATION + rb'[\w$.]+"[ \t]*\(')


def _run(wanted: int, is_certain: bool) -> bytes:
    slash = _slash(is_certain)
    if not wanted:
        return _any(_TEXT, STRING, slash, _group(_TEXT, STRING, slash))
    line = rb"\n(?![ \t]*+" + RESULTS + rb"(?:" + _NAMES[wanted] + rb")(?![\w$.]))"
    string = b'"(?!' + _NO_OPERATION + rb"(?:" + _GENERIC_NAMES[wanted] + rb')"[ \t]*\()' + STRING[1:]
    items = [_LINE_TEXT, line, string, slash]
    if wanted != ALL:
        items.append(_group(_TEXT, STRING, slash))
    return _any(*items)


#: Text up to the next place to examine, by the kind of place and whether every ``//`` outside of strings is a comment
#: and thus stepped over too.
RUN = {
    (wanted, is_certain): LazyExpression(_run(wanted, is_certain))
    for wanted in (NOTHING, MODULES, FUNCTIONS, ALL)
    for is_certain in (False, True)
}

#: A brace and everything in it, by the same.
GROUP = {is_certain: LazyExpression(_group(_TEXT, STRING, _slash(is_certain))) for is_certain in (False, True)}


#: Lines that start an operation, and are not the next key of a dictionary.
_LINE = rb"\n(?=[ \t%A-Za-z_])(?<![,=]\n)(?<![,=][ \r]\n)[ \t]*+" + RESULTS + rb"([A-Za-z_][\w$.]*+)(?![ \t]*+[=,])"
_LINES = LazyExpression(_LINE)
#: Operations that may be alone in a region; any other lone word in braces is an attribute without a value.
_WORDS = ("return", "yield", "break", "continue", "unreachable", "trap", "resume", "terminator")
_ALONE = "|".join(f"(?<={word})" for word in _WORDS).encode()
_IN_BRACE = (
    rb"\{[ \t]*+" + RESULTS + rb"([A-Za-z_][\w$]*+\.[\w$.]++(?:(?=[ \t]*+\})(?:" + _ALONE + rb")"
    rb"|(?![ \t]*+\})(?!\s*+[=,]))|return(?=[ \t]*+\}))"
)
_BRACED = LazyExpression(_IN_BRACE)
_CALLED = LazyExpression(rb'"[ \t]*\(')


def _unless(expression: bytes) -> bytes:
    """Return an expression, without groups, for the first byte of ``expression`` where that does not match as a
    whole."""
    first = 2 if expression.startswith(b"\\") else 1
    return expression[:first] + b"(?!" + expression[first:].replace(b"([", b"(?:[") + b")"


_CALL = b'"' + _NO_VALUE + rb'([\w$.]++)"[ \t]*+\('
_NO_OPERATIONS = _any(
    rb'[^"/\n{]++',
    _unless(_CALL) + b"(?:" + STRING[1:] + b"|)",
    _unless(_LINE),
    _unless(_IN_BRACE),
    _slash(True),
)
#: Operations anywhere, and, empty, the end of the text. Other text is stepped over inside of the match: one object per
#: operation, and none for the rest.
_OPERATIONS = LazyExpression(_NO_OPERATIONS + b"(?:" + b"|".join((_LINE, _IN_BRACE, _CALL)) + rb"|\Z)")


#: The text after a brace that opens no region: contents of dictionaries and types, or a lone word. Empty braces are a
#: region if they end an operation.
_DICTIONARY = (
    rb"(?:(?<=attributes \{)(?=\s*+\})|(?:\s++|//[^\r\n]*+)*+"
    rb'(?:(?:"[^"\\\r\n]*+"|[A-Za-z_][\w$.]*+)\s*+[=,]|"[^"\\\r\n]*+"\s*+\}|[!#(<\[0-9-]'
    rb"|\}(?![ \t]*+(?:loc\(|//|[\r\n}]|\Z))))"
)
_LONE_WORD = rb"[ \t]*+([A-Za-z_][\w$.]*+)[ \t]*+\}"
_BRACE = LazyExpression(rb"\{(?:" + _DICTIONARY + rb"()|" + _LONE_WORD + rb")")
_LONE = tuple(word.encode() for word in _WORDS)


def is_region(window: bytes, at: int) -> bool:
    """Return whether a brace opens a region; dictionaries and the bodies of types have braces too."""
    if window[at - 1 : at] == b"<":
        return False
    found = _BRACE.match(window, at)
    if found is None:
        return True
    return found.lastindex == 2 and found[2].endswith(_LONE)


def _function(*, is_next: bool) -> bytes:
    slash = _slash(True)
    inner = _any(_TEXT, STRING, slash, _group(_TEXT, STRING, slash))
    lone = rb"[ \t]*+[A-Za-z_][\w$.]*+" + b"".join(b"(?<!%s)" % word for word in _LONE) + rb"[ \t]*+\}"
    is_dictionary = b"(?:" + _DICTIONARY + b"|" + lone + b")"
    flat = rb'[^{}"/\n]++|' + STRING + rb"|/(?!/)"
    deep = rb'[^{}"/]++|' + STRING + rb"|/(?!/)"
    dictionary = rb"(?:\{(?<=<\{)|\{(?=" + is_dictionary + rb"))" + _any(deep, rb"\{" + _any(deep) + rb"\}") + rb"\}"
    place = rb"loc\(" + _any(rb'[^()"\n]++', STRING, rb"\(" + _any(rb'[^()"\n]++', STRING) + rb"\)") + rb"\)"
    leap = b"" if is_next else b"(?:|" + _run(FUNCTIONS, True) + b")"
    return (
        leap
        + rb"\n[ \t]*+([A-Za-z_][\w$.]*+(?<=func)"
        + rb'[^\n"{}@/]*+@([A-Za-z_][\w$.]*+)'
        + _any(flat, dictionary)
        + rb")(?:(\{)(?<!<\{)(?!"
        + is_dictionary
        + b")"
        + inner
        + rb"\}|)[ \t]*+(?:"
        + place
        + rb"|)(?=[ \t\r]*+(?://[^\r\n]*+|)\n[ \t\r\n]*+(?://[^\r\n]*+[ \t\r\n]*+)*+"
        + rb'(?:\}|[A-Za-z_]\w*+[.$]|(?:module|func|return)\b|"[\w$.]++"[ \t]*+\())'
    )


#: A function that is plain: the next operation, or the next function that may matter. A function is plain if its head
#: is one line, only a location follows its region, if it has one, and the next line has another operation or the end of
#: the enclosing region. The groups are the head from the name of the operation on, the symbol, and the brace of the
#: body, if it has one. For text in which every ``//`` is a comment.
NEXT_FUNCTION = LazyExpression(_function(is_next=True))
FUNCTION = LazyExpression(_function(is_next=False))


#: Number of operations from which a Counter pays.
_FEW = 32


def count_operations(window: bytes, start: int, end: int, counts: dict[bytes, int]) -> None:
    """Add the operations in a part of a window to ``counts``; names of generic ones without a dot get a quote."""
    if not (_CALLED.search(window, start, end) or _BRACED.search(window, start, end)):
        names = _LINES.findall(window, start, end)
        if len(names) < _FEW:
            for name in names:
                counts[name] = counts.get(name, 0) + 1
            return
        for name, number in Counter(names).items():
            counts[name] = counts.get(name, 0) + number
        return
    for (line, braced, called), number in Counter(_OPERATIONS.findall(window, start, end)).items():
        name = line or braced or (called if b"." in called or not called else b'"' + called)
        if name:
            counts[name] = counts.get(name, 0) + number


#: Bytes before a position that lookbehinds read.
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
    """Reads a region to its end; ``_depth`` braces are open in it."""

    def __init__(self, text: Lexer, start: int, sink: RegionVisitor) -> None:
        self._text = text
        self._sink = sink
        self._depth = 0
        self._is_noted = False
        self._is_certain = True  # in the part being read, every ``//`` outside of strings is a comment
        self._base = 0  # of the window being read: the visitor may move the lexer's own
        self._comments = Comments(text, start)

    def window(self, at: int) -> tuple[int, bool]:
        """Read the window; return the position to continue from, or the end of the region, and whether it is closed."""
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
        """Read a part of the window up to ``limit``; the visitor chooses operations for all bytes up to
        ``bound``."""
        text, base = self._text, self._base
        counted = begin = index
        wanted = self._sink.wants(window, index, bound)
        while True:
            run = RUN[NOTHING if self._depth else wanted, self._is_certain].match(window, index, limit)
            assert run is not None  # it matches at least the empty text
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
            elif code == _QUOTE and (self._depth or not WANTED_STRING.match(window, index)):
                # The end of the window may cut it: then it is matched again with more bytes after it.
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
            count_operations(window, start, end, self._sink.counts)

    def _child(self, window: bytes, index: int, limit: int, counted: int) -> tuple[int | None, int]:
        """Report the operation at a line end or string; return the position it was read to, and the index after its
        name.

        An operation that is read to its end counts its own contents, so the text before it, and its name, are counted
        now. Plain functions are read together; then the index is that after the last.
        """
        base = self._base
        if self._is_certain:
            after = self._sink.functions(window, base, index, limit)
            if after > index:
                return None, after
        first = index
        while window[first] in b" \t\r\n":
            first += 1
        found = OPERATION.match(window, first)
        if found is None or not found.lastindex:  # a blank line, or a line of values that are not results
            return None, first
        group = found.lastindex
        name, name_end = found[group], found.end(group) + (group > 1)
        done = self._sink.child(name, base + first, base + name_end)
        if done is None:
            return None, name_end
        self._count(window, counted, index)
        self._sink.counts[name] = self._sink.counts.get(name, 0) + 1
        self._comments = Comments(self._text, done)  # an operation that was read to its end need not be read again
        return _directly(self._text, done, self._sink), name_end

    def _opened(self, window: bytes, index: int, limit: int) -> int:
        """Step over a brace, and its contents if they are all in the window; return the index after it."""
        base = self._base
        is_noted = not self._depth and is_region(window, index)
        if is_noted:
            self._sink.opened(base + index)
        group = GROUP[self._is_certain].match(window, index, limit)
        if group:
            if is_noted:
                self._sink.closed(base + group.end())
            return group.end()
        if not self._depth:
            self._is_noted = is_noted
        many = OPENERS.match(window, index, limit)
        if many is None:
            self._depth += 1
            return index + 1
        self._depth += window.count(b"{", index, many.end())
        return many.end()

    def _closed(self, window: bytes, index: int, limit: int) -> int:
        """Step over closing braces, as many as are open; return the index after it."""
        run = CLOSERS.match(window, index, limit)
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
    """Return the limit for reading a window that is not the last: a line end, or another safe place."""
    limit = window.rfind(b"\n", index + 1)
    if limit > index:
        return limit
    limit = max(len(window) - MARGIN, index + 1)
    for safe in range(limit, max(limit - _BACK, index + 1), -1):
        if window[safe - 1] not in b'" \t/{\\':
            return safe
    return limit


def _directly(text: Lexer, at: int, sink: RegionVisitor) -> int:
    """Read operations that follow without a line end between them; return the position to continue from."""
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
