"""The files of a package that slimming looks at, what it makes of each, and what that saves in the package."""

from __future__ import annotations

from fatpack.record import Record
from fatpack.trees.passed import is_passed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Protocol, TypeAlias

    from fatpack.io.source import Piece, View

    class Slimmed(Protocol):
        """What is made of a library: its new bytes, and whatever more is known of them."""

        @property
        def pieces(self) -> Sequence[Piece]: ...  # noqa: D102

    #: returns what a file becomes, None for one that stays as it is; the view is open while the pieces are read
    Slimming: TypeAlias = Callable[[View], Slimmed | None]


class Library(Record):
    """A file of a package that was looked at.

    ``before`` and ``after`` are its size in bytes, ``stored_before`` and ``stored_after`` those that it takes in the
    package, compressed. ``slimmed`` is what was made of it, None for one that stays as it is.
    """

    name: str
    before: int
    after: int
    stored_before: int
    stored_after: int
    slimmed: Slimmed | None


def is_looked_at(name: str) -> bool:
    """Return whether a file may hold device code, by its name."""
    return not is_passed(name)
