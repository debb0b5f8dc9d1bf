"""The names of the kernels of units: read only where a policy is broken, or asks for all of them."""

from __future__ import annotations

from fatpack.errors import FatpackError
from fatpack.facts.reading import RowOptions, rows_of
from fatpack.io.sources.opening import located, open_source
from fatpack.trees.entering import entered
from fatpack.trees.leaves import SEPARATOR, LeafPath

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.answers.policy.units import Unit
    from fatpack.facts.columns import AnyRow
    from fatpack.io.budget import Budget
    from fatpack.io.source import Source
    from fatpack.trees.entering import Entered

#: Forms whose readers name every kernel
_NAMING = ("cubin", "ptx", "code-object")

#: file, position and member of an image → its kernels, in their order
Kernels = dict[tuple[str, str | None, str | None], dict[str, None]]


def key_of(row: AnyRow) -> tuple[str, str | None, str | None]:
    """Return what names an image: its file, its position, the member that it is."""
    return row.path, row.position, row.member


def read(path: str, budget: Budget) -> Kernels:
    """Return the kernels of a file's images, also of one in a package; of images that cannot be read, none."""
    found: Kernels = {}
    try:
        with opened(path, budget) as source:
            for row in rows_of(source.view(), RowOptions(of="kernels", thorough=False)):
                if row.row == "kernel":
                    add(row, found)
    except (FatpackError, OSError):
        pass  # it was read before: what is wrong with it has been told
    return found


def add(row: AnyRow, found: Kernels) -> None:
    """Add the name of the kernel that a row is of."""
    found.setdefault(key_of(row), {})[getattr(row, "kernel", None) or ""] = None


def opened(path: str, budget: Budget) -> Source | Entered:
    """Open a file again that rows were made of, also one in a package. Raises FatpackError and ``OSError``."""
    if isinstance(path, LeafPath):
        return entered(open_source(located(path.names[0]), budget=budget), SEPARATOR.join(path.names[1:]))
    return open_source(located(path), budget=budget)


def of_unit(unit: Unit, kernels: Kernels) -> tuple[str, ...]:
    """Return the kernels of a unit, each once, in the order of its images."""
    names: dict[str, None] = {}
    for row in unit.images:
        names |= kernels.get(key_of(row), {})
    return tuple(names)


def has_none(unit: Unit, kernels: Kernels) -> bool:
    """Return whether a unit has no kernels for sure: all of its images would show them."""
    return not of_unit(unit, kernels) and all(row.form in _NAMING and not row.findings for row in unit.images)
