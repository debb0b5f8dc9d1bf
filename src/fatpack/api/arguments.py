"""What public functions are given: a wrong argument is an error that names it."""

from __future__ import annotations

from fatpack.io.limits import Budget, budget_now, opened_with
from fatpack.io.sources.opening import open_source

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    from fatpack.io.source import Source
    from fatpack.io.sources.opening import Input
    from fatpack.ops.choose.select import Selector

    Given = TypeVar("Given")


def check(argument: str, value: object, kind: type[Given], wanted: str) -> Given:
    """Return a value that is of a kind. Raises TypeError, with the argument's name, for any other."""
    if not isinstance(value, kind):
        raise TypeError(f"{argument} is {wanted}, not {type(value).__name__}")
    return value


def open_input(
    argument: str, data: Input, *, name: str = "", resting: bool = False, max_inflated: int | None = None
) -> Source:
    """Return a source, as :func:`~fatpack.io.sources.opening.open_source` does; TypeErrors name the argument."""
    budget = budget_now() if max_inflated is None else Budget(max_inflated)
    try:
        with opened_with(budget):
            return open_source(data, name=name, resting=resting)
    except TypeError as error:
        raise TypeError(f"{argument} is {error}") from None


def check_selector(selector: Selector | None) -> Selector:
    """Return a selector, one that means all images for None. Raises TypeError for anything else."""
    from fatpack.ops.choose.select import Selector

    return Selector() if selector is None else check("selector", selector, Selector, "a fatpack.Selector")
