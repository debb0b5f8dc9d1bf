"""PTX as fatbinary stores it: its version, and the text without comments and blanks.

How we know: fatbinary 13.0 to 13.5 with random texts; the rules below give its bytes.
"""

from __future__ import annotations

from fatpack.errors import UsageError

_BLANKS = b" \t\n\r\v\f"
_DIGITS = b"0123456789"


def ptx_version(text: bytes) -> tuple[int, int]:
    """Return the PTX version: the number behind the first ``.version``, in a comment or not, as fatbinary takes it.

    QUIRK(fatbinary 13): after the dot it reads one digit. Raises UsageError for a text without a version.
    """
    at = text.find(b".version")
    words = text[at + 8 : at + 64].lstrip(_BLANKS) if at >= 0 else b""
    major = words[: len(words) - len(words.lstrip(_DIGITS))]
    minor = words[len(major) + 1 : len(major) + 2]
    if not major or words[len(major) : len(major) + 1] != b"." or not minor.isdigit() or int(major) > 0xFFFF:
        raise UsageError("this PTX says no version", hint="it needs a line such as .version 9.0")
    return int(major), int(minor)


def minify_ptx(text: bytes) -> bytes:
    """Return a text as fatbinary 13 stores it: lines stay, comments go, and blanks at the start of lines and in runs.

    Strings stay as they are. A ``"`` behind a backslash neither starts nor ends one, whatever is before the backslash.
    """
    import re

    pattern = re.compile(
        rb"""((?<!\\)"(?:[^"]|(?<=\\)")*"?)"""  # a string, to its end or that of the text
        rb"""|//[^\n\r]*"""
        rb"""|/\*(?:/|.*?\*/|.*)"""  # QUIRK(fatbinary 13): /*/ is a whole comment
        rb"""|(?<=[ \t\n\r\v\f])[ \t]+""",
        re.DOTALL,
    )
    return pattern.sub(lambda match: match[1] or b"", text)
