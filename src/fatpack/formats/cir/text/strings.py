"""String literals: finding their ends, and decoding them; and errors with line and column.

They hold any byte but line feeds, vertical tabs and form feeds. The escapes are ``\"``, ``\\``, ``\n``, ``\t`` and
two hex digits; the printer uses ``\\`` and digits only. A string may be as long as the file: a fatbin in the
attribute ``cir.cu.device_binary``.
"""

from __future__ import annotations

from fatpack import limits
from fatpack.errors import BadValue
from fatpack.findings import finding
from fatpack.formats.cir.vocabulary import CIR_FORMAT, LazyExpression

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.errors import FormatError
    from fatpack.io.source import View
    from fatpack.model import Finding


# Errors with line and column, as editors show them, and the offset.


class LineIndex:
    """Lines and columns of positions in one text; text before the last position is not counted again."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._at, self._line, self._start = 0, 1, 0

    def locate(self, at: int) -> tuple[int, int]:
        """Return the line and the column, from 1, of a position; columns count bytes, as MLIR's diagnostics do."""
        if at < self._at:
            self._at, self._line, self._start = 0, 1, 0
        while self._at < at:
            block = self._view.read(self._at, min(limits.CHUNK, at - self._at))
            count = block.count(b"\n")
            if count:
                self._line += count
                self._start = self._at + block.rindex(b"\n") + 1
            self._at += len(block)
        return self._line, at - self._start + 1

    def place(self, at: int) -> str:
        """Return a position in words: ``line 3, column 14``."""
        line, column = self.locate(at)
        return f"line {line}, column {column}"


def line_and_column(view: View, at: int) -> str:
    """Return a position in words: ``line 3, column 14``."""
    return LineIndex(view).place(at)


def syntax_error(view: View, at: int, problem: str, *, expected: str = "", found: str = "", hint: str = "") -> BadValue:
    """Return the error for wrong text at a position; ``found`` defaults to the text there."""
    if expected and not found:
        found = _found(view, at)
    return BadValue(
        problem,
        format=CIR_FORMAT,
        offset=view.offset(at),
        field=line_and_column(view, at),
        expected=expected,
        found=found,
        hint=hint,
        chain=view.chain,
    )


def damage_finding(view: View, error: FormatError) -> Finding:
    """Return the finding for the error that ended reading."""
    offset = view.offset(0) if error.offset is None else error.offset
    return finding("FP1501", view.span(offset - view.offset(0), 0), error.describe(), error.hint)


def _found(view: View, at: int) -> str:
    head = view.head(at, 24)
    if not head:
        return "the end of the file"
    word = head.split()[0] if head.split() else head
    text = word.decode("utf-8", "backslashreplace")
    return "a line end" if head[:1] in (b"\n", b"\r") else f"{text!r}"


_ESCAPE_CLASSES = bytes(
    ord("h") if chr(code) in "0123456789abcdefABCDEF" else code if chr(code) in '\\"nt' else ord(".")
    for code in range(256)
)

_BAD_ESCAPE = LazyExpression(rb'(?<!\\)(?:\\\\)*(\\(?!["\\nt]|[0-9A-Fa-f]{2}))')
_SPECIAL = LazyExpression(rb"[^ !#-\[\]-~]")


def short_string_end(view: View, window: bytes, index: int, base: int) -> int:
    """Return the index after the string at an index of a window, -1 if the window ends before it."""
    quote = _closing_quote(window, index + 1)
    if quote < 0:
        return -1
    _check(view, base + index + 1, window[index + 1 : quote], base + index)
    return quote + 1


def long_string_end(view: View, at: int) -> int:
    """Return the position after the string that starts at ``at``, in bounded memory (rule 3)."""
    position = at + 1
    while True:
        block = view.head(position, limits.CHUNK)
        is_last = position + len(block) >= len(view)
        quote = _closing_quote(block, 0)
        part = block[:quote] if quote >= 0 else block if is_last else block[: _aligned(block)]
        _check(view, position, part, at)
        if quote >= 0:
            return position + quote + 1
        position += len(part)
        if is_last:
            raise syntax_error(view, len(view), "a string is not closed", expected="'\"'", hint=_hint(view, at))


def _hint(view: View, at: int) -> str:
    return f"the string starts at {line_and_column(view, at)}"


def _closing_quote(block: bytes, start: int) -> int:
    """Return the index of the first unescaped quote from ``start`` on, or -1; no escape spans ``start``."""
    quote = block.find(b'"', start)
    while quote > start:
        before = quote - 1
        while before >= start and block[before] == 0x5C:
            before -= 1
        if (quote - before) % 2:
            break
        quote = block.find(b'"', quote + 1)
    return quote


def _aligned(block: bytes) -> int:
    """Return how much of a block can be cut off without cutting an escape in two."""
    tail = len(block.rstrip(b"\\"))
    if tail < len(block):
        return tail + (len(block) - tail) // 2 * 2
    for size in (1, 2):
        if block[-size - 1 : -size] == b"\\":
            head = len(block[: len(block) - size].rstrip(b"\\"))
            run = len(block) - size - head
            return len(block) - size - 1 if run % 2 else len(block)
    return len(block)


def _check(view: View, at: int, part: bytes, start: int) -> None:
    """Raise BadValue if a part of a string has a line end or an escape that MLIR does not know."""
    ends = [end for end in (part.find(code) for code in (b"\n", b"\v", b"\f")) if end >= 0]
    if ends:
        raise syntax_error(
            view, at + min(ends), "a string is not closed", expected="'\"' in the same line", hint=_hint(view, start)
        )
    if b"\\" not in part:
        return
    classes = part.translate(_ESCAPE_CLASSES).replace(b"\\\\", b"..")
    good = sum(classes.count(escape) for escape in (b"\\hh", b'\\"', b"\\n", b"\\t"))
    if classes.count(b"\\") != good:
        bad = _BAD_ESCAPE.search(part)
        index = bad.start(1) if bad else 0
        raise syntax_error(
            view,
            at + index,
            "an unknown escape in a string",
            expected=r"\\, \", \n, \t or two hex digits",
            found=part[index : index + 3].decode("utf-8", "backslashreplace"),
        )


def unescape(string: bytes) -> bytes:
    """Return the decoded inside of a string literal; as fast as copying, for any length."""
    if b"\\" not in string:
        return string
    for short, code in ((b"\\\\", b"\\5C"), (b'\\"', b"\\22"), (b"\\n", b"\\0A"), (b"\\t", b"\\09")):
        string = string.replace(short, code)
    try:
        return string.replace(b"\\", b"\\x").decode("unicode_escape").encode("latin-1")
    except UnicodeDecodeError:
        return string  # not a valid literal; the search for its end has reported that


def unescape_view(literal: View) -> bytes:
    """Return the decoded inside of a long literal, like :func:`unescape`, without a copy of the literal itself."""
    parts = []
    at = 0
    while at < len(literal):
        block = literal.head(at, limits.CHUNK)
        if at + len(block) < len(literal):
            block = block[: _aligned(block)]
        parts.append(unescape(block))
        at += len(block)
    return b"".join(parts)


def escape_string(data: bytes) -> bytes:
    """Return a string literal, quotes included, as MLIR's printer writes these bytes."""
    return b'"%s"' % _SPECIAL.sub(lambda found: b"\\\\" if found[0] == b"\\" else b"\\%02X" % found[0][0], data)
