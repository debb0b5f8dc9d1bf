"""Numbers of bytes in words, and out of them. The units of what is printed are those of ten, as disks are measured.

What users write is read as the GNU tools read it (coreutils, "Block size"), so that a size means the same in every
option: ``1GB`` are 10⁹ bytes, ``1GiB`` and ``1G`` are 2³⁰.
"""

from __future__ import annotations

#: letters behind a number, in lower case → bytes
_UNITS: dict[str, int] = {
    "": 1,
    "b": 1,
    **{f"{letter}b": 1000**power for power, letter in enumerate("kmgtp", 1)},
    **{f"{letter}{end}": 1024**power for power, letter in enumerate("kmgtp", 1) for end in ("", "i", "ib")},
}

#: LIMIT: digits of a size; more than any file has bytes.
_DIGITS = 18

#: What a message says of a text that is no size.
EXAMPLES = "write 850MB (millions of bytes), 800MiB or 800M (times 2^20), or 1048576"


def parse_size(text: str) -> int:
    """Return the bytes of a text as ``850MB``, ``1.5 GiB``, ``1G`` or ``1048576``. Raises ValueError for another."""
    number = text.rstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
    factor = _UNITS.get(text[len(number) :].lower())
    whole, point, part = number.strip().partition(".")
    digits = whole + part
    if factor is None or not (digits.isascii() and digits.isdecimal()) or len(digits) > _DIGITS or (point and not part):
        raise ValueError(f"{text!r} is no size; {EXAMPLES}")
    parts: int = 10 ** len(part)
    return int(digits) * factor // parts


def format_size(size: int) -> str:
    """Return a size for people, with the exact number where it is short: ``152 B``, ``18.1 kB``, ``1.02 GB``."""
    if size < 1000:
        return f"{size} B"
    units = ["kB", "MB", "GB", "TB", "PB", "EB"]  # a field of 64 bits says at most 18.4 EB
    value = size / 1000
    while value >= 999.5 and len(units) > 1:
        value /= 1000
        del units[0]
    return f"{value:.3g} {units[0]}"


def format_size_exactly(size: int) -> str:
    """Return a size to be compared with a limit near it, for which three digits are too few: ``1024.3 MB``."""
    if size < 10_000:
        return f"{size} bytes"
    number, unit = (size / 1000, "kB") if size < 1_000_000 else (size / 1e6, "MB")
    return f"{f'{number:.1f}'.removesuffix('.0')} {unit}"


# Text from files, so that a terminal or a page shows it and does not obey it.

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
