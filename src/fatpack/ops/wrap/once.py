"""Whether an image was given twice: a runtime would load it twice, or take either of the two."""

from __future__ import annotations

from fatpack.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fatpack.io.source import View

#: bytes of each of two files that are compared at a time
_CHUNK = 1 << 20


def refuse_twice(given: Sequence[tuple[str, View, Mapping[str, str]]]) -> None:
    """Raise UsageError for a file that has the same bytes as one before it, and of which the same is stated.

    Reads only files that are as large as another one.
    """
    by_size: dict[int, list[tuple[str, View, dict[str, str]]]] = {}
    for name, view, facts in given:
        stated = {key: value for key, value in facts.items() if key != "file"}
        others = by_size.setdefault(len(view), [])
        for other, seen, said in others:
            if said == stated and _is_same(seen, view):
                what = f"{name} is given twice" if name == other else f"{name} and {other} are the same image"
                raise UsageError(what, hint="give each image once")
        others.append((name, view, stated))


def _is_same(one: View, two: View) -> bool:
    starts = range(0, len(one), _CHUNK)
    return all(one.head(at, _CHUNK) == two.head(at, _CHUNK) for at in starts)
