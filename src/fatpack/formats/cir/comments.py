"""Comments, and what only looks like them: ``//`` in the body of a dialect's attribute or type is none."""

from __future__ import annotations

import re

from fatpack.formats.cir.text import BLANKS, MARGIN, STRING, Text, body_expression

TYPE_CHECKING = False
if TYPE_CHECKING:
    from re import Pattern

#: Bytes that can end an operation or open its region: a comment on a line of its own behind one of them is one.
_ENDS = frozenset(b"{})>]" + bytes(range(48, 58)) + bytes(range(65, 91)) + bytes(range(97, 123)) + b"_")
_LINE = re.compile(rb"[^\r\n]*")
_NAME = re.compile(rb"[#!][A-Za-z$._-][A-Za-z0-9$._-]*(?=<)")
_outside: list[Pattern[bytes]] = []


def _outside_bodies() -> Pattern[bytes]:
    """Return the expression for text outside of dialects' attributes and types, and for those as far as they are plain.

    Strings and comments hide them. What they hold is read as MLIR does where it does not know the dialect: a slash
    means nothing. Compiled when the first is needed, which few files do.
    """
    if not _outside:
        body = body_expression(rb'[^<>(){}\[\]"-]+(?![^<>(){}\[\]"-])')
        text = rb'[^"/#!]+(?![^"/#!])|/(?:/[^\r\n]*|(?!/))|' + STRING
        name = rb"[#!](?:[A-Za-z$._-][A-Za-z0-9$._-]*(?![A-Za-z0-9$._-])(?:(?!<)|" + body + rb")|(?![A-Za-z$._-]))"
        _outside.extend((re.compile(rb"(?:" + text + b"|" + name + rb")*"), re.compile(body)))
    return _outside[0]


class Comments:
    """Tells comments from ``//`` in the body of a dialect's attribute or type (rule 4 of the text module).

    Comments as printers and people write them are known by what stands before them; for any other the text since the
    last place known to be outside of such bodies is gone through once more, so that all of it costs one more pass.
    """

    def __init__(self, text: Text, outside: int) -> None:
        self._text = text
        self._outside = outside
        self._exact = Text(text.view)

    def end(self, at: int) -> int:
        """Return where to go on behind a ``//``: behind the comment, or behind the two bytes if it is none."""
        if not self._is_plain(at) and not self.is_outside(at):
            return at + 2
        window, base = self._text.window, self._text.base
        line = window.find(b"\n", at - base)
        if line < 0 or at < base:
            self._outside = end = _line_end(self._text, at)
        else:
            carriage = window.find(b"\r", at - base, line)
            self._outside = end = base + (line if carriage < 0 else carriage)
        return end

    def _is_plain(self, at: int) -> bool:
        index = at - self._text.base
        if 512 <= index <= len(self._text.window):
            before = self._text.window[index - 512 : index]
        else:
            before = self._text.view.read(max(at - 512, 0), min(at, 512))
        line = before[max(before.rfind(b"\n"), before.rfind(b"\r")) + 1 :]
        if len(line) == len(before) == 512:
            return False
        stripped = line.strip(BLANKS)
        if stripped:
            return stripped.startswith(b"^") and stripped.endswith(b":")
        before = before.rstrip(BLANKS)
        return not before or before[-1] in _ENDS

    def is_outside(self, at: int) -> bool:
        """Return whether a position lies in no body of a dialect's attribute or type; positions may only grow."""
        text, position = self._exact, self._outside
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
            found = _outside_bodies().match(window, index, limit)
            assert found is not None
            end = found.end()
            if end >= limit:
                position = base + end
            elif window[end] == 0x22:
                position = text.string_end(base + end)
            elif window[end] == 0x2F:
                position = base + end + 1  # a comment that the window cuts starts here, or a slash
            else:
                position = self._body_end(base + end)
        self._outside = position
        return position == at

    def _body_end(self, at: int) -> int:
        """Return the position behind the name at ``at``, and behind its body."""
        text = self._exact
        name = text.match(_NAME, at)
        if name is None:
            return at + 1
        at = text.end(name)
        body = text.match(_outside[1], at)
        return text.end(body) if body else text.balanced_end(at)


def _line_end(text: Text, at: int) -> int:
    found = text.match(_LINE, at)
    return text.end(found) if found else at
