"""Paths → leaves → what is made of them: how all answers, tables and surveys read what users name.

::

    files, folders, patterns, packages, URLs, addresses ──► leaves ──► processes ──► what was made, in their order
"""

from __future__ import annotations

import os

from fatpack.errors import FatpackError
from fatpack.io.budget import budget_now
from fatpack.io.sources.opening import is_tree, located, open_source
from fatpack.scanner.visit import package_of
from fatpack.trees.leaves import Leaf, Node, batches_below, batches_in, parts_of
from fatpack.trees.sharing import made_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any, TypeVar

    from fatpack.io.budget import Budget
    from fatpack.io.source import Source, View
    from fatpack.trees.entering import Entered
    from fatpack.trees.leaves import Counts, Rules

    T = TypeVar("T")

    #: opens an address, such as ``x.whl!lib/libx.so``; without one it is the name of a file
    Opener = Callable[[str], tuple[Source | Entered, View]]


def made_of_paths(
    paths: Iterable[str | os.PathLike[str]],
    make: Callable[[Leaf], T],
    rules: Rules,
    counts: Counts,
    unmatched: list[str],
    *,
    budget: Budget | None = None,
    opener: Opener | None = None,
    chosen: Callable[[str], bool] | None = None,
    raises: bool = False,
) -> Iterator[T]:
    """Yield what ``make`` makes of every leaf of some paths, in their order; plain files are shared out together.

    What cannot be opened is a leaf with an error, or with ``raises`` what opening it raises. ``counts`` takes up what
    was met and not looked into, ``unmatched`` the patterns that no file has. ``chosen`` says by its path which file or
    package is looked into at all. ``make`` is as for :func:`made_of`.
    """
    reading = _Reading(make, rules, counts, budget_now() if budget is None else budget, chosen)
    for given in paths:
        path = os.fspath(given)
        if is_tree(path):
            yield from reading.waiting()
            yield from reading.made(batches_below(path, rules, counts, unmatched, budget=reading.budget))
            continue
        is_file = os.path.isfile(path)
        try:
            source, view = _opened(path, None if is_file else opener, reading.budget)
        except (FatpackError, OSError) as error:
            if raises:
                raise
            if is_file:
                counts.fail(error)
            yield from reading.waiting()
            yield from reading.one(Leaf(_shown(path), parts_of(path)[-1:], error=error))
            continue
        with source:
            yield from reading.opened(path, view, is_file=is_file, raises=raises)
    yield from reading.waiting()


class _Reading:
    """What is made of leaves, and the plain files that wait for others that follow them."""

    def __init__(
        self,
        make: Callable[[Leaf], Any],
        rules: Rules,
        counts: Counts,
        budget: Budget,
        chosen: Callable[[str], bool] | None,
    ) -> None:
        self._make, self._rules, self._counts, self._chosen = make, rules, counts, chosen
        self.budget = budget
        self._waiting: list[Node] = []

    def opened(self, path: str, view: View, *, is_file: bool, raises: bool) -> Iterator[Any]:
        """Yield what is made of a file that is open; a plain one waits for others."""
        title = view.chain[0] if view.chain else path
        try:
            kind = package_of(view)
        except (FatpackError, OSError) as error:
            if raises:
                raise
            yield from self.waiting()
            yield from self.one(Leaf(str(title), parts_of(path)[-1:], error=error))
            return
        if is_file and not kind:
            again = lambda: open_source(path, budget=self.budget)  # noqa: E731  # closed below, opened when read
            self._waiting.append(Node(path, parts_of(path)[-1:], again, len(view)))
            return
        yield from self.waiting()
        if kind:
            is_local = view.source.fileno() is not None
            yield from self.made(batches_in(view, title, self._rules, self._counts), is_local=is_local)
        else:
            yield from self.one(Leaf(str(title), parts_of(path)[-1:], view, size=len(view)))

    def one(self, leaf: Leaf) -> Iterator[Any]:
        """Yield what is made of a leaf here, if it is one of those that are chosen."""
        if self._chosen is None or self._chosen(leaf.path):
            yield self._make(leaf)

    def waiting(self) -> Iterator[Any]:
        """Yield what is made of the files that waited."""
        nodes, self._waiting = self._waiting, []
        if nodes:
            yield from self.made([nodes])

    def made(self, batches: Iterable[list[Node]], *, is_local: bool = True) -> Iterator[Any]:
        """Yield what is made of the leaves of nodes, on all cores."""
        chosen = self._chosen
        if chosen is not None:
            batches = ([node for node in batch if chosen(node.path)] for batch in batches)
        yield from made_of(batches, self._make, self._rules, self._counts, is_local=is_local, budget=self.budget)


def _opened(path: str, opener: Opener | None, budget: Budget) -> tuple[Source | Entered, View]:
    """Return what a path names, open, by ``opener`` if there is one. Raises ``OSError`` and FatpackError."""
    if opener is not None:
        return opener(path)
    source = open_source(located(path), budget=budget)
    return source, source.view()


def _shown(path: str) -> str:
    """Return a path as reports show it: of a URL without what is secret in it."""
    from fatpack.io.sources.url import shown

    return shown(path) if "://" in path else path
