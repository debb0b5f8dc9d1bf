"""Inputs down to leaves: what the functions that take many files go through."""

from __future__ import annotations

import os

from fatpack.api.arguments import open_input
from fatpack.errors import UsageError
from fatpack.io.sources.opening import is_tree
from fatpack.trees.leaves import batches_below, batches_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from fatpack.io.budget import Budget
    from fatpack.io.sources.opening import Input
    from fatpack.trees.leaves import Counts, Leaf, Node, Rules


def leaves(
    inputs: Iterable[Input], rules: Rules, counts: Counts, unmatched: list[str], budget: Budget
) -> Iterator[Leaf]:
    """Yield the leaves of inputs, one after the other. Raises ``OSError`` and UsageError for an input."""
    for data in inputs:
        for batch in _batches(data, rules, counts, unmatched, budget):
            for node in batch:
                yield from node.leaves(rules, counts)


def _batches(data: Input, rules: Rules, counts: Counts, unmatched: list[str], budget: Budget) -> Iterator[list[Node]]:
    name = tree_of(data)
    if name:
        yield from batches_below(name, rules, counts, unmatched, budget=budget)
        return
    with open_input("an input", data, budget=budget) as source:
        yield from batches_in(source.view(), source.name, rules, counts)


def tree_of(data: Input) -> str:
    """Return the name of a folder or a pattern, "" for any other input."""
    if not isinstance(data, (str, os.PathLike)):
        return ""
    name = os.fspath(data)
    return name if is_tree(name) else ""


def refuse_tree(data: Input) -> None:
    """Raise UsageError for a folder or a pattern, where one file is meant."""
    name = tree_of(data)
    if name:
        raise UsageError(f"{name} means many files", hint="fatpack.files goes through them")
