"""Comments, and what only looks like them: ``//`` in the body of a dialect's attribute or type is none."""

from __future__ import annotations

from fatpack.formats.cir.expressions import LazyExpression
from fatpack.formats.cir.text.lexer import MARGIN, STRING, Lexer, body_expression

#: How much is gone through with the exact expression where the quick one may be wrong.
_DOUBTFUL = 1 << 12

_LINE = LazyExpression(rb"[^\r\n]*")
_NAME = LazyExpression(rb"[#!][A-Za-z$._-][A-Za-z0-9$._-]*(?=<)")

_BODY = body_expression(rb'[^<>(){}\[\]"-]++')
_SHORT = body_expression(rb'[^<>(){}\[\]"\n/-]++|/(?!/)')
_TEXT = rb'[^"/#!]++|/(?:/[^\r\n]*+|(?!/))|' + STRING
_NAMED = rb"|[#!](?:[A-Za-z$._-][A-Za-z0-9$._-]*+(?:(?!<)|%s)|(?![A-Za-z$._-]))"

#: Text outside of dialects' attributes and types, and those as far as they are plain: no ``//`` in it may be misread.
#: Strings and comments hide them. What they hold is read as MLIR does where it does not know the dialect: a slash means
#: nothing.
_OUTSIDE = LazyExpression(rb"(?:" + _TEXT + _NAMED % _BODY + rb")*+")
#: Such a body.
_INSIDE = LazyExpression(_BODY)
#: A ``<`` behind a name that may begin a body with ``//`` or a line end in it: one whose end is not in its line. Where
#: there is none, a line begins outside of all bodies, and every ``//`` outside of strings is a comment.
_SUSPECT = LazyExpression(rb"<(?<=[\w$.-]<)(?!" + _SHORT[1:] + b")")
#: Text as far as it has no such body: what was found may stand in a comment or a string.
_HARMLESS = LazyExpression(rb"(?:" + _TEXT + _NAMED % _SHORT + rb")*+")


class Comments:
    """Tells comments from ``//`` in the body of a dialect's attribute or type (rule 4 of the text module).

    The text since the last place known to be outside of such bodies is gone through once more, most of it with an
    expression that only looks at every ``<``; all of it costs less than one more pass.
    """

    def __init__(self, text: Lexer, outside: int) -> None:
        self._text = text
        self._outside = outside
        self._line = outside  # where a line or the text begins or ends, outside of all bodies as far as ``certain`` saw
        self._exact: Lexer | None = None

    def end(self, at: int) -> int:
        """Return where to go on behind a ``//``: behind the comment, or behind the two bytes if it is none."""
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
        """Return up to where a part of a window can be gone through, and whether every ``//`` in that is a comment.

        ``base`` is the position of the window. Positions may only grow from call to call.
        """
        if not self._text.holds(b"//", window, index, limit):
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
        """Return whether a position lies in no body of a dialect's attribute or type; positions may only grow."""
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
                    limit = window.rfind(b"\n", position - base + 1)  # no comment lies across that
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
                position = base + end + 1  # a comment that the window cuts starts here, or a slash
            else:
                position = _body_end(text, base + end)
        self._outside = position
        return position == at


def _body_end(text: Lexer, at: int) -> int:
    """Return the position behind the name at ``at``, and behind its body."""
    name = text.match(_NAME, at)
    if name is None:
        return at + 1
    at = text.end(name)
    body = text.match(_INSIDE, at)
    return text.end(body) if body else text.balanced_end(at)


def _lines(window: bytes, index: int, limit: int) -> tuple[int, int]:
    """Return from where to where the exact expression has to look, in a part that begins outside of all bodies.

    Whole lines without a doubtful ``<`` are left out.
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
