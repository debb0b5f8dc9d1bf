"""The expressions that go through the bodies of modules; ``body`` says how they work together.

Every piece of text has one way to match, and repeats are possessive, so that no expression tries a stretch twice,
whatever it holds. Alternatives start with the byte that decides, which is all that the others cost.
"""

from __future__ import annotations

from collections import Counter

from fatpack.formats.cir.expressions import LazyExpression
from fatpack.formats.cir.text.lexer import STRING

#: Which operations directly in a region stop the run: none; modules; functions and globals too; all.
NOTHING, MODULES, FUNCTIONS, ALL = range(4)


def _any(*items: bytes) -> bytes:
    """Return the expression for as many of these as there are."""
    return b"(?:" + b"|".join(items) + b")*+"


RESULTS = rb"(?:%[\w$.:,# %-]{1,2000}+=[ \t]*+|)"
OPERATION = LazyExpression(RESULTS + rb'(?:([A-Za-z_][\w$.]*)|"([\w$.]+)"[ \t]*\()')

_TEXT = rb'[^{}"/]++'
_LINE_TEXT = rb'[^{}"/\n]++'
_COMMENT = rb"//[^\r\n]*+"
#: A slash where ``//`` may be no comment: the run stops at both bytes together.
_ONE_SLASH = rb"/(?!/)"

#: Braces that enclose others up to a depth; what is deeper is counted brace by brace.
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
#: A word that starts no operation at the start of a line: it goes on with the head of one.
_HEAD_WORD = rb"(?!(?:module|func|return)\b)[A-Za-z_]\w*+(?![\w$.])"


def _matters(word: bytes) -> bytes:
    """Return the expression for what stands behind the name of an operation that may have a word in its head.

    The word stands in its line, or that is not all of its head, or what follows cannot be seen. Blank lines and
    comments may stand between.
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
#: A function that may be a kernel or launch one, and a global that may hold a GPU binary, from behind the name on.
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
#: Not behind these is a string before ``(`` an operation: ``loc("x"(#y))``. Looked for behind the quote.
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


#: Text up to what has to be looked at, by what that is and whether every ``//`` outside of strings is a comment, to be
#: stepped over too.
RUN = {
    (wanted, is_certain): LazyExpression(_run(wanted, is_certain))
    for wanted in (NOTHING, MODULES, FUNCTIONS, ALL)
    for is_certain in (False, True)
}

#: A brace and all that it encloses, by the same.
GROUP = {is_certain: LazyExpression(_group(_TEXT, STRING, _slash(is_certain))) for is_certain in (False, True)}


#: Lines that start an operation, and are not the next key of a dictionary.
_LINE = rb"\n(?=[ \t%A-Za-z_])(?<![,=]\n)(?<![,=][ \r]\n)[ \t]*+" + RESULTS + rb"([A-Za-z_][\w$.]*+)(?![ \t]*+[=,])"
_LINES = LazyExpression(_LINE)
#: Operations that may stand alone in a region; any other lone word in braces is an attribute without a value.
_WORDS = ("return", "yield", "break", "continue", "unreachable", "trap", "resume", "terminator")
_ALONE = "|".join(f"(?<={word})" for word in _WORDS).encode()
_IN_BRACE = (
    rb"\{[ \t]*+" + RESULTS + rb"([A-Za-z_][\w$]*+\.[\w$.]++(?:(?=[ \t]*+\})(?:" + _ALONE + rb")"
    rb"|(?![ \t]*+\})(?!\s*+[=,]))|return(?=[ \t]*+\}))"
)
_BRACED = LazyExpression(_IN_BRACE)
_CALLED = LazyExpression(rb'"[ \t]*\(')


def _unless(expression: bytes) -> bytes:
    """Return the expression for the first byte of one where that does not match; it takes no part in groups."""
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
#: Operations wherever they stand, and, empty, the end of the text. What no operation starts with is stepped over inside
#: of the match: an object per operation, and none for the rest.
_OPERATIONS = LazyExpression(_NO_OPERATIONS + b"(?:" + b"|".join((_LINE, _IN_BRACE, _CALL)) + rb"|\Z)")


#: What follows a brace: something that only dictionaries and types hold, or a lone word. Of empty braces, those that
#: end an operation are its region.
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


#: A function that is plain: the next operation, or the next function that may matter. Plain is one whose head stands in
#: one line, with nothing but a location behind its region, if it has one, and another operation or the end of the
#: region it is in in the next line. The groups are the head from the name of the operation on, the symbol, and the
#: brace of the body, if it has one. For text in which every ``//`` is a comment.
NEXT_FUNCTION = LazyExpression(_function(is_next=True))
FUNCTION = LazyExpression(_function(is_next=False))


#: Operations from which on a Counter pays.
_FEW = 32


def count_operations(window: bytes, start: int, end: int, counts: dict[bytes, int]) -> None:
    """Add the operations in a part of a window to their counts; the names of generic ones without a dot get a quote."""
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
