"""The library function ``explain``: images that devices load from files."""

from __future__ import annotations

import os
import re

from fatpack.commands.explain.run import ExplainQuery
from fatpack.commands.explain.run import explain_rows as _explain
from fatpack.commands.inspect.rows import rows_with_options
from fatpack.errors import UsageError, cli_or_api
from fatpack.library.arguments import as_paths, check_type, make_budget
from fatpack.limits import current_budget
from fatpack.selectors.address import open_argument
from fatpack.tabular.columns import RowOptions
from fatpack.tabular.read_many import read_paths
from fatpack.targets.local_devices import parse_devices as devices_of
from fatpack.targets.selection.drivers import driver_cuda, parse_cuda_version, parse_version
from fatpack.targets.selection.runtime_settings import RuntimeSettings, with_variables

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from fatpack.commands.explain.model import ExplainResult, InstallerChoice
    from fatpack.inputs.nested import NestedFile
    from fatpack.io.open import Input
    from fatpack.io.source import Source, View
    from fatpack.limits import Budget


# The words of the command line → the request. Raises UsageError and TargetError for words that are invalid.


def parse_query(
    devices: Iterable[str],
    *,
    driver: str | float | None = None,
    cuda: str | float | None = None,
    rocm: str | float | None = None,
    variables: Iterable[str] = (),
    kernel: str = "",
) -> ExplainQuery:
    """Return the question; ``driver`` is a driver's number, ``cuda`` its CUDA version, and both is one too many."""
    driver, cuda, rocm = _text("driver", driver), _text("cuda", cuda), _text("rocm", rocm)
    if driver and cuda:
        raise UsageError(
            f"{cli_or_api('--driver', 'driver=')} and {cli_or_api('--cuda', 'cuda=')} both say which driver it is",
            hint="give one of them",
        )
    number = driver.removeprefix("r").removeprefix("R") if driver else ""
    found = driver_cuda(number) if number else parse_cuda_version(cuda) if cuda else None
    settings = RuntimeSettings(found, parse_version(rocm, "version of ROCm") if rocm else None)
    try:
        re.compile(kernel)
    except re.error as error:
        raise UsageError(f"{kernel[:80]!r} is no regular expression: {error}") from error
    named = devices_of(devices)
    if not named:
        example = cli_or_api("--device 'RTX 4090'", "device='RTX 4090'")
        raise UsageError(cli_or_api("no device was named", "device names none"), hint=f"name one: {example}")
    words = f"CUDA {found[0]}.{found[1]}" if found else ""
    return ExplainQuery(named, with_variables(settings, variables), kernel, words, rocm or "")


def _text(name: str, value: object) -> str | None:
    """Return a version as text: 12.2 and 535 are numbers in Python. Raises TypeError for what is no version."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return str(value)
    raise TypeError(f"{name} must be a version, as a text or a number, got {type(value).__name__}")


__all__ = ["explain"]


def explain(
    paths: Input | Sequence[str | os.PathLike[str]],
    device: str | Sequence[str],
    *,
    driver: str | float | None = None,
    cuda: str | float | None = None,
    rocm: str | float | None = None,
    env: Mapping[str, str] | None = None,
    kernel: str = "",
    installer: str | None = None,
    environment: str | os.PathLike[str] | None = None,
    deep: bool = False,
    max_inflated: int | None = None,
) -> ExplainResult:
    """Return what devices load of a path or several, bytes or a binary file, and why: what ``fatpack explain`` says.

    A path may be an address, as there: ``x.whl!lib/libx.so``, ``libx.a(m.o)``.

    ``device`` is an architecture or what a device is sold as (``sm_87``, ``"RTX 4090"``, ``gfx1031``, ``pvc``,
    ``this-machine``), or several. ``driver`` is NVIDIA's (``"535"`` or 535) or ``cuda`` the CUDA version that it has,
    ``rocm`` that of ROCm, ``env`` what variables the program will find. ``kernel`` is a regular expression: only
    containers with a kernel of such a name count. ``deep`` and ``max_inflated`` are as for :func:`fatpack.open`.

    With ``installer`` (uv, pip, conda, hugging-face) the paths are builds of a release, of which it first takes one for
    a machine with all devices: ``installed`` of the result. With ``environment``, a folder, what is installed there is
    explained, package by package; ``paths`` is ``()`` then.

    Nothing is raised for a file: what could not be read is in ``unread`` of the result. Raises TargetError for an
    unknown device, UsageError and TypeError for wrong arguments. Files are explained
    here, names by ``explain_name``: ``from fatpack.commands.targets.run import explain_name``.
    """
    names = [device] if isinstance(device, str) else _names(device)
    check_type("kernel", kernel, str, "a regular expression, as a text")
    check_type("deep", deep, bool, "True or False")
    variables = [f"{name}={value}" for name, value in _variables(env).items()]
    query = parse_query(names, driver=driver, cuda=cuda, rocm=rocm, variables=variables, kernel=kernel)
    if environment is not None:
        if not isinstance(environment, (str, os.PathLike)):
            raise TypeError(f"environment must be a folder, as a path, got {type(environment).__name__}")
        if installer is not None or paths not in ((), []):
            raise UsageError("environment takes neither paths nor an installer", hint="pass () for paths")
        environment = os.fspath(environment)
        return explain_paths([], query, environment=environment, deep=deep, budget=make_budget(max_inflated))[0]
    if not isinstance(paths, (str, os.PathLike, list, tuple)):
        name = str(getattr(paths, "name", "")) or "bytes"
        rows = rows_with_options([paths], _row_options(query, deep=deep), max_inflated)  # type: ignore[list-item]
        return _explain(rows, [name], query, has_files=False)  # type: ignore[arg-type]  # rows of images
    found, unmatched = explain_paths(
        as_paths("paths", paths),
        query,
        installer=None if installer is None else check_type("installer", installer, str, "a text"),
        deep=deep,
        budget=make_budget(max_inflated),
    )
    if unmatched:
        raise UsageError(f"no file matches {unmatched[0]}")
    return found


def explain_paths(
    paths: Sequence[str],
    query: ExplainQuery,
    *,
    installer: str | None = None,
    environment: str | None = None,
    deep: bool = False,
    exclude: Sequence[str] = (),
    budget: Budget | None = None,
) -> tuple[ExplainResult, list[str]]:
    """Return what devices load of paths or of an environment, and the patterns that match no file.

    The command and the function of the library both call this. ``budget``: that of the command if None.
    """
    budget = budget or current_budget()
    if environment is not None:
        from fatpack.commands.explain.environment import explain_environment

        return explain_environment(environment, query, deep=deep, budget=budget), []
    choices: tuple[InstallerChoice, ...] = ()
    if installer is not None:
        from fatpack.commands.explain.installers import choose_builds

        choices = choose_builds(paths, installer, query, budget)
        paths = [each.path for each in choices if each.path]

    def opened(path: str) -> tuple[Source | NestedFile, View]:
        file, view = open_argument(path)
        view.source.budget = budget
        return file, view

    unmatched: list[str] = []
    options = _row_options(query, deep=deep)
    rows = read_paths(paths, options, exclude=exclude, unmatched=unmatched, budget=budget, opener=opened)
    found = _explain(rows, paths, query)  # type: ignore[arg-type]  # rows of images were asked for
    found = found.replace(unlooked=rows.unlooked)
    if not choices:
        return found, unmatched
    from fatpack.commands.explain.installers import with_choices

    return with_choices(found, choices), unmatched


def _row_options(query: ExplainQuery, *, deep: bool) -> RowOptions:
    return RowOptions(compares_heads=True, deep=deep, kernel=query.kernel)


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
