"""Textual MLIR as a stream: a window that moves over a file of any size, strings, blanks and balanced brackets.

The rules, from LLVM 22's ``mlir/lib/AsmParser/Lexer.cpp``, verified with mlir-opt 22:

1. No list of tokens is made. One compiled expression searches for relevant places, the rest is stepped over
   (a token per Python object costs a hundred times the file).
2. A match that ends with the window is not final: the window grows until there are bytes after the match.
3. Strings hold any byte but line ends; ``\"``, ``\\``, ``\n``, ``\t`` and two hex digits are the escapes. A string
   may be as long as the file (a fatbin in ``cir.cu.device_binary``), so long ones are walked in blocks.
4. ``//`` is a comment, but not inside the body of a dialect's attribute or type (``#x<…>``, ``!x<…>``): MLIR treats the
   body of an unknown dialect as raw text, and old ClangIR printed paths there without quotes.
"""

from __future__ import annotations

from fatpack.formats.cir.text.strings import line_and_column, long_string_end, short_string_end, syntax_error
from fatpack.formats.cir.vocabulary import LazyExpression

TYPE_CHECKING = False
if TYPE_CHECKING:
    from re import Match

    from fatpack.io.source import View


#: Size of the window, and the bytes that must follow a position for expressions that look ahead.
WINDOW = 1 << 18
MARGIN = 1 << 12

#: Minimum size of a text for which compiling the expressions that step over many values pays: those for definitions
#: take as long as five starts of the interpreter. Without them, one definition takes 0.006 of a start.
MIN_COMPILED_SIZE = 1 << 13

BARE_ID = LazyExpression(rb"[A-Za-z_][A-Za-z0-9_$.]*")
#: An alias, or a dialect's attribute or type.
SIGIL_ID = LazyExpression(rb"[#!](?:[0-9]+|[A-Za-z$._-][A-Za-z0-9$._-]*)")
SYMBOL = LazyExpression(rb"@(?=[A-Za-z_\"])")
NUMBER = LazyExpression(rb"-?(?:0x[0-9A-Fa-f]+|[0-9]+(?:\.[0-9]*(?:[eE][-+]?[0-9]+)?)?)")
_BLANK = LazyExpression(rb"[ \t\r\n\0]*")
_COMMENT = LazyExpression(rb"//[^\r\n]*(?:[ \t\r\n]*//[^\r\n]*)*")
_STRING = LazyExpression(rb'"[^"\\\n\v\f]*"')
_BRACKET = LazyExpression(rb'["<>()\[\]{}]|->|//|\{-#|#-\}')
#: Strings with only valid escapes.
STRING = rb'"[^"\\\n\v\f]*+(?:\\(?:["\\nt]|[0-9A-Fa-f]{2})[^"\\\n\v\f]*+)*+"'


def body_expression(text: bytes) -> bytes:
    """Return the expression for the body of a dialect's attribute or type; it matches nearly all of them.

    ``text`` matches bytes other than brackets, arrows and strings. Every byte has one way to match, so none is tried
    twice.
    """
    item = text + rb"|->?+|" + STRING
    flat = b"|".join(rb"\%c(?:%s)*+\%c" % (opener, item, closer) for opener, closer in (b"()", b"[]", b"{}"))
    one = rb"<(?:" + item + b"|" + flat + rb")*+>"
    two = rb"<(?:" + item + b"|" + flat + b"|" + one + rb")*+>"
    groups = b"|".join(rb"\%c(?:%s|%s)*+\%c" % (opener, item, one, closer) for opener, closer in (b"()", b"[]", b"{}"))
    return rb"<(?:" + item + b"|" + two + b"|" + groups + rb")*+>"


PLAIN_BODY = LazyExpression(body_expression(rb'[^<>(){}\[\]"/-]++'))
_BODY_PREFIX = LazyExpression(rb"[#!][A-Za-z$._-][A-Za-z0-9$._-]*\Z")

BLANK_EXPRESSION = b" \t\r\n\0"

_CLOSER = {b"(": b")", b"[": b"]", b"{": b"}", b"<": b">"}


