"""The reader of the output: a terminal with colour and a width, or a file or program that gets plain text.

``--color`` decides for one command. Without it NO_COLOR, then FORCE_COLOR, then what the output is: a terminal gets
colour (no-color.org, force-color.org; the order is that of Python 3.13's own messages).
"""

from __future__ import annotations

import os
import sys

from fatpack.text.style import PLAIN, Style, colorize, wrap_lines, write_lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from types import TracebackType
    from typing import TextIO


class ColourChoice:
    """The value of ``--color``, while a command runs."""

    now = "auto"

    def __init__(self, choice: str) -> None:
        self._choice, self._before = choice, ColourChoice.now

    def __enter__(self) -> None:
        self._before, ColourChoice.now = ColourChoice.now, self._choice

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        ColourChoice.now = self._before


def get_style(stream: TextIO | None = None) -> Style:
    """Return how text on a stream looks: without one, on stdout. Asked once by a command, for text alone."""
    stream = stream or sys.stdout
    is_terminal = stream.isatty()
    is_coloured = _is_coloured(is_terminal)
    return Style(is_coloured, _columns(stream) if is_terminal else 0) if is_coloured or is_terminal else PLAIN


def write_text(lines: Iterable[str], *, verbose: int = 0, wraps: bool = False) -> None:
    """Write lines for people to stdout as :func:`get_style` says; ``verbose`` ones stay whole, for names to be copied.

    With ``wraps``, lines that are too wide are wrapped, because they have words for users to type.
    """
    look = get_style()
    if wraps and not verbose:
        lines = wrap_lines(lines, look.width)
    if wraps or verbose:
        look = look.replace(width=0)
    write_lines(colorize(lines, look), sys.stdout)


def write_document(document: Mapping[str, object]) -> None:
    """Write a document to stdout, with a line break after it."""
    from fatpack.text.json import json_pieces

    sys.stdout.writelines(json_pieces(dict(document)))
    sys.stdout.write("\n")


def _is_coloured(is_terminal: bool) -> bool:
    if ColourChoice.now != "auto":
        return ColourChoice.now == "always"
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return is_terminal and os.environ.get("TERM") != "dumb"


def _columns(stream: TextIO) -> int:
    """Return the columns of a terminal: COLUMNS, or what it says itself; 0 if it says nothing."""
    text = os.environ.get("COLUMNS", "")
    if text.isdecimal() and int(text):
        return int(text)
    try:
        return os.get_terminal_size(stream.fileno()).columns
    except (ValueError, OSError):
        return 0
