"""Every kernel is there for every architecture of its library: ``--uniform``."""

from __future__ import annotations

from fatpack.answers.policy import uniform
from fatpack.answers.policy.given import violation
from fatpack.answers.policy.kernels import Kernels
from fatpack.answers.policy.outcome import Hole
from fatpack.errors import counted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.answers.policy.given import Given
    from fatpack.answers.policy.outcome import Violation


def violations(given: Given) -> Iterator[Violation]:
    """Yield what kernels lack, library by library."""
    for item in given.found:
        if not item.units:
            continue
        found = Kernels()
        for path in dict.fromkeys(row.path for unit in item.units for row in unit.images):
            found.merge(given.kernels[path])
        missed = uniform.uncompared(item.units, found)
        if missed:
            forms = ", ".join(dict.fromkeys(row.form or "unknown" for unit in missed for row in unit.images))
            text = f"{counted(len(missed), 'unit')} cannot be compared: {forms} shows no kernels"
            yield violation("FP3301", item.last.path, "kernels", text)
        for lack in uniform.lacking(item.units, found):
            holes = tuple(
                Hole(
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
            text = f"{counted(len(lack.names), 'kernel')} without {lack.title}, which others of it have"
            yield violation("FP3309", item.last.path, lack.title, text, units=len(item.units), holes=holes)
