"""How large what was named may be: sizes in bytes as people write them, and growth against an older version."""

from __future__ import annotations

import os

from fatpack.errors import UsageError
from fatpack.io.sources.opening import is_pattern
from fatpack.trees.walk import Walk

#: letters behind a number → bytes; those of ten as wheels and files are measured, those of two with an i
_UNITS = {
    "": 1,
    "b": 1,
    **{f"{letter}{end}": 1000**power for power, letter in enumerate("kmgt", 1) for end in ("", "b")},
    **{f"{letter}i{end}": 1024**power for power, letter in enumerate("kmgt", 1) for end in ("", "b")},
}


def size_of(text: str) -> int:
    """Return the bytes of a text as ``850MB`` (millions), ``1.5 GiB`` or ``1048576``. Raises UsageError."""
    digits = text.rstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
    factor = _UNITS.get(text[len(digits) :].lower())
    number = _number(digits.strip())
    if factor is None or number is None:
        raise UsageError(f"{text!r} is no size", hint="write 850MB (millions of bytes), 800MiB or 1048576")
    return int(number * factor)


def growth_of(text: str) -> tuple[float | None, int | None]:
    """Return growth as percent or bytes, the other None: ``5%``, ``20MB``. Raises UsageError."""
    if text.endswith("%"):
        number = _number(text[:-1].strip())
        if number is None:
            raise UsageError(f"{text!r} is no growth", hint="write 5% or 20MB")
        return number, None
    return None, size_of(text)


def _number(text: str) -> float | None:
    whole, _, part = text.partition(".")
    if not (whole + part).isascii() or not (whole + part).isdecimal() or len(text) > 18:
        return None
    return float(text)


def words(size: int) -> str:
    """Return a size for people, exact enough to compare: ``912.4 MB``."""
    if size < 10_000:
        return f"{size} bytes"
    number, unit = (size / 1000, "kB") if size < 1_000_000 else (size / 1e6, "MB")
    return f"{f'{number:.1f}'.removesuffix('.0')} {unit}"


def total(path: str) -> int | None:
    """Return the bytes of a file, or of all files in a folder or of a pattern; None for what is neither.

    Links in folders are not followed, and files that say by their names that no device code is in them count too.
    """
    try:
        if os.path.isfile(path):
            return os.path.getsize(path)
        if os.path.isdir(path) or is_pattern(path):
            return sum(place.size for place in Walk([path], as_named=True))
    except OSError:
        pass  # it is told where the file is read
    return None
