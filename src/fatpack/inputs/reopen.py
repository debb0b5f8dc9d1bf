"""Open files again that a walk met, by their paths: for questions that only some of them raise."""

from __future__ import annotations

from fatpack.inputs.files import SEPARATOR, Filter, MemberPath, SkipCounts
from fatpack.inputs.map_files import map_paths
from fatpack.inputs.nested import open_nested
from fatpack.io.open import open_source, resolve_url

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import TypeVar

    from fatpack.inputs.files import InputFile
    from fatpack.inputs.nested import NestedFile
    from fatpack.io.source import Source
    from fatpack.limits import Budget

    T = TypeVar("T")


def reopen(path: str, budget: Budget) -> Source | NestedFile:
    """Open a file again, also one in a package. Raises FatpackError and ``OSError``.

    In a package that is compressed as a whole, all data before the file is inflated; for several files, call
    :func:`map_package_files`.
    """
    if isinstance(path, MemberPath):
        return open_nested(open_source(resolve_url(path.names[0]), budget=budget), SEPARATOR.join(path.names[1:]))
    return open_source(resolve_url(path), budget=budget)


def map_package_files(
    paths: Iterable[str], make: Callable[[InputFile], T], budget: Budget, *, deep: bool
) -> dict[str, T]:
    """Return what ``make`` makes of files in packages, by their paths: each package is opened and walked once.

    Files that are in no package, and files that the walk does not reach, are left out. ``make`` works in forks.
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
