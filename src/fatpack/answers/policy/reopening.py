"""Files that rows were made of, opened again for what only some rules ask: many files of a package in one walk."""

from __future__ import annotations

from fatpack.io.sources.opening import located, open_source
from fatpack.trees.entering import entered
from fatpack.trees.leaves import SEPARATOR, Counts, LeafPath, Rules
from fatpack.trees.paths import made_of_paths

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import TypeVar

    from fatpack.io.budget import Budget
    from fatpack.io.source import Source
    from fatpack.trees.entering import Entered
    from fatpack.trees.leaves import Leaf

    T = TypeVar("T")


def opened(path: str, budget: Budget) -> Source | Entered:
    """Open a file again that rows were made of, also one in a package. Raises FatpackError and ``OSError``.

    Of a package that is compressed as a whole everything before the file is inflated: :func:`of_packages` takes many.
    """
    if isinstance(path, LeafPath):
        return entered(open_source(located(path.names[0]), budget=budget), SEPARATOR.join(path.names[1:]))
    return open_source(located(path), budget=budget)


def of_packages(paths: Iterable[str], make: Callable[[Leaf], T], budget: Budget, *, deep: bool) -> dict[str, T]:
    """Return what ``make`` makes of files in packages, by their paths: each package is opened and walked once.

    Files that are in no package, and those that the walk does not come to, are left out. ``make`` works in forks.
    """
    packages: dict[str, dict[str, None]] = {}
    for path in paths:
        if isinstance(path, LeafPath):
            wanted = packages.setdefault(path.names[0], {})
            for count in range(1, len(path.names)):
                wanted[SEPARATOR.join(path.names[: count + 1])] = None
    found: dict[str, T] = {}
    for name, wanted in packages.items():
        rules = Rules(deep=deep)
        made = made_of_paths(
            [name], lambda leaf: (leaf.path, make(leaf)), rules, Counts(), [], budget=budget, chosen=wanted.__contains__
        )
        found.update((path, each) for path, each in made if path in wanted)
    return found
