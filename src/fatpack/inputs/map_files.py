"""Paths → leaves → what is made of them: how all answers, tables and surveys read what users name.

::

    files, folders, patterns, packages, URLs, addresses ──► leaves ──► processes ──► what was made, in their order
"""

from __future__ import annotations

import os

from fatpack.concurrency.processes import map_in_processes
from fatpack.errors import FatpackError
from fatpack.inputs.files import (
    InputFile,
    PackageFindings,
    PendingFile,
    SkipCounts,
    split_name,
    walk_open_file,
    walk_tree,
)
from fatpack.io.open import is_tree, open_source, resolve_url
from fatpack.limits import current_budget
from fatpack.record import Record
from fatpack.scanner.context import detect_package

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any, TypeVar

    from fatpack.inputs.files import Filter
    from fatpack.inputs.nested import NestedFile
    from fatpack.io.source import Source, View
    from fatpack.limits import Budget
    from fatpack.model import Finding

    T = TypeVar("T")

    Mapped = TypeVar("Mapped")

    #: opens an address, such as ``x.whl!lib/libx.so``; without one it is the name of a file
    Opener = Callable[[str], tuple[Source | NestedFile, View]]


# Leaves shared out to all cores: what is made of each comes back, in the order of the leaves.


class _MappedBatch(Record):
    """What was made of the leaves of a node in another process, what was met there, and what was inflated.

    ``said`` is what is wrong with how the node is stored.
    """

    made: list[Any]
    counts: SkipCounts
    drawn: int
    said: list[Finding]


def map_files(
    batches: Iterable[list[PendingFile]],
    make: Callable[[InputFile], T],
    rules: Filter,
    counts: SkipCounts,
    *,
    is_local: bool = True,
    budget: Budget | None = None,
) -> Iterator[T]:
    """Yield what ``make`` makes of every leaf, in order; most of it is made in forks of this process.

    What is made must be such that it can be pickled, and ``make`` keeps nothing. Connections to servers stay here: of
    what is not local, all is made in this process. ``budget`` is that of the nodes' sources, by default the command's.
    """
    budget = current_budget() if budget is None else budget

    def work(node: PendingFile) -> _MappedBatch:
        own, before, said = SkipCounts(), budget.drawn, PackageFindings()
        # What stands for the package itself says what was met before it; of any other node, what is new goes back.
        asked = node if node.open is None else node.replace(said=said)
        made = [make(leaf) for leaf in asked.leaves(rules, own)]
        return _MappedBatch(made, own, budget.drawn - before, said.findings())

    def cost(node: PendingFile) -> int:
        return node.size if is_local and node.is_lasting else 0

    for batch in batches:
        shared = map_in_processes(batch, work, cost)
        try:
            for node, there in shared:
                done: _MappedBatch | None = None if there is None else there.value
                if done is not None and budget.inflate(done.drawn):
                    counts.add(done.counts)
                    if node.said is not None:
                        node.said.take(done.said)
                    yield from done.made
                else:
                    for leaf in node.leaves(rules, counts):
                        yield make(leaf)
        finally:
            shared.close()


def map_paths(
    paths: Iterable[str | os.PathLike[str]],
    make: Callable[[InputFile], Mapped],
    rules: Filter,
    counts: SkipCounts,
    unmatched: list[str],
    *,
    budget: Budget | None = None,
    opener: Opener | None = None,
    chosen: Callable[[str], bool] | None = None,
    raises: bool = False,
) -> Iterator[Mapped]:
    """Yield what ``make`` makes of every leaf of some paths, in their order; plain files are shared out together.

    What cannot be opened is a leaf with an error, or with ``raises`` what opening it raises. ``counts`` takes up what
    was met and not looked into, ``unmatched`` the patterns that no file has. ``chosen`` says by its path which file or
    package is looked into at all. ``make`` is as for :func:`made_of`.
    """
    reading = _PathMapper(make, rules, counts, current_budget() if budget is None else budget, chosen)
    for given in paths:
        path = os.fspath(given)
        if is_tree(path):
            yield from reading.waiting()
            yield from reading.made(walk_tree(path, rules, counts, unmatched, budget=reading.budget))
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
            yield from reading.one(InputFile(_shown(path), split_name(path)[-1:], error=error))
            continue
        with source:
            yield from reading.opened(path, view, is_file=is_file, raises=raises)
    yield from reading.waiting()


class _PathMapper:
    """What is made of leaves, and the plain files that wait for others that follow them."""

    def __init__(
        self,
        make: Callable[[InputFile], Any],
        rules: Filter,
        counts: SkipCounts,
        budget: Budget,
        chosen: Callable[[str], bool] | None,
    ) -> None:
        self._make, self._rules, self._counts, self._chosen = make, rules, counts, chosen
        self.budget = budget
        self._waiting: list[PendingFile] = []

    def opened(self, path: str, view: View, *, is_file: bool, raises: bool) -> Iterator[Any]:
        """Yield what is made of a file that is open; a plain one waits for others."""
        title = view.chain[0] if view.chain else path
        try:
            kind = detect_package(view)
        except (FatpackError, OSError) as error:
            if raises:
                raise
            yield from self.waiting()
            yield from self.one(InputFile(str(title), split_name(path)[-1:], error=error))
            return
        if is_file and not kind:
            again = lambda: open_source(path, budget=self.budget)  # noqa: E731  # closed below, opened when read
            self._waiting.append(PendingFile(path, split_name(path)[-1:], again, len(view)))
            return
        yield from self.waiting()
        if kind:
            is_local = view.source.fileno() is not None
            yield from self.made(walk_open_file(view, title, self._rules, self._counts), is_local=is_local)
        else:
            yield from self.one(InputFile(str(title), split_name(path)[-1:], view, size=len(view)))

    def one(self, leaf: InputFile) -> Iterator[Any]:
        """Yield what is made of a leaf here, if it is one of those that are chosen."""
        if self._chosen is None or self._chosen(leaf.path):
            yield self._make(leaf)

    def waiting(self) -> Iterator[Any]:
        """Yield what is made of the files that waited."""
        nodes, self._waiting = self._waiting, []
        if nodes:
            yield from self.made([nodes])

    def made(self, batches: Iterable[list[PendingFile]], *, is_local: bool = True) -> Iterator[Any]:
        """Yield what is made of the leaves of nodes, on all cores."""
        chosen = self._chosen
        if chosen is not None:
            batches = ([node for node in batch if chosen(node.path)] for batch in batches)
        yield from map_files(batches, self._make, self._rules, self._counts, is_local=is_local, budget=self.budget)


def _opened(path: str, opener: Opener | None, budget: Budget) -> tuple[Source | NestedFile, View]:
    """Return what a path names, open, by ``opener`` if there is one. Raises ``OSError`` and FatpackError."""
    if opener is not None:
        return opener(path)
    source = open_source(resolve_url(path), budget=budget)
    return source, source.view()


def _shown(path: str) -> str:
    """Return a path as reports show it: of a URL without what is secret in it."""
    from fatpack.io.url import redact_url

    return redact_url(path) if "://" in path else path
