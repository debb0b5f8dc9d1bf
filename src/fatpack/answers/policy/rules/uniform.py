"""Every kernel is there for every architecture of its library: ``--uniform``."""

from __future__ import annotations

from fatpack.answers.policy import uniform
from fatpack.answers.policy.given import make_violation
from fatpack.answers.policy.kernels import ImageKernels
from fatpack.answers.policy.outcome import MissingKernels
from fatpack.errors import pluralize

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.answers.policy.given import RuleContext
    from fatpack.answers.policy.outcome import Violation


def uniform_violations(given: RuleContext) -> Iterator[Violation]:
    """Yield what kernels lack, library by library."""
    for item in given.found:
        if not item.units:
            continue
        found = ImageKernels()
        for path in dict.fromkeys(row.path for unit in item.units for row in unit.images):
            found.merge(given.kernels[path])
        missed = uniform.find_uncompared(item.units, found)
        if missed:
            forms = ", ".join(dict.fromkeys(row.form or "unknown" for unit in missed for row in unit.images))
            text = f"{pluralize(len(missed), 'unit')} cannot be compared: {forms} shows no kernels"
            yield make_violation("FP3301", item.last.path, "kernels", text)
        for lack in uniform.find_lacking_kernels(item.units, found):
            holes = tuple(
                MissingKernels(
                    unit.position,
                    unit.first.section or "",
                    unit.first.member or "",
                    unit.first.offset,
                    unit.archs,
                    "",
                    "others of the library have it",
                    names,
                )
                for unit, names in lack.units
            )
            text = f"{pluralize(len(lack.names), 'kernel')} without {lack.title}, which others of it have"
            yield make_violation("FP3309", item.last.path, lack.title, text, units=len(item.units), holes=holes)
