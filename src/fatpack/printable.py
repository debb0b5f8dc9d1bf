"""Sizes as text, and text from files as it is safe to print. Printed units are decimal, as for disks.

Sizes that users write are read as by the GNU tools (coreutils, "Block size"), the same in every option: ``1GB`` is 10⁹
bytes, ``1GiB`` and ``1G`` are 2³⁰.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

#: unit in lower case → bytes
_UNITS: dict[str, int] = {
    "": 1,
    "b": 1,
    **{f"{letter}b": 1000**power for power, letter in enumerate("kmgtp", 1)},
    **{f"{letter}{end}": 1024**power for power, letter in enumerate("kmgtp", 1) for end in ("", "i", "ib")},
}

#: LIMIT: digits of a size; the size of any file has fewer.
_DIGITS = 18

#: Advice for an invalid size.
EXAMPLES = "write 850MB (millions of bytes), 800MiB or 800M (times 2^20), or 1048576"


def parse_size(text: str) -> int:
    """Return the bytes of a size such as ``850MB``, ``1.5 GiB``, ``1G``, ``1048576``. Raises ValueError for others."""
    number = text.rstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
    factor = _UNITS.get(text[len(number) :].lower())
    whole, point, part = number.strip().partition(".")
    digits = whole + part
    if factor is None or not (digits.isascii() and digits.isdecimal()) or len(digits) > _DIGITS or (point and not part):
        raise ValueError(f"{text!r} is no size; {EXAMPLES}")
    parts: int = 10 ** len(part)
    return int(digits) * factor // parts


def format_size(size: int) -> str:
    """Return a size as text, exactly if it is short: ``152 B``, ``18.1 kB``, ``1.02 GB``."""
    if size < 1000:
        return f"{size} B"
    units = ["kB", "MB", "GB", "TB", "PB", "EB"]  # a 64-bit field is at most 18.4 EB
    value = size / 1000
    while value >= 999.5 and len(units) > 1:
        value /= 1000
        del units[0]
    return f"{value:.3g} {units[0]}"


def format_size_exactly(size: int, digits: int = 1) -> str:
    """Return a size with more than three digits, for comparison with a limit: ``1024.3 MB``, ``8.05 MB``.

    ``digits`` are those after the point; a number below 10 has at least two.
    """
    if size < 10_000:
        return f"{size} bytes"
    number, unit = (size / 1000, "kB") if size < 1_000_000 else (size / 1e6, "MB")
    text = f"{number:.{max(digits, 2) if number < 10 else digits}f}"
    return f"{text.rstrip('0').removesuffix('.')} {unit}"


def format_size_and_limit(size: int, limit: int) -> tuple[str, str]:
    """Return a size and the limit that it is compared with, with so many digits that the texts differ if they do."""
    for digits in (1, 2, 3, 4, 5, 6):
        found = format_size_exactly(size, digits), format_size_exactly(limit, digits)
        if found[0] != found[1]:
            break
    return found


# Text from files

#: Characters with a meaning in HTML and XML, in text or in quoted attributes.
_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;"})


def printable(text: str) -> str:
    """Return text from a file so that it cannot control the terminal: escapes control characters and invalid UTF-8."""
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape", "surrogatepass").decode("ascii") for char in text
    )


def short_names(paths: Sequence[str]) -> list[str]:
    """Return the last name of each path, or the whole path where another one has the same name."""
    names = [path.rstrip("/").rpartition("/")[2] or path for path in paths]
    return [path if names.count(name) > 1 else name for path, name in zip(paths, names, strict=True)]


def escape_html(text: str) -> str:
    """Return text from a file for HTML and XML: printable, with markup escaped.

    No other function escapes text for markup.
    """
    return printable(text).translate(_ESCAPES)
