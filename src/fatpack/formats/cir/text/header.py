"""Headers of modules: the name and the attributes, in the form that MLIR prints and in the generic one.

::

    module @name attributes {key = value, "key" = value, unit} { … } loc(…)
    "builtin.module"() <{sym_name = "name"}> ({ … }) {key = value} : () -> () loc(…)
"""

from __future__ import annotations

from fatpack import limits
from fatpack.errors import LimitExceeded, pluralize
from fatpack.formats.cir.text.lexer import BARE_ID, BLANK_EXPRESSION, Lexer
from fatpack.formats.cir.text.strings import syntax_error, unescape
from fatpack.formats.cir.vocabulary import CIR_FORMAT, CONTAINER, PROTOTYPE, LazyExpression
from fatpack.record import Record

#: LIMIT: bytes of a name, a key or a value that is read as a whole.
LONGEST = 1 << 16

_LOCATION = LazyExpression(rb"loc[ \t\r\n]*(?=\()")
_ITEM = LazyExpression(rb'["<(\[{,})\]]|->|//')


#: The attributes that mark a module as a container.
_MARKERS = frozenset((CONTAINER, PROTOTYPE))


class TextAttribute(Record):
    """An attribute: its name, and the spans of key and value in the text; ``value`` is None for a unit attribute.

    ``literal`` is the text of the value, if it was read already.
    """

    name: bytes
    key: tuple[int, int]
    value: tuple[int, int] | None
    literal: bytes | None = None


class OperationHeader(Record):
    """The header before a region and, in the generic form, after it: name, attributes, and their end.

    ``is_marked`` is true if an attribute marks a container.
    """

    name: bytes | None
    attrs: tuple[TextAttribute, ...]
    end: int
    is_marked: bool = False


def expect(text: Lexer, at: int, what: bytes, where: str) -> int:
    """Return the position after ``what``, which must be at ``at`` or after blanks there."""
    at = text.space_end(at)
    if text.peek(at, len(what)) != what:
        raise syntax_error(text.view, at, f"wrong {where}", expected=f"{what.decode()!r}")
    return at + len(what)


#: A header as printers write it, and an attribute in one: keys and strings without escapes, values without a type. The
#: body of a value has only ``<``, one deep: an expression for more takes ten times as long to compile.
_KEY = rb'(?:[A-Za-z_][\w$.]*+|"[^"\\\n\v\f]*+")'
_TEXT = rb'[^<>(){}\[\]"/-]'
_BODY = rb"<(?:" + _TEXT + rb"++|<" + _TEXT + rb"*+>)*+>"
_VALUE = rb'(?:"[^"\\\n\v\f]*+"|[#!][A-Za-z$_-][\w$.-]*+(?:' + _BODY + rb")?+(?![\w$.<-]))"
_ATTRIBUTE = _KEY + rb"(?: = " + _VALUE + rb")?+"
_PLAIN_HEADER = LazyExpression(
    rb"[ ]?(?:@([A-Za-z_][\w$.]*+)[ ])?(?:attributes[ ]\{(" + _ATTRIBUTE + rb"(?:, " + _ATTRIBUTE + rb")*+)\}[ ])?\{"
)
_PLAIN_ATTRIBUTE = LazyExpression(rb"(" + _KEY + rb")(?: = (" + _VALUE + rb"))?")


def _plain_header(text: Lexer, at: int) -> OperationHeader | None:
    """Return the header of a module in the form that printers use for nearly all, by one expression; None for any
    other."""
    found = _PLAIN_HEADER.match(text.window, text.seek(at))
    if found is None:
        return None
    base, names = text.base, frozenset[bytes]()
    attrs: list[TextAttribute] = []
    if found[2] is not None:
        for attribute in _PLAIN_ATTRIBUTE.finditer(text.window, found.start(2), found.end(2)):
            if len(attrs) == limits.ATTRIBUTES:
                return None
            key, literal = attribute.groups()
            start, end = attribute.span(2)
            place = (base + attribute.start(), base + attribute.end(1))
            attrs.append(
                TextAttribute(key.strip(b'"'), place, None if start < 0 else (base + start, base + end), literal)
            )
        names = frozenset(attr.name for attr in attrs)
        if len(names) < len(attrs) or b"sym_name" in names:
            return None
    return OperationHeader(found[1], tuple(attrs), base + found.end(), not _MARKERS.isdisjoint(names))


def read_custom_header(text: Lexer, at: int) -> OperationHeader:
    """Return the header of a module or container whose keyword ends at ``at``; it ends after the ``{`` of the body."""
    plain = _plain_header(text, at)
    if plain:
        return plain
    name: bytes | None = None
    at = text.space_end(at)
    if text.peek(at) == b"@":
        name, at = read_symbol(text, at)
        at = text.space_end(at)
    attrs: tuple[TextAttribute, ...] = ()
    word = text.match(BARE_ID, at)
    if word and word[0] == b"attributes":
        attrs, at = read_dictionary(text, expect(text, text.end(word), b"{", "module header") - 1)
    return _header(text, name, attrs, expect(text, at, b"{", "module header"))


def read_generic_header(text: Lexer, at: int) -> OperationHeader:
    """Return the header of an operation in generic form whose name ends at ``at``, up to the ``{`` of its body."""
    at = text.balanced_end(expect(text, at, b"(", "operation") - 1)
    at = text.space_end(at)
    if text.peek(at) == b"[":
        at = text.space_end(text.balanced_end(at))
    attrs: tuple[TextAttribute, ...] = ()
    if text.peek(at) == b"<":
        attrs, at = read_dictionary(text, expect(text, at + 1, b"{", "properties") - 1)
        at = expect(text, at, b">", "properties")
    at = expect(text, at, b"(", "operation")
    return _header(text, None, attrs, expect(text, at, b"{", "operation"))


