"""How large what was named may be: sizes in bytes as people write them, and growth against an older version."""

from __future__ import annotations

import os

from fatpack import printable
from fatpack.errors import UsageError
from fatpack.exit_codes import error_message
from fatpack.inputs.walk import TreeWalk
from fatpack.io.open import is_pattern


def parse_size_limit(text: str) -> int:
    """Return the bytes of a text, as :mod:`fatpack.printable` reads it. Raises UsageError for one that is no size."""
    try:
        return printable.parse_size(text)
    except ValueError:
        raise UsageError(f"{text!r} is no size", hint=printable.EXAMPLES) from None


def parse_growth(text: str) -> tuple[float | None, int | None]:
    """Return growth as percent or bytes, the other None: ``5%``, ``20MB``. Raises UsageError."""
    if text.endswith("%"):
        number = _number(text[:-1].strip())
        if number is None:
            raise UsageError(f"{text!r} is no growth", hint="write 5% or 20MB")
        return number, None
    return None, parse_size_limit(text)


def _number(text: str) -> float | None:
    whole, _, part = text.partition(".")
    if not (whole + part).isascii() or not (whole + part).isdecimal() or len(text) > 18:
        return None
    return float(text)


def measure_total(path: str) -> tuple[int | None, str]:
    """Return the bytes of a file, or of all files in a folder or of a pattern, and what of them cannot be measured, "".

    The bytes are None for what is neither. Links in folders are not followed, and files that say by their names that no
    device code is in them count too.
    """
    try:
        if os.path.isfile(path):
            return os.path.getsize(path), ""
        if os.path.isdir(path) or is_pattern(path):
            walk = TreeWalk([path], as_named=True)
            places = list(walk)
            problems = [f"{place.path}: {place.problem}" for place in places if place.problem]
            problems += (f"no file matches {pattern}" for pattern in walk.unmatched)
            return sum(place.size for place in places), problems[0] if problems else ""
    except OSError as error:
        return None, error_message(error)
    return None, "there is no such file or folder"
