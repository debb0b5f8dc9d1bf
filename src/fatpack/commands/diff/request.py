"""What differs between two releases: ``diff``."""

from __future__ import annotations

from fatpack.commands.diff.model import DiffResult
from fatpack.commands.diff.release import Release
from fatpack.commands.diff.run import compare_releases
from fatpack.library.arguments import as_path, as_patterns, check_bools, make_budget

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

__all__ = ["DiffResult", "diff"]


def diff(
    old: str | os.PathLike[str],
    new: str | os.PathLike[str],
    *,
    kernels: bool = False,
    demangle: bool = False,
    exclude: Sequence[str] = (),
    deep: bool = False,
    max_inflated: int | None = None,
) -> DiffResult:
    """Return what differs between the device code of two files, folders, wheels or other packages.

    Libraries are matched by their paths, images by architecture and form. Images with the same stored bytes are the
    same; of others the contents are compared, with ``kernels`` also what each kernel does and needs, so that a build
    without a change is no difference. ``demangle`` gives kernels the names that people write (``fatpack[demangle]``, or
    a program for it on PATH). ``exclude``, ``deep`` and ``max_inflated`` are those of :func:`fatpack.files`.

    The result has ``differs``, ``kinds``, ``libraries`` and ``to_dict()``. It has no truth value: ``bool()`` raises
    TypeError, since ``if diff(…)`` can be read both ways; write ``diff(…).differs``. Nothing is raised for a file:
    ``unread`` has the files that could not be read, or are not there. Raises UsageError for a pattern that
    no file has, and Unsupported where nothing demangles.
    """
    paths = as_path("old", old), as_path("new", new)
    check_bools(kernels=kernels, demangle=demangle, deep=deep)
    budget, left_out = make_budget(max_inflated), as_patterns(exclude)
    found = compare_releases(
        Release(paths[0], left_out, deep, budget, raises=False),
        Release(paths[1], left_out, deep, budget, raises=False),
        kernels=kernels,
    )
    if demangle:
        from fatpack.commands.diff.run import with_demangled_kernels

        found = with_demangled_kernels(found)
    return found
