"""The check: what was named, read once; each rule of the policy held against it."""

from __future__ import annotations

import os

from fatpack.budget import current_budget
from fatpack.commands.check import readable, sizes
from fatpack.commands.check.given import RuleContext
from fatpack.commands.check.model import CheckedLibrary, CheckResult, CompiledDevice
from fatpack.commands.check.rules_init import evaluate_rules
from fatpack.inputs.files import SkipCounts
from fatpack.packages import MODULES as PACKAGES
from fatpack.tabular.options import RowOptions
from fatpack.tabular.read_many import read_paths
from fatpack.tabular.skipped import make_skipped

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from fatpack.budget import Budget
    from fatpack.commands.check.policy_policy import Policy
    from fatpack.commands.check.rule_context import FileImageSets
    from fatpack.inputs.map_files import Opener
    from fatpack.tabular.read_many import FileCallback


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

    Fails closed: what cannot be read fails it, and so does what was named and has no device code, if any is required.
    """
    names = [os.fspath(path) for path in paths]
    work = RuleContext(names, policy, current_budget() if budget is None else budget)
    counts, unmatched = SkipCounts(), list[str]()
    options = RowOptions(heads=True, deep=policy.deep, each_kernel=policy.uniform)
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
    work.read(rows)
    violations = [*readable.unread_violations(work, unmatched), *evaluate_rules(work, opener), *readable.skipped(work)]
    compiled = {name: CompiledDevice(name, units, total) for name, (units, total) in work.compiled.items() if units}
    required = tuple(
        one.replace(compiled=tuple(compiled[name] for name in one.devices if name in compiled))
        for one in policy.required
    )
    return CheckResult(
        sizes.measure_paths(work),
        policy.rules,
        tuple(_library(item, policy) for item in work.found if item.units),
        tuple(violations),
        sum(item.last.host is not None and item.last.host not in PACKAGES for item in work.found),
        counts.passed,
        config,
        required,
        make_skipped(counts),
    )


def _library(item: FileImageSets, policy: Policy) -> CheckedLibrary:
    archs = dict.fromkeys(arch for unit in item.units for arch in unit.archs)
    vendors = tuple(dict.fromkeys(unit.vendor for unit in item.units))
    size = item.last.file_size or 0
    return CheckedLibrary(item.last.path, size, len(item.units), tuple(archs), vendors, policy.asks(vendors))
