"""Alias definitions at file level: ``#loc = loc("a.cu":1:2)``, ``!s32i = !cir.int<s, 32>``; and the ends of values.

A definition ends where its value does, not with the line. Nearly all lines of large files are locations or plain
types, which one expression steps over; the others, and all in small files, are parsed by the grammar.
"""

from __future__ import annotations

from fatpack.formats.cir.text.lexer import BARE_ID, NUMBER, PLAIN_BODY, SIGIL_ID, SYMBOL, Lexer
from fatpack.formats.cir.text.strings import syntax_error
from fatpack.formats.cir.vocabulary import LazyExpression
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: A line that needs no parsing: a name, and a value.
_NAME = rb"[#!](?:[0-9]+|[A-Za-z$_-][A-Za-z0-9$_-]*+)"
_VALUE = (
    rb'loc\((?:"[^"\\\n\v\f]*+":[0-9]+:[0-9]+|fused\[[#\w, $-]*+\]|callsite\(#[\w$-]++ at #[\w$-]++\)'
    rb'|(?:"[^"\\\n\v\f]*+"\()?#[\w$-]++\)?)\)'
    rb"|[#!][A-Za-z$_-][\w$.-]*+(?:<[^<>(){}\[\]\"/]*+>|" + PLAIN_BODY.pattern + rb")?+(?![\w$.<-])"
    rb"|(?:(?!(?:loc|distinct)\b)[A-Za-z_][\w$.]*+(?:" + PLAIN_BODY.pattern + rb')?+|"[^"\\\n\v\f]*+"'
    rb"|-?(?:0x[0-9A-Fa-f]++|[0-9]++(?:\.[0-9]*+(?:[eE][-+]?[0-9]++)?)?))(?:[ \t]*+:[ \t]*+!?[A-Za-z_][\w$.]*+(?:"
    + PLAIN_BODY.pattern
    + rb")?+)?+(?![\w$.<-])"
    rb"|\[[^\[\](){}<>/\n-]*+\]"
)
#: The line end, if the value does not go on after it.
_END = rb"[ \t]*+\r?\n(?![ \t\r\n]*+(?::|->|<|//))"
_LINE = LazyExpression(rb"(%s)[ \t]*+=[ \t]*+(%s)%s" % (_NAME, _VALUE, _END))
#: As many such lines as there are, and the bytes after the last.
_LINES = LazyExpression(
    rb"(?:[ \t\r\n]*+%s[ \t]*+=[ \t]*+(?:%s)%s(?=[ \t\r\n]*+[^ \t\r\n:</-]))*+" % (_NAME, _VALUE, _END)
)


class AliasDefinition(Record):
    """An alias definition: its name with the sigil, its start, and the start and end of its value."""

    name: bytes
    start: int
    value: int
    end: int


def read_definitions(text: Lexer, at: int, end: int) -> Iterator[AliasDefinition]:
    """Yield the definitions of a run between two positions."""
    match = _LINE.match if text.is_long else None
    while (at := text.space_end(at)) < end:
        start, index = at, text.seek(at)
        window, base, is_last = text.window, text.base, text.is_last
        while match and (found := match(window, index)):
            if found.end() == len(window) and not is_last:
                break
            yield AliasDefinition(found[1], base + index, base + found.start(2), base + found.end(2))
            index = found.end()
            if base + index >= end:
                return
        at = base + index
        if at == start:
            definition = definition_at(text, at)
            yield definition
            at = definition.end


def run_end(text: Lexer, at: int) -> int:
    """Return the position after the run of definitions that starts at ``at``."""
    end = at
    while True:
        at = text.space_end(at)
        if text.peek(at) not in (b"#", b"!"):
            return end
        found = None
        if text.is_long:
            found = _LINES.match(text.window, text.seek(at))
            if not found or not found.end() > found.start():
                found = text.match(_LINE, at)
        end = text.end(found) if found else definition_at(text, at).end
        at = end


def definition_at(text: Lexer, at: int) -> AliasDefinition:
    """Return the definition that starts at ``at``, by the grammar."""
    found = text.match(SIGIL_ID, at)
    if not found:
        raise syntax_error(text.view, at, "wrong alias definition", expected="a name after '#' or '!'")
    name, end = found[0], text.end(found)
    following = text.space_end(end)
    if text.peek(following) != b"=":
        raise syntax_error(text.view, following, "wrong alias definition", expected="'=' after the name of an alias")
    if b"." in name:
        raise syntax_error(
            text.view, at, f"alias {name.decode()} has a dot in its name", hint="dots mark names of dialects"
        )
    value = text.space_end(following + 1)
    return AliasDefinition(name, at, value, value_end(text, value))


def value_end(text: Lexer, at: int) -> int:
    """Return the position after the attribute value or type that starts at ``at``, and its type."""
    while True:
        end, joint = _part_end(text, at)
        following = text.space_end(end)
        if not joint or text.peek(following, len(joint)) != joint:
            return end
        at = text.space_end(following + len(joint))


def _part_end(text: Lexer, at: int) -> tuple[int, bytes]:
    """Return the position after a value without its type, and the token before a type: ``:``, ``->`` or nothing."""
    token = text.peek(at)
    if token in _BY_FIRST:
        find_end, joint = _BY_FIRST[token]
        return find_end(text, at), joint
    word = text.match(BARE_ID, at)
    if word:
        return _word_end(text, word[0], text.end(word))
    number = text.match(NUMBER, at)
    if number:
        return text.end(number), b":"
    raise syntax_error(text.view, at, "wrong alias definition", expected="an attribute value or a type")


def _sigil_end(text: Lexer, at: int) -> int:
    found = text.match(SIGIL_ID, at)
    if not found:
        raise syntax_error(text.view, at, "wrong value", expected="a name after '#' or '!'")
    end = text.end(found)
    return text.balanced_end(end) if text.peek(end) == b"<" else end


def _symbol_end(text: Lexer, at: int) -> int:
    while True:
        if not text.match(SYMBOL, at):
            raise syntax_error(text.view, at, "wrong symbol", expected="a name or a string after '@'")
        word = text.match(BARE_ID, at + 1)
        at = text.end(word) if word else text.string_end(at + 1)
        following = text.space_end(at)
        if text.peek(following, 2) != b"::":
            return at
        at = text.space_end(following + 2)


def _word_end(text: Lexer, word: bytes, end: int) -> tuple[int, bytes]:
    following = text.space_end(end)
    token = text.peek(following)
    if word == b"loc" and token == b"(":
        return text.balanced_end(following), b""
    if word == b"distinct" and token == b"[":
        end = text.balanced_end(following)
        following = text.space_end(end)
        token = text.peek(following)
    if token == b"<":
        end = text.balanced_end(following)
    return end, b":"


#: first byte of a value → the function that finds its end, and the token before a type after it
_BY_FIRST: dict[bytes, tuple[Callable[[Lexer, int], int], bytes]] = {
    b"#": (_sigil_end, b":"),
    b"!": (_sigil_end, b""),
    b'"': (Lexer.string_end, b":"),
    b"[": (Lexer.balanced_end, b""),
    b"{": (Lexer.balanced_end, b""),
    b"@": (_symbol_end, b""),
    b"(": (Lexer.balanced_end, b"->"),
}
