"""Errors with the position that an editor understands: line and column beside the offset."""

from __future__ import annotations

from fatpack import limits
from fatpack.errors import BadValue
from fatpack.findings import finding
from fatpack.formats.cir.vocabulary import CIR_FORMAT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.errors import FormatError
    from fatpack.io.source import View
    from fatpack.model import Finding


class LineIndex:
    """Lines and columns of positions in one text; what was counted before the last one is not counted again."""

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
    """Return the error for wrong text at a position; ``found`` defaults to what stands there."""
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
    """Return the finding for the place behind which nothing is known."""
    offset = view.offset(0) if error.offset is None else error.offset
    return finding("FP1501", view.span(offset - view.offset(0), 0), error.describe(), error.hint)


def _found(view: View, at: int) -> str:
    head = view.head(at, 24)
    if not head:
        return "the end of the file"
    word = head.split()[0] if head.split() else head
    text = word.decode("utf-8", "backslashreplace")
    return "a line end" if head[:1] in (b"\n", b"\r") else f"{text!r}"