class Lexer:
    """A text and a window over it. All positions are those of the view."""

    def __init__(self, view: View) -> None:
        self.view = view
        self.size = len(view)
        self.is_long = self.size > MIN_COMPILED_SIZE
        self.base = 0
        self.window = b""
        self._next: dict[bytes, tuple[bytes, int, int]] = {}

    def has_bytes(self, word: bytes, window: bytes, start: int, end: int) -> bool:
        """Return whether a part of a window contains a word. Each word is searched for once for all parts."""
        searched, begin, at = self._next.get(word, (b"", 0, 0))
        if searched is not window or start < begin or -1 < at < start:
            at = window.find(word, start)
            self._next[word] = window, start, at
        return at > -1 and at + len(word) <= end

    @property
    def is_last(self) -> bool:
        """True if the window reaches to the end of the text."""
        return self.base + len(self.window) >= self.size

    def load(self, at: int, size: int = WINDOW) -> None:
        """Move the window."""
        self.base = at
        self.window = self.view.head(at, size)

    def seek(self, at: int, size: int = MARGIN) -> int:
        """Return a position's index in the window, with ``size`` bytes after it if the text has them."""
        index = at - self.base
        if index < 0 or (index + size > len(self.window) and not self.is_last):
            self.load(at, max(size, WINDOW))
            return 0
        return index

    def match(self, pattern: LazyExpression, at: int) -> Match[bytes] | None:
        """Return the match of an expression at a position, rule 2; :meth:`end` returns its end."""
        index = self.seek(at)
        found = pattern.match(self.window, index)
        size = WINDOW
        while found and found.end() == len(self.window) and not self.is_last:
            size *= 4
            self.load(at, size)
            found = pattern.match(self.window)
        return found

    def search(self, pattern: LazyExpression, at: int) -> Match[bytes] | None:
        """Return the first match of an expression at or after a position; :meth:`start` returns its position."""
        index, size = self.seek(at), WINDOW
        while True:
            found = pattern.search(self.window, index)
            if self.is_last or (found and found.end() + 3 <= len(self.window)):
                return found
            if found and not found.start():
                size *= 4
            self.load(self.base + (found.start() if found else len(self.window) - MARGIN), size)
            index = 0

    def start(self, found: Match[bytes]) -> int:
        """Return the position of the latest match."""
        return self.base + found.start()

    def end(self, found: Match[bytes]) -> int:
        """Return the position after the latest match."""
        return self.base + found.end()

    def peek(self, at: int, size: int = 1) -> bytes:
        """Return the bytes at a position, fewer at the end."""
        index = self.seek(at, size)
        return self.window[index : index + size]

    def space_end(self, at: int) -> int:
        """Return the position of the first byte from ``at`` on that is neither blank nor in a comment."""
        while True:
            index = self.seek(at)
            found = _BLANK.match(self.window, index)
            assert found is not None
            at = self.base + found.end()
            if found.end() == len(self.window) and not self.is_last:
                continue
            comment = self.match(_COMMENT, at)
            if comment is None:
                return at
            at = self.end(comment)

    def trimmed(self, at: int, floor: int) -> int:
        """Return the position after the last byte before ``at`` that is not blank, at least ``floor``."""
        while at > floor:
            size = min(64, at - floor)
            left = len(self.view.read(at - size, size).rstrip(BLANK_EXPRESSION))
            at -= size - left
            if left:
                break
        return at

    def string_end(self, at: int) -> int:
        """Return the position after the string that starts at ``at``. Raises BadValue if it is not a valid string."""
        index = self.seek(at)
        found = _STRING.match(self.window, index)
        if found:
            return self.base + found.end()
        end = short_string_end(self.view, self.window, index, self.base)
        return self.base + end if end >= 0 else long_string_end(self.view, at)

    def balanced_end(self, at: int) -> int:
        """Return the position after the bracket that closes the one at ``at``.

        ``->`` is neutral, ``>`` closes only a ``<``, and any other closer discards a ``<`` that stays open:
        ``affine_set<(d0) : (d0 <= 5)>``. Raises BadValue for brackets that do not match.
        """
        if self.is_long and self.peek(at) == b"<":
            found = self.match(PLAIN_BODY, at)
            if found:
                return self.end(found)
        brackets = _Brackets()
        position = at
        while True:
            found = self.search(_BRACKET, position)
            if found is None:
                raise self._unclosed(at, brackets)
            token, start, position = found[0], self.start(found), self.end(found)
            if token == b'"':
                position = self.string_end(start)
            elif token == b"//":
                if not brackets.is_opaque:
                    position = self.space_end(start)
            elif len(token) == 1:
                if token in _CLOSER:
                    brackets.open(token, token == b"<" and not brackets.is_opaque and self._is_dialect_body(start))
                elif not brackets.close(token):
                    expected = brackets.expected
                    raise syntax_error(
                        self.view, start, "brackets do not match", expected=expected, found=f"{token.decode()!r}"
                    )
                if not brackets.stack:
                    return position

    def _is_dialect_body(self, at: int) -> bool:
        """Return whether a ``<`` directly follows the name of a dialect's attribute or type."""
        index = at - self.base
        before = self.window[max(index - 256, 0) : index] if index >= 256 or not self.base else b""
        if not before:
            before = self.view.head(max(at - 256, 0), min(at, 256))
        return _BODY_PREFIX.search(before) is not None

    def _unclosed(self, at: int, brackets: _Brackets) -> Exception:
        problem = f"the bracket opened at {line_and_column(self.view, at)} is not closed"
        return syntax_error(self.view, self.size, problem, expected=brackets.expected)


