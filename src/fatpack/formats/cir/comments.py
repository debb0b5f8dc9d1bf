"""Comments, and what only looks like them: ``//`` in the body of a dialect's attribute or type is none."""

from __future__ import annotations

import re

from fatpack.formats.cir.text import BLANKS, PLAIN_BODY, STRING, Text

#: What the exact look needs: strings, comments, and the bodies of dialects' attributes and types.
_OPAQUE = re.compile(rb'"|//|[#!][A-Za-z$._-][A-Za-z0-9$._-]*<')
#: Bytes that can end an operation or open its region: a comment on a line of its own behind one of them is one.
_ENDS = frozenset(b"{})>]" + bytes(range(48, 58)) + bytes(range(65, 91)) + bytes(range(97, 123)) + b"_")
_LINE = re.compile(rb"[^\r\n]*")
#: Text in which every such body is closed again, as far as it is plain: what stands before most comments.
_CLOSED = re.compile(
    rb'(?:[^"/#!]+|/(?:/[^\r\n]*|(?!/))|'
    + STRING
    + rb"|[#!][A-Za-z0-9$._-]+(?:"
    + PLAIN_BODY
    + rb"|(?![A-Za-z0-9$._<-])))*"
)
#: How far a comment may lie behind the last known place for that.
_NEAR = 1 << 16


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
        if not self._is_near(at) and not self._is_plain(at) and not self.is_outside(at):
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
        if self._is_near(at):
            self._outside = at
            return True
        text, position = self._exact, self._outside
        while position < at:
            found = text.search(_OPAQUE, position)
            if found is None or text.start(found) >= at:
                position = at
                break
            start = text.start(found)
            if found[0] == b'"':
                position = text.string_end(start)
            elif found[0] == b"//":
                position = _line_end(text, start)
            else:
                position = text.balanced_end(text.end(found) - 1)
        self._outside = position
        return position == at

    def _is_near(self, at: int) -> bool:
        """Return whether nothing but plain text lies between the last known place and a position close to it."""
        start, size = self._outside, at - self._outside
        if not 0 <= size <= _NEAR:
            return False
        window, index = self._text.window, start - self._text.base
        if not 0 <= index <= index + size <= len(window):
            window, index = self._text.view.read(start, size), 0
        found = _CLOSED.match(window, index, index + size)
        return found is not None and found.end() == index + size


def _line_end(text: Text, at: int) -> int:
    found = text.match(_LINE, at)
    return text.end(found) if found else at
