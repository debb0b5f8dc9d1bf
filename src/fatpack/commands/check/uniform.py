"""Every kernel is there for every architecture of its library: ``--uniform``."""

from __future__ import annotations

from fatpack.commands.check import policy_uniform
from fatpack.commands.check.given import make_violation
from fatpack.commands.check.kernels import ImageKernels
from fatpack.commands.check.model import MissingKernels
from fatpack.errors import pluralize

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.commands.check.given import RuleContext
    from fatpack.commands.check.model import Violation


def uniform_violations(given: RuleContext) -> Iterator[Violation]:
    """Yield what kernels lack, library by library."""
    for item in given.found:
        if not item.units:
            continue
        found = ImageKernels()
        for path in dict.fromkeys(row.path for unit in item.units for row in unit.images):
            found.merge(given.kernels[path])
        missed = policy_uniform.find_uncompared(item.units, found)
        if missed:
            forms = ", ".join(dict.fromkeys(row.form or "unknown" for unit in missed for row in unit.images))
            text = f"{pluralize(len(missed), 'unit')} cannot be compared: {forms} shows no kernels"
            yield make_violation("FP3301", item.last.path, "kernels", text)
        for lack in policy_uniform.find_lacking_kernels(item.units, found):
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