class _Brackets:
    """Open brackets, innermost last, and their number when the opaque body of a dialect began."""

    def __init__(self) -> None:
        self.stack = bytearray()
        self._opaque = 0

    @property
    def is_opaque(self) -> bool:
        """True inside the body of a dialect's attribute or type, which has no comments."""
        return self._opaque > 0

    @property
    def expected(self) -> str:
        """The text that would close the innermost bracket, in words."""
        return f"{_CLOSER[bytes(self.stack[-1:])].decode()!r}" if self.stack else "no more of them"

    def open(self, token: bytes, is_body: bool) -> None:
        """Push an opener."""
        self.stack += token
        if is_body:
            self._opaque = len(self.stack)

    def close(self, token: bytes) -> bool:
        """Pop for a closer; return whether it matches. A ``>`` is ignored if the innermost bracket is not ``<``."""
        stack = self.stack
        if token == b">":
            if stack[-1] != 0x3C:
                return True
        else:
            while stack and stack[-1] == 0x3C:
                stack.pop()
            if not stack or _CLOSER[bytes(stack[-1:])] != token:
                return False
        stack.pop()
        if len(stack) < self._opaque:
            self._opaque = 0
        return True


# Comments. A ``//`` in the body of a dialect's attribute or type does not start one.

#: Bytes read with the exact expression where the quick one may be wrong.
_DOUBTFUL = 1 << 12

_LINE = LazyExpression(rb"[^\r\n]*")
_NAME = LazyExpression(rb"[#!][A-Za-z$._-][A-Za-z0-9$._-]*(?=<)")

_BODY = body_expression(rb'[^<>(){}\[\]"-]++')
_SHORT = body_expression(rb'[^<>(){}\[\]"\n/-]++|/(?!/)')
_TEXT = rb'[^"/#!]++|/(?:/[^\r\n]*+|(?!/))|' + STRING
_NAMED = rb"|[#!](?:[A-Za-z$._-][A-Za-z0-9$._-]*+(?:(?!<)|%s)|(?![A-Za-z$._-]))"

#: Text outside of dialects' attributes and types, and plain ones of these, in which no ``//`` can be misread. Strings
#: and comments are skipped. The contents are read as MLIR reads an unknown dialect: a slash means nothing.
_OUTSIDE = LazyExpression(rb"(?:" + _TEXT + _NAMED % _BODY + rb")*+")
#: Such a body.
_INSIDE = LazyExpression(_BODY)
#: A ``<`` after a name that may begin a body with ``//`` or a line end in it: one whose end is not in its line. If
#: there is none, a line begins outside of all bodies, and every ``//`` outside of strings is a comment.
_SUSPECT = LazyExpression(rb"<(?<=[\w$.-]<)(?!" + _SHORT[1:] + b")")
#: Text without such a body: a match of it may be inside a comment or a string.
_HARMLESS = LazyExpression(rb"(?:" + _TEXT + _NAMED % _SHORT + rb")*+")


