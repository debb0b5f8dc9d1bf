"""What differs between two releases: ``diff``."""

from __future__ import annotations

from fatpack.answers.diff.compare import compare
from fatpack.answers.diff.facts import Diff
from fatpack.answers.diff.reading import Side
from fatpack.api.arguments import budget_of, check_switches, path_of, patterns_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

__all__ = ["Diff", "diff"]


def diff(
    old: str | os.PathLike[str],
    new: str | os.PathLike[str],
    *,
    kernels: bool = False,
    demangle: bool = False,
    exclude: Sequence[str] = (),
    deep: bool = False,
    max_inflated: int | None = None,
) -> Diff:
    """Return what differs between the device code of two files, folders, wheels or other packages.

    Libraries are matched by their paths, images by architecture and form. Images with the same stored bytes are the
    same; of others the contents are compared, with ``kernels`` also what each kernel does and needs, so that a build
    without a change is no difference. ``demangle`` gives kernels the names that people write (``fatpack[demangle]``, or
    a program for it on PATH). ``exclude``, ``deep`` and ``max_inflated`` are those of :func:`fatpack.files`.

    The result has ``differs``, ``kinds``, ``libraries`` and ``to_dict()``; it is true if nothing differs. Nothing is
    raised for a file: what could not be read, or is not there, is in ``unread``. Raises UsageError for a pattern that
    no file has, and Unsupported where nothing demangles.
    """
    paths = path_of("old", old), path_of("new", new)
    check_switches(kernels=kernels, demangle=demangle, deep=deep)
    budget, left_out = budget_of(max_inflated), patterns_of(exclude)
    found = compare(
        Side(paths[0], left_out, deep, budget, raises=False),
        Side(paths[1], left_out, deep, budget, raises=False),
        kernels=kernels,
    )
    if demangle:
        from fatpack.answers.diff.names import with_demangled

        found = with_demangled(found)
    return found
