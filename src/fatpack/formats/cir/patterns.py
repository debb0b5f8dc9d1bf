"""The expressions that go through the bodies of modules; ``body`` says how they work together.

Every piece of text has one way to match, so that no expression tries a stretch twice, whatever it holds; possessive
repeats save the notes for going back.
"""

from __future__ import annotations

import re
from collections import Counter

from fatpack.formats.cir.text import STRING

TYPE_CHECKING = False
if TYPE_CHECKING:
    from re import Pattern

#: Which operations directly in a region stop the run: none; modules; functions and globals too; all.
NOTHING, MODULES, FUNCTIONS, ALL = range(4)


def _any(*items: bytes) -> bytes:
    """Return the expression for as many of these as there are."""
    return b"(?:" + b"|".join(items) + b")*+"


RESULTS = rb"(?:%[\w$.:,# %-]{1,2000}=[ \t]*)?"
OPERATION = re.compile(RESULTS + rb'(?:([A-Za-z_][\w$.]*)|"([\w$.]+)"[ \t]*\()')

_TEXT = rb'[^{}"/\n]++'
#: A line end, and what makes ``//`` a comment for certain: a block label before it, or a line of its own behind
#: something that ends an operation or opens its region.
_COMMENTS = (
    rb"[ \t]*\^[^\r\n\"{}/]*:[ \t]*//[^\r\n]*"
    rb"|(?:(?<=[\w{})>\]]\n)|(?<=[\w{})>\]]\r\n))[ \t\r\n]*//[^\r\n]*(?:[ \t]*[\r\n][ \t\r\n]*//[^\r\n]*)*"
)
_NEWLINE = rb"\n(?:" + _COMMENTS + rb")?"
_SLASH = rb"/(?!/)"
_ITEMS = (_TEXT, STRING, _NEWLINE, _SLASH)

#: Braces that enclose others up to a depth; what is deeper is counted brace by brace.
_LEVELS = 4


def _group() -> bytes:
    group = rb"\{" + _any(*_ITEMS) + rb"\}"
    for _ in range(_LEVELS - 1):
        group = rb"\{" + _any(*_ITEMS, group) + rb"\}"
    return group


_GROUP = _group()
GROUP = re.compile(_GROUP)
OPENERS = re.compile(rb'\{(?:[ \t\r]*\n[^{}"/\n=]*\{)+(?=[ \t\r]*\n)')
CLOSERS = re.compile(rb"\}(?:[ \t\r\n]*\})*")

_MODULE_NAMES = rb"builtin\.module|cir\.offload\.(?:container|module)"
#: A word that starts no operation at the start of a line: it goes on with the head of one.
_HEAD_WORD = rb"(?!(?:module|func|return)\b)[A-Za-z_]\w*+(?![\w$.])"
#: Behind the name of a function or global, if it may be a kernel, launch one, or hold a GPU binary: the words stand in
#: its line, or that is not all of its head, or what follows cannot be seen. Blank lines and comments may stand between.
_MATTERS = (
    rb"(?=[^\n]*(?:kernel|fatbin_str|attributes[ \t]*\{[ \t\r]*(?://[^\n]*)?\n"
    rb"|(?<!\{)(?<!\{\r)\n(?:[ \t\r]*(?://[^\n]*)?\n)*+(?:\Z|[ \t]*(?:->|[%@!(),:{]|" + _HEAD_WORD + rb")))|[^\n]*\Z)"
)
MATTERS = re.compile(_MATTERS)
_NAMES = {
    MODULES: rb"module|" + _MODULE_NAMES,
    FUNCTIONS: rb"module|" + _MODULE_NAMES + rb"|(?=[\w$.]*(?:func|global))[\w$.]++" + _MATTERS,
    ALL: rb"(?!" + _HEAD_WORD + rb')[A-Za-z_][\w$.]*|"[\w$.]+"',
}
_GENERIC_NAMES = {
    MODULES: _MODULE_NAMES,
    FUNCTIONS: _MODULE_NAMES + rb"|(?=[\w$.]*(?:func|global))[\w$.]++",
    ALL: rb"[\w$.]+",
}
#: Not behind these is a string before ``(`` an operation: ``loc("x"(#y))``.
_NO_OPERATION = rb"(?<![(\[,<=@])(?<![(\[,<=@] )(?<!at )"
#: A string at which a run stops because it names an operation, not because it does not end.
WANTED_STRING = re.compile(_NO_OPERATION + rb'"[\w$.]+"[ \t]*\(')