class Comments:
    """Distinguishes comments from ``//`` in the body of a dialect's attribute or type (rule 4 above).

    The text after the last position known to be outside of such bodies is read again, mostly with an expression that
    only checks every ``<``; this costs less than one more pass.
    """

    def __init__(self, text: Lexer, outside: int) -> None:
        self._text = text
        self._outside = outside
        self._line = outside  # start or end of a line or the text, outside of all bodies according to ``certain``
        self._exact: Lexer | None = None

    def end(self, at: int) -> int:
        """Return the position to continue from after a ``//``: after the comment, or after the two bytes if it is not
        one."""
        if not self.is_outside(at):
            return at + 2
        window, base = self._text.window, self._text.base
        line = window.find(b"\n", at - base)
        if line < 0 or at < base:
            self._outside = end = _line_end(self._text, at)
        else:
            carriage = window.find(b"\r", at - base, line)
            self._outside = end = base + (line if carriage < 0 else carriage)
        return end

    def certain(self, window: bytes, index: int, limit: int, base: int) -> tuple[int, bool]:
        """Return the end of the part of a window that can be read, and whether every ``//`` in it is a comment.

        ``base`` is the position of the window. Positions must not decrease from call to call.
        """
        if not self._text.has_bytes(b"//", window, index, limit):
            return limit, True
        if base + index == self._line:
            self._outside = self._line
        if self.is_outside(base + index):
            doubt = _doubt(window, index, limit)
            end = limit if doubt < 0 else window.rfind(b"\n", index + 1, doubt)
            if end > 0:
                self._line = base + end
                return end, True
        line = window.find(b"\n", min(index + _DOUBTFUL, limit), limit)
        return (line if line > 0 else limit), False

    def is_outside(self, at: int) -> bool:
        """Return whether a position is outside of all bodies of dialects' attributes and types; positions must not
        decrease."""
        position = self._outside
        if position >= at:
            return position == at
        text = self._exact = self._exact or Lexer(self._text.view)
        while position < at:
            window, base = self._text.window, self._text.base
            limit = at - base
            if position < base or limit > len(window):
                text.seek(position, 2 * MARGIN)
                window, base = text.window, text.base
                limit = at - base
                if limit > len(window):
                    limit = window.rfind(b"\n", position - base + 1)  # no comment spans that position
                    limit = limit if limit > position - base else len(window) - MARGIN
            index = position - base
            if limit - index > _DOUBTFUL:
                index, limit = _lines(window, index, limit)
            found = _OUTSIDE.match(window, index, limit)
            assert found is not None
            end = found.end()
            if end >= limit:
                position = base + end
            elif window[end] == 0x22:
                position = text.string_end(base + end)
            elif window[end] == 0x2F:
                position = base + end + 1  # start of a comment that the window cuts, or of a slash
            else:
                position = _body_end(text, base + end)
        self._outside = position
        return position == at


def _body_end(text: Lexer, at: int) -> int:
    """Return the position after the name at ``at``, and after its body."""
    name = text.match(_NAME, at)
    if name is None:
        return at + 1
    at = text.end(name)
    body = text.match(_INSIDE, at)
    return text.end(body) if body else text.balanced_end(at)


def _lines(window: bytes, index: int, limit: int) -> tuple[int, int]:
    """Return the range for the exact expression, in a part that begins outside of all bodies.

    Whole lines without a doubtful ``<`` are excluded.
    """
    doubt = _doubt(window, index, limit)
    last = window.rfind(b"\n", index, limit if doubt < 0 else doubt) + 1
    if doubt < 0:
        return max(index, last), limit
    following = window.find(b"\n", min(doubt + _DOUBTFUL, limit), limit)
    return max(index, last), following if following > 0 else limit


def _doubt(window: bytes, index: int, limit: int) -> int:
    """Return the index of the first name that may have a body with a ``//`` or a line end in it, -1 for none.

    The part of the window begins outside of all bodies.
    """
    found = _SUSPECT.search(window, index, limit)
    if found is None:
        return -1
    known = _HARMLESS.match(window, max(window.rfind(b"\n", index, found.start()) + 1, index), limit)
    return found.start() if known is None else known.end() if known.end() < limit else -1


def _line_end(text: Lexer, at: int) -> int:
    found = text.match(_LINE, at)
    return text.end(found) if found else at
