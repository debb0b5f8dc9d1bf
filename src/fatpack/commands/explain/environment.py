"""The packages of an environment, and the outcome of each on every GPU of one machine.

An installer takes a build for the machine as a whole: uv by the highest GPU, conda by the lowest. The libraries that it
installed have to run on all of them.
"""

from __future__ import annotations

import os
import shlex

from fatpack.commands.explain.model import InstalledPackage, PackageOutcome
from fatpack.commands.explain.run import explain_rows
from fatpack.distributions.installed import owners_by_file, read_descriptions
from fatpack.tabular.columns import RowOptions
from fatpack.tabular.read_many import read_paths
from fatpack.targets.installers.variant_documents import InvalidVariants, parse_variants
from fatpack.targets.installers.variant_providers import NULL_LABEL, fits, nvidia_features
from fatpack.targets.nvidia import cuda_versions

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from fatpack.commands.explain.model import DeviceAnswer, ExplainResult
    from fatpack.commands.explain.run import ExplainQuery
    from fatpack.distributions.installed import Description
    from fatpack.limits import Budget
    from fatpack.targets.installers.variant_documents import VariantDocument

#: LIMIT: bytes of ``variant.json``
_LARGEST = 4 << 20

#: outcomes of units, the worst first
_WORST = ("fails", "unknown", "compiles", "runs")


def explain_environment(
    environment: str, question: ExplainQuery, *, deep: bool = False, budget: Budget | None = None
) -> ExplainResult:
    """Return what devices load of all packages of an environment, and the outcome of each package.

    Raises UsageError for a folder that is no environment, BadValue for a description that cannot be read, ``OSError``.
    """
    descriptions = read_descriptions(environment)
    owners = owners_by_file(descriptions)
    paths = [path for path in owners if os.path.isfile(path)]
    rows = read_paths(paths, RowOptions(compares_heads=True, deep=deep, kernel=question.kernel), budget=budget)
    found = explain_rows(rows, [environment], question)  # type: ignore[arg-type]  # rows of images were asked for
    packages = tuple(_packages(descriptions, owners, found, question))
    return found.replace(packages=packages, unlooked=rows.unlooked)


def _packages(
    descriptions: Sequence[Description],
    owners: Mapping[str, Description],
    found: ExplainResult,
    question: ExplainQuery,
) -> Iterator[InstalledPackage]:
    by_path: dict[str, list[PackageOutcome]] = {}
    for answer in found.devices:
        for path, outcome in _outcomes(answer, owners).items():
            by_path.setdefault(path, []).append(outcome)
    for description in descriptions:
        outcomes = tuple(by_path.get(description.path, ()))
        if outcomes:
            document = _variant(description)
            label = next(iter(document.variants), "") if document is not None else ""
            notes = tuple(_notes(description, label, document, outcomes, question))
            yield InstalledPackage(description.package, description.installer, label, outcomes, notes)


def _outcomes(answer: DeviceAnswer, owners: Mapping[str, Description]) -> dict[str, PackageOutcome]:
    """Return the outcome of each package on a device, by the path of its description."""
    worst: dict[str, tuple[str, str]] = {}
    for unit in answer.units:
        for place in unit.places:
            before = worst.get(place.path)
            if before is None or _WORST.index(unit.outcome) < _WORST.index(before[0]):
                worst[place.path] = unit.outcome, f"{os.path.basename(place.path)}: {unit.reason} [{unit.rule}]"
    found: dict[str, list[tuple[str, str]]] = {}
    for path, end in worst.items():
        if path in owners:
            found.setdefault(owners[path].path, []).append(end)
    made = {}
    for path, ends in found.items():
        count = {outcome: sum(1 for each, _ in ends if each == outcome) for outcome in _WORST}
        bad = min(ends, key=lambda each: _WORST.index(each[0]))
        reason = bad[1] if bad[0] in ("fails", "unknown") else ""
        made[path] = PackageOutcome(
            answer.device, count["runs"] + count["compiles"], count["fails"], count["unknown"], reason
        )
    return made


def _variant(description: Description) -> VariantDocument | None:
    """Return what an installed wheel says of its variant; None without that, and for what no installer accepts."""
    path = os.path.join(os.path.dirname(description.path), "variant.json")
    if not os.path.isfile(path):
        return None
    with open(path, "rb") as file:
        data = file.read(_LARGEST + 1)
    try:
        return parse_variants(data)
    except InvalidVariants:
        return None


def _notes(
    description: Description,
    label: str,
    document: VariantDocument | None,
    outcomes: Sequence[PackageOutcome],
    question: ExplainQuery,
) -> Iterator[str]:
    capabilities = sorted({(each.nvidia.major, each.nvidia.minor) for each in question.devices if each.nvidia})
    if not capabilities or not label or label == NULL_LABEL or document is None:
        return
    properties = document.variants[label]
    highest, driver = capabilities[-1], question.settings.driver or cuda_versions()[-1]
    listed = {"nvidia": nvidia_features(capabilities, driver)}
    if set(properties) == {"nvidia"} and not fits(properties, listed):
        yield f"uv takes another variant for this machine, whose highest GPU is {_dotted(highest)}"
    lower = {f"sm_{major}{minor}" for major, minor in capabilities[:-1]}
    if any(each.device in lower and each.fails for each in outcomes):
        again = {"uv": "uv pip install --reinstall --no-deps", "pip": "pip install --force-reinstall --no-deps"}
        command = f"{again.get(description.installer, again['pip'])} {shlex.quote(description.package)}"
        yield (
            f"uv takes variants by the highest GPU alone, {_dotted(highest)}: install the wheel for all GPUs, without "
            f"the preview of variants: {command}"
        )


def _dotted(capability: tuple[int, int]) -> str:
    return f"{capability[0]}.{capability[1]}"