_runs: dict[int, Pattern[bytes]] = {}


def run(wanted: int) -> Pattern[bytes]:
    """Return the expression that steps over text up to what has to be looked at."""
    found = _runs.get(wanted)
    if found is None:
        items = [_TEXT, STRING, _NEWLINE, _SLASH, _GROUP]
        if wanted:
            items[1] = rb"(?!" + _NO_OPERATION + rb'"(?:' + _GENERIC_NAMES[wanted] + rb')"[ \t]*\()' + STRING
            items[2] = rb"(?!\n[ \t]*" + RESULTS + rb"(?:" + _NAMES[wanted] + rb")(?![\w$.]))" + _NEWLINE
        if wanted == ALL:
            items.pop()
        found = _runs[wanted] = re.compile(_any(*items))
    return found


#: Lines that start an operation, and are not the next key of a dictionary.
_LINE = rb"\n(?<![,=]\n)(?<![,=]\r\n)(?<![,=] \n)[ \t]*" + RESULTS + rb"([A-Za-z_][\w$.]*)(?![\w$.])(?![ \t]*[=,])"
_LINES = re.compile(_LINE)
#: Operations that may stand alone in a region; any other lone word in braces is an attribute without a value.
_WORDS = ("return", "yield", "break", "continue", "unreachable", "trap", "resume", "terminator")
_ALONE = "|".join(f"(?<={word})" for word in _WORDS).encode()
_IN_BRACE = (
    rb"\{[ \t]*" + RESULTS + rb"([A-Za-z_][\w$]*\.[\w$.]+(?![\w$.])(?:(?=[ \t]*\})(?:" + _ALONE + rb")"
    rb"|(?![ \t]*\})(?!\s*[=,]))|return(?=[ \t]*\}))"
)
_BRACED = re.compile(_IN_BRACE)
_CALLED = re.compile(rb'"[ \t]*\(')
_EVERYWHERE = re.compile(
    _LINE
    + b"|"
    + _IN_BRACE
    + rb"|(?:%[\w$.-]+(?::[0-9]+)?[ \t]*=[ \t]*|"
    + _NO_OPERATION
    + rb')"([\w$.]+)"[ \t]*\(|'
    + STRING
    + rb"|//[^\r\n]*"
)

#: What follows a brace: something that only dictionaries and types hold, or a lone word.
_BRACE = re.compile(
    rb'\{(?:(?:\s++|//[^\r\n]*+)*+(?:(?:"[^"\\\r\n]*"|[A-Za-z_][\w$.]*)\s*[=,]|"[^"\\\r\n]*"\s*\}|[}!#(<\[0-9-])()'
    rb"|[ \t]*([A-Za-z_][\w$.]*)[ \t]*\})"
)
_LONE = tuple(word.encode() for word in _WORDS)


def is_region(window: bytes, at: int) -> bool:
    """Return whether a brace opens a region; dictionaries and the bodies of types have braces too."""
    if window[at - 1 : at] == b"<":
        return False
    found = _BRACE.match(window, at)
    if found is None:
        return True
    return found.lastindex == 2 and found[2].endswith(_LONE)


def count(window: bytes, start: int, end: int, counts: dict[bytes, int]) -> None:
    """Add the operations in a part of a window to their counts; the names of generic ones without a dot get a quote."""
    if not (_CALLED.search(window, start, end) or _BRACED.search(window, start, end)):
        for name, number in Counter(_LINES.findall(window, start, end)).items():
            counts[name] = counts.get(name, 0) + number
        return
    for (line, braced, called), number in Counter(_EVERYWHERE.findall(window, start, end)).items():
        name = line or braced or (called if b"." in called or not called else b'"' + called)
        if name:
            counts[name] = counts.get(name, 0) + number
