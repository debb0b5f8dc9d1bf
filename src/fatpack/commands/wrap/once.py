"""Whether an image was given twice: a runtime would load it twice, or take either of the two."""

from __future__ import annotations

from collections import Counter

from fatpack.errors import UsageError
from fatpack.io.pieces import sha256_of_pieces

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fatpack.io.source import View


def refuse_duplicates(given: Sequence[tuple[str, View, Mapping[str, str]]]) -> None:
    """Raise UsageError for a file that has the same bytes as one before it, and of which the same is stated.

    Reads only files that are as large as another one.
    """
    sizes = Counter(len(view) for _, view, _ in given)
    seen: dict[object, str] = {}
    for name, view, facts in given:
        if sizes[len(view)] == 1:
            continue
        key = sha256_of_pieces([view]), frozenset((key, value) for key, value in facts.items() if key != "file")
        if key in seen:
            other = seen[key]
            what = f"{name} is given twice" if name == other else f"{name} and {other} are the same image"
            raise UsageError(what, hint="give each image once")
        seen[key] = name
