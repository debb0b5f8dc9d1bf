"""Names in proportion to the file they come from."""

from __future__ import annotations

from fatpack import limits
from fatpack.errors import LimitExceeded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from fatpack.io.source import View


def limit_name_size(view: View, names: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the names of a file's symbols. Raises LimitExceeded when they get far longer than the file.

    Symbols may share one long name; without this bound n symbols would give n copies of it.
    """
    budget = max(limits.STRING_FLOOR, limits.STRING_RATIO * len(view))
    for name in names:
        budget -= len(name)
        if budget < 0:
            raise LimitExceeded(
                "the names of the symbols are far longer than the file",
                offset=view.offset(0),
                field="symbol names",
                hint=limits.advice("STRING_RATIO"),
                chain=view.chain,
            )
        yield name
