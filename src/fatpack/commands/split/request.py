"""The request of ``split``, ``[tool.fatpack.split]``, and the function of the library."""

from __future__ import annotations

import errno
import os

from fatpack.command_line.shared_options import allow_any_output, check_output_name
from fatpack.commands.split.run import split_packages
from fatpack.commands.split.variants import schema_named
from fatpack.errors import UsageError, cli_or_api
from fatpack.inputs.project_file import find_table, read_table
from fatpack.library.arguments import as_path, as_paths, as_strings, check_bools, check_type, make_budget
from fatpack.record import Record
from fatpack.targets.installers.conda import CUDA_ARCH, METAPACKAGE
from fatpack.targets.installers.variant_documents import NEWEST_SCHEMA

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from fatpack.commands.split.model import SplitResult
    from fatpack.limits import Budget
    from fatpack.literals import CondaDependency, NullPackage

__all__ = ["split"]

#: what the package for all others has: all of the fat one, what no label serves, or there is none
NULL_RULES = ("fat", "rest", "none")

#: setting of ``[tool.fatpack.split]`` → its kind
KEYS = {
    "by": (str, list),
    "null": (str,),
    "insist": (str, list),
    "schema-version": (str,),
    "depend-on": (str,),
    "directory": (str,),
}


class SplitRequest(Record):
    """The packages, the rule or list of labels (``by``), and where the results go.

    ``null`` is what the package for all others has, ``insisted`` are labels that stay although devices that get them
    have no code, ``schema`` is the version of the metadata of variants. Packages of conda depend on ``depend_on``.
    ``planned`` gets the number of libraries of a package that are planned, and of all.
    """

    files: tuple[str, ...]
    by: str = "family"
    directory: str | None = None
    null: str = "fat"
    insisted: tuple[str, ...] = ()
    schema: str = NEWEST_SCHEMA
    depend_on: CondaDependency = "cuda-arch"
    dry_run: bool = False
    force: bool = False
    budget: Budget | None = None
    planned: Callable[[int, int], None] | None = None

    def check(self) -> None:
        """Raise UsageError unless the request says what to split, and where the results go."""
        if not self.files:
            raise UsageError("no package is given", hint="fatpack split dist/*.whl --by family -d variants")
        if self.null not in NULL_RULES:
            raise UsageError(f"null {self.null[:40]!r}", hint=f"choose from {', '.join(NULL_RULES)}")
        schema_named(self.schema)
        if self.depend_on not in (METAPACKAGE, CUDA_ARCH):
            hint = f"choose from {METAPACKAGE}, {CUDA_ARCH}"
            raise UsageError(f"{cli_or_api('--depend-on', 'depend_on')} {self.depend_on[:40]!r}", hint=hint)
        names = [os.path.basename(file) for file in self.files]
        for name in names:
            if names.count(name) > 1:
                raise UsageError(f"{name} is given twice", hint="name each package once")
        for file in self.files:
            if "://" not in file and not os.path.lexists(file):
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), file)
        if self.dry_run:
            return
        if self.directory is None:
            raise UsageError("say where to write", hint=cli_or_api("-d DIR, or --dry-run", "give directory"))
        allow_any_output(self.force)
        check_output_name(self.directory)
        if os.path.lexists(self.directory) and not os.path.isdir(self.directory):
            hint = cli_or_api("give another one with -d", "give another one")
            raise UsageError(f"{self.directory} is no folder", hint=hint)


