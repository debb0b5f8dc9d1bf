"""The check: what was named, read once; each rule of the policy held against it."""

from __future__ import annotations

import os

from fatpack.answers.policy.given import Given
from fatpack.answers.policy.outcome import Checked, CheckedLibrary, Compiled
from fatpack.answers.policy.rules import broken, readable, sizes
from fatpack.facts.gathering import gather
from fatpack.facts.options import RowOptions
from fatpack.facts.unlooked import unlooked_of
from fatpack.io.budget import budget_now
from fatpack.packages import ROOMS as PACKAGES
from fatpack.trees.leaves import Counts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from fatpack.answers.policy.policy import Policy
    from fatpack.answers.policy.units import FileUnits
    from fatpack.facts.gathering import OnFile
    from fatpack.io.budget import Budget
    from fatpack.trees.paths import Opener


def check(
    paths: Sequence[str | os.PathLike[str]],
    policy: Policy,
    *,
    on_file: OnFile | None = None,
    budget: Budget | None = None,
    opener: Opener | None = None,
    config: str = "",
) -> Checked:
    """Return whether files, folders, packages and URLs keep to a policy. Raises UsageError for growth that is no size.

    Fails closed: what cannot be read fails it, and so does what was named and has no device code, if any is required.
    """
    names = [os.fspath(path) for path in paths]
    work = Given(names, policy, budget_now() if budget is None else budget)
    counts, unmatched = Counts(), list[str]()
    options = RowOptions(heads=True, deep=policy.deep, each_kernel=policy.uniform)
    rows = gather(
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
    violations = [*readable.unread(work, unmatched), *broken(work, opener), *readable.skipped(work)]
    compiled = {name: Compiled(name, units, total) for name, (units, total) in work.compiled.items() if units}
    required = tuple(
        one.replace(compiled=tuple(compiled[name] for name in one.devices if name in compiled))
        for one in policy.required
    )
    return Checked(
        sizes.measured(work),
        policy.rules,
        tuple(_library(item, policy) for item in work.found if item.units),
        tuple(violations),
        sum(item.last.host is not None and item.last.host not in PACKAGES for item in work.found),
        counts.passed,
        config,
        required,
        unlooked_of(counts),
    )


def _library(item: FileUnits, policy: Policy) -> CheckedLibrary:
    archs = dict.fromkeys(arch for unit in item.units for arch in unit.archs)
    vendors = tuple(dict.fromkeys(unit.vendor for unit in item.units))
    size = item.last.file_size or 0
    return CheckedLibrary(item.last.path, size, len(item.units), tuple(archs), vendors, policy.asks(vendors))
