"""Numbers for people, as pictures and pages write them."""

from __future__ import annotations

from fatpack.report.text import size_words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.answers.overview.records import Bytes


def many(number: int, noun: str) -> str:
    """Return ``1 image``, ``2,787 images``, ``3 libraries``."""
    if number == 1:
        return f"1 {noun}"
    return f"{number:,} {noun[:-1]}ies" if noun.endswith("y") else f"{number:,} {noun}s"


def sizes(bytes: Bytes) -> str:
    """Return what a sum of bytes is, stored (where that is known) and inflated."""
    stored = "" if bytes.stored is None else f"{size_words(bytes.stored)} stored, "
    return f"{stored}{size_words(bytes.inflated)} inflated"


def base(path: str) -> str:
    """Return the last part of a path."""
    return path.replace("\\", "/").rstrip("/").rpartition("/")[2] or path