def with_settings(given: Mapping[str, Any], config: str | None, *, reads: bool) -> tuple[dict[str, Any], str]:
    """Return the options of a call with those of ``[tool.fatpack.split]``, and the file that has it, "" for none.

    ``config`` is a TOML file; without one the nearest pyproject.toml is read if ``reads``. What is given (not None)
    replaces a setting. Raises UsageError for a wrong table, and ``OSError``.
    """
    table: Mapping[str, Any] = {}
    path = ""
    if config is not None:
        if not reads:
            names = cli_or_api("--config and --no-config", "config and no settings")
            raise UsageError(f"{names} contradict each other", hint="leave one of them out")
        path, table = config, read_table(config, "split")
    elif reads:
        found = find_table("split")
        path, table = found if found is not None else ("", {})
    settings: dict[str, Any] = {}
    for name, value in table.items():
        kinds = KEYS.get(name)
        if kinds is None:
            raise UsageError(f"{path}: there is no setting {name!r}", hint=f"settings are {', '.join(KEYS)}")
        is_list = isinstance(value, list) and list in kinds and all(isinstance(item, str) for item in value)
        if not (is_list or (isinstance(value, str) and str in kinds)):
            raise UsageError(f"{path}: {name} is not a text{' or a list of texts' if list in kinds else ''}")
        settings[name.replace("-", "_")] = value
    return {**settings, **{name: value for name, value in given.items() if value is not None}}, path


def make_request(files: Sequence[str], options: Mapping[str, Any], **rest: Any) -> SplitRequest:
    """Return the request for some files by options and settings, which may lack. Raises UsageError."""
    by, insisted = options.get("by", "family"), options.get("insist", ())
    request = SplitRequest(
        tuple(files),
        by if isinstance(by, str) else ",".join(by),
        options.get("directory"),
        options.get("null", "fat"),
        tuple(
            part.strip() for text in ([insisted] if isinstance(insisted, str) else insisted) for part in text.split(",")
        ),
        options.get("schema_version", NEWEST_SCHEMA),
        options.get("depend_on", METAPACKAGE),
        **rest,
    )
    request.check()
    return request


def split(
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    directory: str | os.PathLike[str] | None = None,
    *,
    by: str | Sequence[str] | None = None,
    null: NullPackage | None = None,
    insist: str | Sequence[str] | None = None,
    schema_version: str | None = None,
    depend_on: CondaDependency | None = None,
    config: str | os.PathLike[str] | None = None,
    dry_run: bool = False,
    overwrite: bool = False,
    max_inflated: int | None = None,
    max_output: int | None = None,
) -> SplitResult:
    """Write a package for each kind of device that fat ones serve, and the file from which installers choose.

    ``paths`` are wheels or conda packages; those of one release get the same labels. ``by`` is ``family`` (a label for
    each major version of NVIDIA's code, and for each target of AMD; the default), ``device`` (for each architecture),
    or labels: ``"sm_80,hopper=sm_90,ampere=sm_80+sm_86"``. ``null`` is what the wheel for all others has: all of the
    fat one (``fat``, the default), what devices without a label load (``rest``), or there is none. ``insist`` names
    labels of wheels that stay although devices to which installers give them have no code. ``depend_on`` is the package
    on which conda packages depend. ``config`` is a TOML file with ``[tool.fatpack.split]``, which says what is not
    given here. With ``dry_run`` all is planned and nothing written.

    The result says what every device gets today and then. Raises FatpackError with ``exit_code`` 1 where a device would
    get less than today, UsageError, TargetError, HostError for a signed package, and FormatError. ``overwrite``,
    ``max_inflated`` and ``max_output`` are those of :func:`fatpack.extract`.
    """
    check_bools(dry_run=dry_run, overwrite=overwrite)
    given = {
        "by": None if by is None else by if isinstance(by, str) else list(as_strings("by", by)),
        "null": None if null is None else check_type("null", null, str, "a text"),
        "insist": None if insist is None else list(as_strings("insist", insist)),
        "schema_version": None
        if schema_version is None
        else check_type("schema_version", schema_version, str, "a text"),
        "depend_on": None if depend_on is None else check_type("depend_on", depend_on, str, "a text"),
        "directory": None if directory is None else as_path("directory", directory),
    }
    path = None if config is None else as_path("config", config)
    options, _ = with_settings(given, path, reads=path is not None)
    budget = make_budget(max_inflated, max_output)
    request = make_request(as_paths("paths", paths), options, dry_run=dry_run, force=overwrite, budget=budget)
    return split_packages(request, lambda _: None)