def read_generic_trailer(text: Lexer, at: int, header: OperationHeader) -> OperationHeader:
    """Return a generic header with the attributes after the region, which ends at ``at``."""
    at = text.space_end(expect(text, at, b")", "operation"))
    attrs = header.attrs
    if text.peek(at) == b"{":
        more, at = read_dictionary(text, at)
        attrs = (*attrs, *more)
    at = expect(text, at, b":", "operation")
    at = text.balanced_end(expect(text, at, b"(", "operation type") - 1)
    at = text.balanced_end(expect(text, expect(text, at, b"->", "operation type"), b"(", "operation type") - 1)
    return _header(text, header.name, attrs, at)


def read_location(text: Lexer, at: int) -> tuple[int, int] | None:
    """Return the span of a ``loc(…)`` at ``at``, after an operation and blanks; None if there is none."""
    found = text.match(_LOCATION, at)
    return (at, text.balanced_end(text.end(found))) if found else None


def read_symbol(text: Lexer, at: int) -> tuple[bytes, int]:
    """Return the name after the ``@`` at ``at``, and its end."""
    at += 1
    if text.peek(at) == b'"':
        end = text.string_end(at)
        return unescape(_short(text, at + 1, end - 1)), end
    found = text.match(BARE_ID, at)
    if not found:
        raise syntax_error(text.view, at, "wrong symbol", expected="a name or a string after '@'")
    return found[0], text.end(found)


def read_dictionary(text: Lexer, at: int) -> tuple[tuple[TextAttribute, ...], int]:
    """Return the attributes of the dictionary that starts at ``at``, and the position after it."""
    attrs: list[TextAttribute] = []
    opened = at
    at = text.space_end(at + 1)
    if text.peek(at) == b"}":
        return (), at + 1
    while True:
        attr, at = _attribute(text, text.space_end(at))
        attrs.append(attr)
        if len(attrs) > limits.ATTRIBUTES:
            raise LimitExceeded(
                f"more than {pluralize(limits.ATTRIBUTES, 'attribute')} in one dictionary",
                format=CIR_FORMAT,
                offset=text.view.offset(opened),
                hint=limits.advice("ATTRIBUTES"),
                chain=text.view.chain,
            )
        at = text.space_end(at)
        token = text.peek(at)
        if token == b"}":
            return tuple(attrs), at + 1
        if token != b",":
            raise syntax_error(text.view, at, "wrong attribute dictionary", expected="',' or '}'")
        at += 1


def _attribute(text: Lexer, at: int) -> tuple[TextAttribute, int]:
    if text.peek(at) == b'"':
        end = text.string_end(at)
        name = unescape(_short(text, at + 1, end - 1))
    else:
        found = text.match(BARE_ID, at)
        if not found:
            raise syntax_error(text.view, at, "wrong attribute dictionary", expected="the name of an attribute")
        name, end = found[0], text.end(found)
    following = text.space_end(end)
    if text.peek(following) != b"=":
        return TextAttribute(name, (at, end), None), end
    start = text.space_end(following + 1)
    value_end = find_item_end(text, start)
    if value_end == start:
        raise syntax_error(text.view, start, f"attribute {_text(name)} has no value", expected="a value")
    if text.peek(start, 5).rstrip(BLANK_EXPRESSION + b",}") == b"unit" and value_end == start + 4:
        return TextAttribute(name, (at, end), None), value_end
    return TextAttribute(name, (at, end), (start, value_end)), value_end


def find_item_end(text: Lexer, at: int) -> int:
    """Return the end of the dictionary value that starts at ``at``: before a comma or brace, blanks, comments."""
    position = end = at
    while True:
        found = text.search(_ITEM, position)
        if found is None:
            raise syntax_error(text.view, text.size, "wrong attribute dictionary", expected="',' or '}'")
        token, start, after = found[0], text.start(found), text.end(found)
        last = text.trimmed(start, position)
        if last > position:
            end = last
        if token in (b",", b"}"):
            return end
        if token in (b")", b"]"):
            raise syntax_error(text.view, start, "wrong attribute dictionary", expected="',' or '}'")
        if token == b"//":
            position = text.space_end(start)
        elif token == b"->":
            position = end = after
        else:
            position = end = text.string_end(start) if token == b'"' else text.balanced_end(start)


def _header(text: Lexer, name: bytes | None, attrs: tuple[TextAttribute, ...], end: int) -> OperationHeader:
    """Return a header with ``sym_name`` taken out of the attributes. Raises BadValue for a repeated key."""
    seen: set[bytes] = set()
    kept = []
    for attr in attrs:
        if attr.name in seen:
            raise syntax_error(text.view, attr.key[0], f"attribute {_text(attr.name)} is given twice")
        seen.add(attr.name)
        literal = read_short_text(text, attr.value) if attr.name == b"sym_name" else b""
        if literal.startswith(b'"'):
            name = unescape(literal[1:-1])
        else:
            kept.append(attr)
    return OperationHeader(name, tuple(kept), end, not _MARKERS.isdisjoint(seen))


def read_short_text(text: Lexer, span: tuple[int, int] | None) -> bytes:
    """Return a short part of a text; one that is too long to matter is truncated."""
    return text.view.read(span[0], min(span[1] - span[0], LONGEST)) if span else b""


def _short(text: Lexer, start: int, end: int) -> bytes:
    if end - start > LONGEST:
        raise syntax_error(text.view, start, f"a name of {end - start} bytes", hint=f"{LONGEST} are the most")
    return text.view.read(start, end - start)


def _text(name: bytes) -> str:
    return repr(name.decode("utf-8", "backslashreplace"))
