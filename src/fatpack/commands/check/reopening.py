"""Files that rows were made of, opened again for what only some rules ask: many files of a package in one walk."""

from __future__ import annotations

from fatpack.inputs.files import SEPARATOR, Filter, MemberPath, SkipCounts
from fatpack.inputs.map_files import map_paths
from fatpack.inputs.nested import open_nested
from fatpack.io.open import open_source, resolve_url

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import TypeVar

    from fatpack.budget import Budget
    from fatpack.inputs.files import InputFile
    from fatpack.inputs.nested import NestedFile
    from fatpack.io.source import Source

    T = TypeVar("T")


def reopen(path: str, budget: Budget) -> Source | NestedFile:
    """Open a file again that rows were made of, also one in a package. Raises FatpackError and ``OSError``.

    Of a package that is compressed as a whole everything before the file is inflated: :func:`of_packages` takes many.
    """
    if isinstance(path, MemberPath):
        return open_nested(open_source(resolve_url(path.names[0]), budget=budget), SEPARATOR.join(path.names[1:]))
    return open_source(resolve_url(path), budget=budget)


def map_package_files(
    paths: Iterable[str], make: Callable[[InputFile], T], budget: Budget, *, deep: bool
) -> dict[str, T]:
    """Return what ``make`` makes of files in packages, by their paths: each package is opened and walked once.

    Files that are in no package, and those that the walk does not come to, are left out. ``make`` works in forks.
    """
    packages: dict[str, dict[str, None]] = {}
    for path in paths:
        if isinstance(path, MemberPath):
            wanted = packages.setdefault(path.names[0], {})
            for count in range(1, len(path.names)):
                wanted[SEPARATOR.join(path.names[: count + 1])] = None
    found: dict[str, T] = {}
    for name, wanted in packages.items():
        rules = Filter(deep=deep)
        made = map_paths(
            [name],
            lambda leaf: (leaf.path, make(leaf)),
            rules,
            SkipCounts(),
            [],
            budget=budget,
            chosen=wanted.__contains__,
        )
        found.update((path, each) for path, each in made if path in wanted)
    return found
