"""Attributes of containers on operations that are no modules, which the verifier of the CIR dialect refuses."""

from __future__ import annotations

from fatpack import limits
from fatpack.formats.cir.expressions import LazyExpression
from fatpack.formats.cir.text.lexer import BLANK_EXPRESSION, STRING
from fatpack.formats.cir.text.patterns import OPERATION
from fatpack.formats.cir.verify import RuleBreach
from fatpack.formats.cir.vocabulary import CONTAINER, MODULE_NAMES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from fatpack.formats.cir.modules.model import FileOutline, TextModule
    from fatpack.io.source import View

#: What both words start with: one search finds them.
_PREFIX = b"cir.offload."

#: LIMIT: occurrences of the words that are looked at, bytes of a line before one, and bytes before all of them.
_MOST = 10_000
_LINE = 1 << 16
_BUDGET = 1 << 24
#: LIMIT: lines before one in which the operation is looked for whose dictionary is in several, and their bytes.
_LINES = 64
_NEAR = 1 << 13

#: A word, and what can stand behind the name of an attribute; no match is longer.
_WORD = LazyExpression(rb"(cir\.offload\.container|cir\.offload\.kind)[ \t\r\n\0]{0,60}[=,}]")
_LONGEST = 128

_BRACES = LazyExpression(rb"[{}]")
_STRING = LazyExpression(STRING)
_NAME = LazyExpression(rb'"[\w$.]+"')


def misplaced_in_text(outline: FileOutline) -> Iterator[RuleBreach]:
    """Yield a breach for every such attribute on an operation that is known, from its lines, to be no module.

    Where a limit ends the search, the last one says so.
    """
    view = outline.text
    listed = set(_keys(outline.modules))
    budget = _BUDGET
    for number, (at, word) in enumerate((at, word) for at, word in _find_attribute_words(view) if at not in listed):
        before = _before(view, at)
        budget -= len(before)
        if number == _MOST or budget < 0:
            text = f"only {number} places of 'cir.offload' attributes are checked, and more follow"
            yield RuleBreach("FP1005", at, text)
            return
        if _is_attribute(before):
            yield RuleBreach("FP1502", at, f"expects '{word.decode()}' attribute to be attached to 'builtin.module'")


def _find_attribute_words(view: View) -> Iterator[tuple[int, bytes]]:
    """Yield the places of both words with something behind them that follows the name of an attribute."""
    at = max(view.find(_PREFIX), 0)
    while at < len(view):
        block = view.head(at, limits.CHUNK)
        is_last = at + len(block) >= len(view)
        end = len(block) if is_last else len(block) - _LONGEST
        for found in _WORD.finditer(block):
            if found.start() < end:
                yield at + found.start(), found[1]
        at += end


def _keys(modules: Iterable[TextModule]) -> Iterator[int]:
    for module in modules:
        for attr in module.attrs:
            yield attr.key[0]
        yield from _keys(module.modules)


def _before(view: View, at: int) -> bytes:
    """Return the line before a position, and if it is short those before it."""
    before = view.read(max(at - _LINE, 0), min(at, _LINE))
    start = before.rfind(b"\n") + 1
    return before[start:] if len(before) - start > _NEAR else before[-_NEAR:]


def _is_attribute(before: bytes) -> bool:
    """Return whether the name of an attribute, and of what is no module, can stand behind a text."""
    head = _head(before)
    if head[-1:] not in (b"{", b",") or head.count(b'"') % 2:
        return False
    found = OPERATION.match(head)
    if found is None or not found.lastindex or not _is_own(head):
        return False
    name = found[found.lastindex]
    return b"." in name and name not in MODULE_NAMES and name != CONTAINER


def _head(before: bytes) -> bytes:
    """Return the operation that ends where a text does, from its first line on: without strings and comments."""
    lines = before.rsplit(b"\n", _LINES)[-_LINES:]
    head = _plain(lines.pop())
    while lines and (not head or b"{" not in head):
        line = _plain(lines.pop())
        if line and line[-1:] not in (b"{", b","):
            break
        head = (line + b" " + head).strip(BLANK_EXPRESSION)
    return head


def _plain(line: bytes) -> bytes:
    """Return a line without blanks around it and comments behind it; of strings only the names of operations stay."""
    shown = _STRING.sub(lambda found: found[0] if _NAME.fullmatch(found[0]) else b'""', line)
    return shown.partition(b"//")[0].strip(BLANK_EXPRESSION)


def _is_own(head: bytes) -> bool:
    """Return whether the dictionary that is open at the end is that of the operation, and not a value in it."""
    depth = 0
    for brace in reversed(list(_BRACES.finditer(head))):
        depth += 1 if brace[0] == b"}" else -1
        if depth < 0:
            return head[: brace.start()].rstrip(BLANK_EXPRESSION)[-1:] not in b"=[,({:"
    return False
