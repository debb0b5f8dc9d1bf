"""What devices load of files: ``explain``."""

from __future__ import annotations

import os

from fatpack.commands.explain.asked import parse_query
from fatpack.commands.explain.run import explain_rows as _explain
from fatpack.commands.inspect.api_rows import rows_with_options
from fatpack.errors import UsageError
from fatpack.io.open import open_source, resolve_url
from fatpack.library.arguments import as_paths, check_type, make_budget
from fatpack.tabular.options import RowOptions
from fatpack.tabular.read_many import read_paths

__all__ = ["explain"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fatpack.commands.explain.model import ExplainResult
    from fatpack.inputs.nested import NestedFile
    from fatpack.io.open import Input
    from fatpack.io.source import Source, View


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
) -> ExplainResult:
    """Return what devices load of a path or several, bytes or a binary file, and why: what ``fatpack explain`` says.

    A path may be an address, as there: ``x.whl!lib/libx.so``, ``libx.a(m.o)``.

    ``device`` is an architecture or what a device is sold as (``sm_87``, ``"RTX 4090"``, ``gfx1031``, ``pvc``,
    ``this-machine``), or several. ``driver`` is NVIDIA's (``"535"`` or 535) or ``cuda`` the CUDA version that it has,
    ``rocm`` that of ROCm, ``env`` what variables the program will find. ``kernel`` is a regular expression: only
    containers with a kernel of such a name count. ``deep`` and ``max_inflated`` are as for :func:`fatpack.open`.

    Nothing is raised for a file: what could not be read is in ``unread`` of the result. Raises TargetError for an
    unknown device, UsageError and TypeError for wrong arguments. Names are explained by
    :func:`fatpack.targets.explain_name`, files here.
    """
    names = [device] if isinstance(device, str) else _names(device)
    check_type("kernel", kernel, str, "a regular expression, as a text")
    check_type("deep", deep, bool, "True or False")
    variables = [f"{name}={value}" for name, value in _variables(env).items()]
    asked = parse_query(names, driver=driver, cuda=cuda, rocm=rocm, variables=variables, kernel=kernel)
    options = RowOptions(heads=True, deep=deep, kernel=kernel)
    if not isinstance(data, (str, os.PathLike, list, tuple)):
        name = str(getattr(data, "name", "")) or "bytes"
        return _explain(rows_with_options(data, options, max_inflated), [name], asked)  # type: ignore[arg-type]  # of images
    paths, unmatched, budget = as_paths("data", data), list[str](), make_budget(max_inflated)

    def opened(path: str) -> tuple[Source | NestedFile, View]:
        from fatpack.selectors.address import is_address, open_location

        if not is_address(path):
            source = open_source(resolve_url(path), budget=budget)
            return source, source.view()
        entered, place = open_location(path, ranges=True)
        place.view.source.budget = budget
        return entered, place.view

    rows = read_paths(paths, options, unmatched=unmatched, budget=budget, opener=opened)
    found = _explain(rows, paths, asked)  # type: ignore[arg-type]  # rows of images were asked for
    if unmatched:
        raise UsageError(f"no file matches {unmatched[0]}")
    return found.replace(unlooked=rows.unlooked)


def _names(device: object) -> list[str]:
    if not isinstance(device, (list, tuple)):
        raise TypeError(f"device must be the name of a device, or several in a list, got {type(device).__name__}")
    return [check_type("a name in device", name, str, "a text") for name in device]


def _variables(env: Mapping[str, str] | None) -> Mapping[str, str]:
    if env is None:
        return {}
    if not hasattr(env, "items"):
        raise TypeError(f"env must be variables and their values in a dictionary, got {type(env).__name__}")
    for name, value in env.items():
        check_type("a name in env", name, str, "a text")
        check_type(f"env[{name!r}]", value, str, "a text, as '1'")
    return env
