"""Inputs down to leaves: what the functions that take many files go through."""

from __future__ import annotations

import os

from fatpack.errors import UsageError
from fatpack.inputs.files import walk_open_file, walk_tree
from fatpack.io.open import is_tree
from fatpack.library.arguments import open_input

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from fatpack.budget import Budget
    from fatpack.inputs.files import Filter, InputFile, PendingFile, SkipCounts
    from fatpack.io.open import Input


def expand_inputs(
    inputs: Iterable[Input], rules: Filter, counts: SkipCounts, unmatched: list[str], budget: Budget
) -> Iterator[InputFile]:
    """Yield the leaves of inputs, one after the other. Raises ``OSError`` and UsageError for an input."""
    for data in inputs:
        for batch in _batches(data, rules, counts, unmatched, budget):
            for node in batch:
                yield from node.leaves(rules, counts)


def _batches(
    data: Input, rules: Filter, counts: SkipCounts, unmatched: list[str], budget: Budget
) -> Iterator[list[PendingFile]]:
    name = tree_name(data)
    if name:
        yield from walk_tree(name, rules, counts, unmatched, budget=budget)
        return
    with open_input("an input", data, budget=budget) as source:
        yield from walk_open_file(source.view(), source.name, rules, counts)


def tree_name(data: Input) -> str:
    """Return the name of a folder or a pattern, "" for any other input."""
    if not isinstance(data, (str, os.PathLike)):
        return ""
    name = os.fspath(data)
    return name if is_tree(name) else ""


def refuse_tree(data: Input) -> None:
    """Raise UsageError for a folder or a pattern, where one file is meant."""
    name = tree_name(data)
    if name:
        raise UsageError(f"{name} means many files", hint="fatpack.files goes through them")
