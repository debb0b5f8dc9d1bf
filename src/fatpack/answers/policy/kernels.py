"""The names of the kernels of units: read only where a policy is broken, or asks for all of them."""

from __future__ import annotations

from fatpack.errors import FatpackError
from fatpack.facts.reading import RowOptions, rows_of
from fatpack.findings import CODES
from fatpack.io.sources.opening import located, open_source
from fatpack.outcomes import message
from fatpack.trees.entering import entered
from fatpack.trees.leaves import SEPARATOR, LeafPath

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeAlias

    from fatpack.answers.policy.units import Unit
    from fatpack.facts.columns import AnyRow
    from fatpack.io.budget import Budget
    from fatpack.io.source import Source
    from fatpack.trees.entering import Entered

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
                codes = f" ({', '.join(row.findings)})" if row.findings else ""
                self._fail(f"the kernels of {where} cannot be read{codes}")
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
            for row in rows_of(source.view(), RowOptions(each_kernel=True, thorough=False)):
                found.add(row)
    except (FatpackError, OSError) as error:
        found.problem = found.problem or message(error)
    return found


def opened(path: str, budget: Budget) -> Source | Entered:
    """Open a file again that rows were made of, also one in a package. Raises FatpackError and ``OSError``."""
    if isinstance(path, LeafPath):
        return entered(open_source(located(path.names[0]), budget=budget), SEPARATOR.join(path.names[1:]))
    return open_source(located(path), budget=budget)


def of_unit(unit: Unit, kernels: Kernels) -> tuple[str, ...]:
    """Return the kernels of a unit, each once, in the order of its images."""
    names: dict[str, None] = {}
    for row in unit.images:
        names |= kernels.names.get(key_of(row), {})
    return tuple(names)


def has_none(unit: Unit, kernels: Kernels) -> bool:
    """Return whether a unit has no kernels for sure: every image of it was read, and would show them."""
    keys = [key_of(row) for row in unit.images]
    are_read = all(key in kernels.names and key not in kernels.unread for key in keys)
    are_shown = all(row.form in NAMING and not row.findings for row in unit.images)
    return are_read and are_shown and not any(kernels.names[key] for key in keys)
