"""What a stretch of text uses: aliases, named records, resources. The one expression that finds and renames them.

``%0#1`` is the second result of ``%0`` and uses no alias, ``#cir`` of ``#cir<…>`` and anything with a dot name a
dialect; strings and comments use nothing. A record is named by the first string behind ``!cir.struct<`` (``union``,
``class``, ``record``), with words such as ``struct`` before it; where a brace comes first it has no name.
"""

from __future__ import annotations

from fatpack.formats.cir.expressions import LazyExpression
from fatpack.formats.cir.text.comments import Comments
from fatpack.formats.cir.text.lexer import MARGIN, Lexer
from fatpack.formats.cir.text.strings import escape_string, unescape
from fatpack.io.memory import BytesSource

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TypeAlias

    from fatpack.io.source import View

    IdentifierUse: TypeAlias = tuple[str, int, int, bytes, bytes]
    """Of what, where the name stands and ends, the name as spelled, the kind of a record. Files have millions."""

#: A named record, and what ends one that is only referred to.
RECORD = LazyExpression(
    rb"!cir\.(struct|union|class|record)<[ \t\r\n]*((?:[a-z]\w*[ \t\r\n]+)*)"
    rb'("[^"\\\n]*(?:\\.[^"\\\n]*)*")(?=([ \t\r\n]*>)?)'
)
_USE = LazyExpression(
    rb'"[^"\\\n\v\f]*"|"|//|([#!](?:[0-9]+|[A-Za-z$_-][A-Za-z0-9$_-]*))(?![\w$.<-])'
    rb"|" + RECORD.pattern + rb'|\bdense_resource<[ \t\r\n]*([\w$.]+|"[^"\\\n]*")'
)
_RESOURCE_GROUP = 6
_RESULT = LazyExpression(rb"%[\w$.-]+\Z")
_KINDS = (b"struct", b"union", b"class")

#: What stands for an alias, a record with its body, one that is only referred to, a resource.
ALIAS, RECORD_BODY, RECORD_NAME, RESOURCE = "alias", "record body", "record name", "resource"


def find_uses(view: View, start: int, end: int) -> Iterator[IdentifierUse]:
    """Yield every use of an alias, a named record or a resource between two positions, in order."""
    text = Lexer(view.slice(0, end))
    comments = Comments(text, start)
    at = start
    while at < end:
        index = text.seek(at, 2 * MARGIN)
        window, base = text.window, text.base
        limit = len(window) if text.is_last else len(window) - MARGIN
        at = base + limit
        for found in _USE.finditer(window, index):
            begin = found.start()
            if begin >= limit:
                at = base + begin
                break
            group = found.lastindex
            if group is None:
                token = found[0]
                if token == b'"':
                    at = text.string_end(base + begin)
                    break
                if token == b"//":
                    at = comments.end(base + begin)
                    break
            elif group == 1:
                name = found[1]
                if name[0] == 35 and 47 < name[1] < 58 and is_result(window, begin):
                    continue
                yield ALIAS, base + begin, base + found.end(), name, b""
            elif group == _RESOURCE_GROUP:
                yield RESOURCE, base + found.start(group), base + found.end(group), found[group], b""
            else:
                what = RECORD_BODY if found[5] is None else RECORD_NAME
                kind = record_kind(found[2], found[3])
                yield what, base + found.start(4), base + found.end(4), spell_literal(found[4]), kind


def find_uses_in_value(value: bytes) -> Iterator[IdentifierUse]:
    """Yield every use in a short text, such as the value of a definition."""
    if b"!" not in value and b"#" not in value and b"dense_resource" not in value:
        return
    if b"//" in value or b"\\" in value:
        yield from find_uses(BytesSource(value).view(), 0, len(value))
        return
    for found in _USE.finditer(value):
        group = found.lastindex
        if group == 1:
            name = found[1]
            if not (name[0] == 35 and 47 < name[1] < 58 and is_result(value, found.start())):
                yield ALIAS, found.start(), found.end(), name, b""
        elif group == _RESOURCE_GROUP:
            yield RESOURCE, found.start(group), found.end(group), found[group], b""
        elif group is not None:
            what = RECORD_BODY if found[5] is None else RECORD_NAME
            yield what, found.start(4), found.end(4), found[4], record_kind(found[2], found[3])


def is_result(window: bytes, at: int) -> bool:
    """Return whether a ``#1`` belongs to the value before it: ``%0#1``."""
    before = window[max(at - 256, 0) : at]
    return _RESULT.search(before) is not None


def spell_literal(literal: bytes) -> bytes:
    """Return a string literal as the printer spells it: ``"a\\22b"`` and ``"a\\"b"`` are one."""
    return escape_string(unescape(literal[1:-1])) if b"\\" in literal else literal


def record_kind(mnemonic: bytes, words: bytes) -> bytes:
    """Return the kind of a record: the word before its name, or the name of its type."""
    return next((word for word in reversed(words.split()) if word in _KINDS), mnemonic) if words else mnemonic
