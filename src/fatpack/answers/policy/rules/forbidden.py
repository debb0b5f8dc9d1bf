"""No image is for an architecture of ``--forbid``."""

from __future__ import annotations

import fnmatch

from fatpack.answers.policy.given import violation
from fatpack.answers.policy.units import spelled
from fatpack.errors import counted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.answers.policy.given import Given
    from fatpack.answers.policy.outcome import Violation
    from fatpack.facts.columns import AnyRow


def violations(given: Given) -> Iterator[Violation]:
    """Yield the libraries with forbidden images, pattern by pattern."""
    for pattern in given.policy.forbid:
        for item in given.found:
            archs = [arch for unit in item.units for row in unit.images for arch in _matching(row, pattern)]
            if archs:
                names = ", ".join(dict.fromkeys(archs))
                text = f"has {names}, which {pattern} forbids ({counted(len(archs), 'image')})"
                hint = "fatpack slim takes it out"
                yield violation("FP3306", item.last.path, pattern, text, hint)


def _matching(row: AnyRow, pattern: str) -> list[str]:
    names = (row.arch or "", spelled(row), row.processor or "")
    return [spelled(row)] if any(name and fnmatch.fnmatchcase(name, pattern) for name in names) else []
