"""Text from files, so that a terminal or a page shows it and does not obey it."""

from __future__ import annotations

#: Characters that mean something in HTML and XML, in text or in attributes in quotes.
_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;"})


def printable(text: str) -> str:
    """Return text from a file so that it cannot drive the terminal: control characters and broken UTF-8 as escapes."""
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape", "surrogatepass").decode("ascii") for char in text
    )


def escape_html(text: str) -> str:
    """Return text from a file as HTML and XML show it: printable, and without a meaning of its own.

    The one place where text is escaped for markup.
    """
    return printable(text).translate(_ESCAPES)
