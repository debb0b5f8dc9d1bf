"""The library function ``check``: checks files against a policy."""

from __future__ import annotations

import os

from fatpack.commands.check import rules
from fatpack.commands.check.model import CheckedLibrary, CheckResult, CompiledDevice
from fatpack.commands.check.policy import has_known_size, make_policy, read_policy_file
from fatpack.commands.check.rule_context import RuleContext
from fatpack.commands.check.rules import evaluate_rules
from fatpack.errors import UsageError
from fatpack.inputs.files import SkipCounts, with_indexed_wheels
from fatpack.library.arguments import as_path, as_paths, as_patterns, as_strings, check_bools, make_budget
from fatpack.library.arguments import check_type as checked_argument
from fatpack.limits import current_budget
from fatpack.packages import MODULES as PACKAGES
from fatpack.tabular.columns import RowOptions
from fatpack.tabular.read_many import read_paths
from fatpack.tabular.skipped import make_skipped

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Literal

    from fatpack.commands.check.policy import Policy
    from fatpack.inputs.map_files import Opener
    from fatpack.limits import Budget
    from fatpack.tabular.file_image_sets import FileImageSets
    from fatpack.tabular.read_many import FileCallback


# The check: all paths are read once, and every rule of the policy is applied.


def check_policy(
    paths: Sequence[str | os.PathLike[str]],
    policy: Policy,
    *,
    on_file: FileCallback | None = None,
    budget: Budget | None = None,
    opener: Opener | None = None,
    config: str = "",
) -> CheckResult:
    """Return whether files, folders, packages and URLs keep to a policy. Raises UsageError for growth that is no size.

    Fails closed: what cannot be read fails it, and so does what was named and has no device code. Only for a policy of
    sizes alone nothing is read, where the system knows them.
    """
    names = with_indexed_wheels([os.fspath(path) for path in paths])
    work = RuleContext(names, policy, current_budget() if budget is None else budget)
    counts, unmatched = SkipCounts(), list[str]()
    options = RowOptions(compares_heads=True, deep=policy.deep, each_kernel=policy.reads_kernels)
    rows = read_paths(
        names,
        options,
        exclude=policy.exclude,
        unmatched=unmatched,
        on_file=on_file,
        counts=counts,
        budget=budget,
        opener=opener,
    )
    if policy.is_about_sizes and all(map(has_known_size, names)):
        violations = list(rules.size_violations(work))
    else:
        work.read(rows)
        violations = [*rules.unread_violations(work, unmatched), *evaluate_rules(work, opener), *rules.skipped(work)]
    compiled = {name: CompiledDevice(name, units, total) for name, (units, total) in work.compiled.items() if units}
    required = tuple(
        one.replace(compiled=tuple(compiled[name] for name in one.devices if name in compiled))
        for one in policy.required
    )
    return CheckResult(
        rules.measure_paths(work),
        policy.rules,
        tuple(_library(item, work) for item in work.found if item.units),
        tuple(violations),
        sum(item.last.host is not None and item.last.host not in PACKAGES for item in work.found),
        counts.passed,
        config,
        required,
        make_skipped(counts),
    )


def _library(item: FileImageSets, work: RuleContext) -> CheckedLibrary:
    archs = dict.fromkeys(arch for unit in item.units for arch in unit.archs)
    vendors = tuple(dict.fromkeys(unit.vendor for unit in item.units))
    size = item.last.file_size or 0
    path, is_asked = item.last.path, work.policy.asks(vendors)
    unchecked = tuple(work.unchecked.get(path, ()))
    tensile = work.tensile(item.units[0]) if len(item.units) == 1 else None
    if tensile is not None:
        path = tensile.path
    words = "" if tensile is None else tensile.words
    return CheckedLibrary(path, size, len(item.units), tuple(archs), vendors, is_asked, unchecked, words)


__all__ = ["CheckResult", "check"]


def check(
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    require: str | Sequence[str] = (),
    forbid: str | Sequence[str] = (),
    max_size: int | str | None = None,
    max_growth: str = "",
    against: str | os.PathLike[str] = "",
    uniform: bool = False,
    no_hollow: bool = False,
    allow_hollow: str | Sequence[str] = (),
    allow_unread: str | Sequence[str] = (),
    registered: bool = False,
    strict: bool = False,
    metadata: bool = False,
    verify: bool = False,
    per: Literal["unit", "library"] | None = None,
    config: str | os.PathLike[str] | None = None,
    exclude: Sequence[str] = (),
    deep: bool = False,
    names_kernels: bool = False,
    max_inflated: int | None = None,
) -> CheckResult:
    """Return whether files, folders, patterns, packages and URLs keep to a policy; it is true if they do.

    The arguments are the options of ``fatpack check``: ``require`` are devices (``sm_80``, ``sm_120+ptx``, ``gfx942``,
    ``RTX 4090``; ``sm_120!`` demands machine code), PTX (``compute_120``) and presets (``@torch-2.9``), in one text or
    several; ``forbid`` are patterns of architectures. ``max_size`` is in bytes, or a text as ``850MB``. ``config`` is a
    TOML file whose settings hold where no argument says else; no pyproject.toml is looked for. ``verify`` reads all
    there is to its last byte, ``names_kernels`` the kernels of large libraries
    too, ``strict`` fails what ``registered`` could not judge. ``allow_unread`` are kinds of files that are not read
    and fail the check otherwise, because they may hold device code: ``tensorrt``, ``7z``.

    Nothing is raised for a file: what cannot be read is a violation, and ``exit_code`` is 3, 4 or 5. Raises UsageError
    for a policy without rules, or with contradictory ones, and TargetError for an unknown device.
    """
    names = as_paths("paths", paths)
    check_bools(
        uniform=uniform, no_hollow=no_hollow, registered=registered, metadata=metadata, verify=verify, deep=deep
    )
    check_bools(names_kernels=names_kernels, strict=strict)
    if max_size is not None and (isinstance(max_size, bool) or not isinstance(max_size, (int, str))):
        raise TypeError(f"max_size must be a number of bytes, or a text as '850MB', got {type(max_size).__name__}")
    if isinstance(max_size, int) and max_size < 0:
        raise UsageError(f"max_size is {max_size}", hint="give the number of bytes")
    checked_argument("max_growth", max_growth, str, "a text, as '5%' or '20MB'")
    if per is not None:
        checked_argument("per", per, str, "'unit' or 'library'")
    file = read_policy_file(as_path("config", config)) if config is not None else None
    given = {
        "require": as_strings("require", require),
        "forbid": as_strings("forbid", forbid),
        "max-size": max_size,
        "max-growth": max_growth or None,
        "against": as_path("against", against) or None,
        "uniform": uniform,
        "no-hollow": no_hollow,
        "allow-hollow": as_strings("allow_hollow", allow_hollow),
        "allow-unread": as_strings("allow_unread", allow_unread),
        "registered": registered,
        "strict": strict,
        "metadata": metadata,
        "per": per,
        "exclude": as_patterns(exclude),
        "verify": verify,
    }
    policy = make_policy(given, file, deep=deep, names_kernels=names_kernels)
    source = "" if file is None else file.path
    return check_policy(names, policy, budget=make_budget(max_inflated), config=source)
