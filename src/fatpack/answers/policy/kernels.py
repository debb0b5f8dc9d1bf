"""The names of the kernels of units: read only where a policy is broken, or asks for all of them."""

from __future__ import annotations

from fatpack.answers.policy.reopening import of_packages, opened
from fatpack.errors import FatpackError
from fatpack.facts.options import RowOptions
from fatpack.facts.packages import rows_of_leaf
from fatpack.facts.reading import rows_of
from fatpack.findings import CODES
from fatpack.outcomes import message

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import TypeAlias

    from fatpack.answers.policy.units import UnitRows
    from fatpack.facts.columns import AnyRow
    from fatpack.io.budget import Budget
    from fatpack.trees.leaves import Leaf

#: how much is read of a file for its kernels
OPTIONS = RowOptions(each_kernel=True)

#: Forms whose readers name every kernel
NAMING = ("cubin", "ptx", "code-object")

#: file, position and member of an image
_Key: TypeAlias = "tuple[str, str | None, str | None]"


class Kernels:
    """The names of the kernels of images, and which images were not read to the end.

    ``names`` has an image as soon as it was read, also one without kernels. ``unread`` has those that were not, and
    whoever asks for their kernels is not to take silence for none. ``problem`` says what could not be read, "" if all
    could.
    """

    def __init__(self) -> None:
        self.names: dict[_Key, dict[str, None]] = {}
        self.unread: set[_Key] = set()
        self.problem = ""

    def add(self, row: AnyRow) -> None:
        """Take the row of an image, of a kernel (its image comes first), or of the file."""
        if row.row == "kernel":
            self.names.setdefault(key_of(row), {})[getattr(row, "kernel", None) or ""] = None
        elif row.row != "file":
            self.names.setdefault(key_of(row), {})
            if getattr(row, "kernel_count", None) is None or is_damaged(row):
                self.unread.add(key_of(row))
                where = f"image {row.position}" if row.position else "the image"
                why = f": {'; '.join(row.messages)}" if row.messages else ""
                self._fail(f"the kernels of {where} cannot be read{why}")
        elif row.error is not None:
            self._fail(row.error)

    def _fail(self, problem: str) -> None:
        self.problem = self.problem or problem

    def merge(self, other: Kernels) -> None:
        """Add what is known of the images of another file."""
        self.names |= other.names
        self.unread |= other.unread
        self._fail(other.problem)


def is_damaged(row: AnyRow) -> bool:
    """Return whether a finding of a row says that something of it could not be read."""
    return any(CODES[code][0] == "error" for code in row.findings)


def key_of(row: AnyRow) -> _Key:
    """Return what names an image: its file, its position, the member that it is."""
    return row.path, row.position, row.member


def read(path: str, budget: Budget) -> Kernels:
    """Return the kernels of a file's images, also of one in a package; what cannot be read is its ``problem``."""
    found = Kernels()
    try:
        with opened(path, budget) as source:
            for row in rows_of(source.view(), OPTIONS):
                found.add(row)
    except (FatpackError, OSError) as error:
        found.problem = found.problem or message(error)
    return found


def read_together(paths: Iterable[str], budget: Budget, *, deep: bool) -> dict[str, Kernels]:
    """Return the kernels of files in packages, each of which is walked once.

    A file of which something cannot be read is left out: :func:`read` says it.
    """
    made = of_packages(paths, _of_leaf, budget, deep=deep)
    return {path: found for path, found in made.items() if not found.problem}


def _of_leaf(leaf: Leaf) -> Kernels:
    found = Kernels()
    for row in rows_of_leaf(leaf, OPTIONS):
        found.add(row)
    return found


def of_unit(unit: UnitRows, kernels: Kernels) -> tuple[str, ...]:
    """Return the kernels of a unit, each once, in the order of its images."""
    names: dict[str, None] = {}
    for row in unit.images:
        names |= kernels.names.get(key_of(row), {})
    return tuple(names)


def has_none(unit: UnitRows, kernels: Kernels) -> bool:
    """Return whether a unit has no kernels for sure: every image of it was read, and would show them."""
    keys = [key_of(row) for row in unit.images]
    are_read = all(key in kernels.names and key not in kernels.unread for key in keys)
    are_shown = all(row.form in NAMING and not row.findings for row in unit.images)
    return are_read and are_shown and not any(kernels.names[key] for key in keys)
