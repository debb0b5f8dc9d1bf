"""Whether files are healthy: ``doctor``."""

from __future__ import annotations

import os

from fatpack.errors import UsageError
from fatpack.library.arguments import as_paths, as_patterns, check_bools, make_budget

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from fatpack.commands.doctor.model import DoctorResult


def doctor(
    *paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    exclude: Iterable[str] = (),
    deep: bool = False,
    max_inflated: int | None = None,
) -> DoctorResult:
    """Return how files, folders, patterns, packages and URLs are: what was verified, what is wrong, what is not known.

    They are named one by one, or several in a list.

    Every container is parsed and written again, every image inflated and read with its kernels, and what has a hash is
    compared with it; ``docs/how-to/verify-a-file.md`` says what that means. Nothing is raised for a file: what is wrong
    stands in ``findings``, and the diagnosis is true if nothing is. Files are read on all cores.

    ``exclude`` are patterns of files in folders and packages that are left out, ``deep`` searches everything for
    containers, and ``max_inflated`` is as for :func:`fatpack.open`, for all of them together. Raises TypeError for an
    argument of another kind, UsageError for none, and for a pattern that no file has.
    """
    from fatpack.commands.doctor.run import diagnose

    patterns = as_patterns(exclude)
    check_bools(deep=deep)
    if not paths:
        raise UsageError("no path given", hint="fatpack.doctor(path)")
    names = [name for given in paths for name in as_paths("paths", given)]
    unmatched: list[str] = []
    found = diagnose(names, exclude=patterns, deep=deep, unmatched=unmatched, budget=make_budget(max_inflated))
    if unmatched:
        raise UsageError(f"no file matches {unmatched[0]}")
    return found
