"""What devices load of files: ``explain``."""

from __future__ import annotations

import os

from fatpack.answers.explain.asked import question
from fatpack.answers.explain.explain import explain as _explain
from fatpack.api.arguments import paths_of
from fatpack.api.rows import rows_with
from fatpack.facts.reading import RowOptions

__all__ = ["explain"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fatpack.answers.explain.records import Explained
    from fatpack.io.sources.opening import Input


def explain(
    data: Input | Sequence[str | os.PathLike[str]],
    device: str | Sequence[str],
    *,
    driver: str | float | None = None,
    cuda: str | float | None = None,
    rocm: str | float | None = None,
    env: Mapping[str, str] | None = None,
    kernel: str = "",
    deep: bool = False,
    max_inflated: int | None = None,
) -> Explained:
    """Return what devices load of a path or several, bytes or a binary file, and why: what ``fatpack explain`` says.

    ``device`` is an architecture or what a device is sold as (``sm_87``, ``"RTX 4090"``, ``gfx1031``, ``pvc``,
    ``this-machine``), or several. ``driver`` is NVIDIA's (``"535"`` or 535) or ``cuda`` the CUDA version that it has,
    ``rocm`` that of ROCm, ``env`` what variables the program will find. ``kernel`` is a regular expression: only
    containers with a kernel of such a name count. ``deep`` and ``max_inflated`` are as for :func:`fatpack.open`.

    Nothing is raised for a file: what could not be read is in ``unread`` of the result. Raises TargetError for an
    unknown device, UsageError and TypeError for wrong arguments. Names are explained by
    :func:`fatpack.target.explain`, files here.
    """
    names = [device] if isinstance(device, str) else list(device)
    variables = [f"{name}={value}" for name, value in (env or {}).items()]
    asked = question(names, driver=driver, cuda=cuda, rocm=rocm, variables=variables, kernel=kernel)
    options = RowOptions(deep=deep, kernel=kernel)
    if isinstance(data, (list, tuple)):
        paths = paths_of("data", data)
        given: list[Input] = [*paths]
    else:
        named = isinstance(data, (str, os.PathLike))
        paths = [os.fspath(data) if named else str(getattr(data, "name", "")) or "bytes"]  # type: ignore[arg-type]
        given = [data]  # type: ignore[list-item]
    rows = (row for one in given for row in rows_with(one, options, max_inflated))
    return _explain(rows, paths, asked)  # type: ignore[arg-type]  # rows of images were asked for
