"""Damage inside a fat binary: the errors for its fields, and what collects them."""

from __future__ import annotations

from fatpack.errors import BadValue
from fatpack.formats.cuda_fatbin.layout import FORMAT
from fatpack.formats.faults import Faults

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.io.source import View

__all__ = ["Faults", "fault"]


def fault(view: View, at: int, field: str, problem: str, expected: str = "", hint: str = "") -> BadValue:
    """Return the error for a field at a position of a view."""
    return BadValue(
        problem, format=FORMAT, offset=view.offset(at), field=field, expected=expected, hint=hint, chain=view.chain
    )
