"""Text from files, so that a terminal shows it and does not obey it."""

from __future__ import annotations


def printable(text: str) -> str:
    """Return text from a file so that it cannot drive the terminal: control characters and broken UTF-8 as escapes."""
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape", "surrogatepass").decode("ascii") for char in text
    )
