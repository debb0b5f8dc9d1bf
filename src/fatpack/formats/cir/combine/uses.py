"""What a stretch of text uses: aliases, named records, resources. The one expression that finds and renames them.

``%0#1`` is the second result of ``%0`` and uses no alias, ``#cir`` of ``#cir<…>`` and anything with a dot name a
dialect; strings and comments use nothing. A record is named by the first string behind ``!cir.struct<`` (``union``,
``class``, ``record``), with words such as ``struct`` before it; where a brace comes first it has no name.
"""

from __future__ import annotations

import re

from fatpack.formats.cir.text.comments import Comments
from fatpack.formats.cir.text.window import MARGIN, Text
from fatpack.io.sources.memory import BytesSource

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TypeAlias

    from fatpack.io.source import View

    Use: TypeAlias = tuple[str, int, int, bytes, bytes]
    """Of what, where the name stands and ends, the name as spelled, the kind of a record. Files have millions."""

RECORD = re.compile(
    rb"!cir\.(struct|union|class|record)<[ \t\r\n]*((?:[a-z]\w*[ \t\r\n]+)*)" rb'("[^"\\\n]*(?:\\.[^"\\\n]*)*")'
)
_USE = re.compile(
    rb'"[^"\\\n\v\f]*"|"|//|([#!](?:[0-9]+|[A-Za-z$_-][A-Za-z0-9$_-]*))(?![\w$.<-])'
    rb"|" + RECORD.pattern + rb'|\bdense_resource<[ \t\r\n]*([\w$.]+|"[^"\\\n]*")'
)
_RESULT = re.compile(rb"%[\w$.-]+\Z")
_KINDS = (b"struct", b"union", b"class")

#: What a text that uses anything holds.
_MARKS = (b"#", b"!", b"dense_resource")

ALIAS, RECORD_NAME, RESOURCE = "alias", "record", "resource"


def uses(view: View, start: int, end: int) -> Iterator[Use]:
    """Yield every use of an alias, a named record or a resource between two positions, in order."""
    text = Text(view.slice(0, end))
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
            elif group == 5:
                yield RESOURCE, base + found.start(5), base + found.end(5), found[5], b""
            else:
                kind = record_kind(found[2], found[3])
                yield RECORD_NAME, base + found.start(4), base + found.end(4), found[4], kind


def uses_in(value: bytes) -> Iterator[Use]:
    """Yield every use in a short text, such as the value of a definition."""
    if not any(mark in value for mark in _MARKS):
        return
    if b"//" in value or b"\\" in value:
        yield from uses(BytesSource(value).view(), 0, len(value))
        return
    for found in _USE.finditer(value):
        group = found.lastindex
        if group == 1:
            name = found[1]
            if not (name[0] == 35 and 47 < name[1] < 58 and is_result(value, found.start())):
                yield ALIAS, found.start(), found.end(), name, b""
        elif group == 5:
            yield RESOURCE, found.start(5), found.end(5), found[5], b""
        elif group is not None:
            yield RECORD_NAME, found.start(4), found.end(4), found[4], record_kind(found[2], found[3])


def is_result(window: bytes, at: int) -> bool:
    """Return whether a ``#1`` belongs to the value before it: ``%0#1``."""
    before = window[max(at - 256, 0) : at]
    return _RESULT.search(before) is not None


def record_kind(mnemonic: bytes, words: bytes) -> bytes:
    """Return the kind of a record: the word before its name, or the name of its type."""
    return next((word for word in reversed(words.split()) if word in _KINDS), mnemonic)
