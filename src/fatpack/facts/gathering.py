"""Rows of many paths, all cores at work: the one reading that surveys, tables and answers start from.

::

    files, folders, patterns, packages, URLs ──► leaves ──► processes ──► rows, in the order of the paths
"""

from __future__ import annotations

import os

from fatpack.errors import FatpackError
from fatpack.facts.packages import rows_of_leaf
from fatpack.facts.reading import failed, rows_of
from fatpack.io.budget import budget_now
from fatpack.io.sources.opening import is_tree, located, open_source
from fatpack.record import Record
from fatpack.scanner.visit import package_of
from fatpack.trees.leaves import Counts, Node, Rules, batches_of, parts_of
from fatpack.trees.sharing import made_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from fatpack.facts.columns import AnyRow
    from fatpack.facts.reading import RowOptions
    from fatpack.io.budget import Budget
    from fatpack.io.source import Source, View
    from fatpack.trees.entering import Entered
    from fatpack.trees.leaves import Leaf

    Opener = Callable[[str], tuple[Source | Entered, View]]
    OnFile = Callable[[AnyRow], object]


class LeafRows(Record):
    """The rows of a file, the last of which is its row ``file``; of a package, that row alone (``is_file`` is false).

    ``size`` are bytes, 0 of what could not be opened.
    """

    rows: list[AnyRow]
    is_file: bool
    size: int


class _Making(Record):
    """What makes rows of a leaf. A file in a folder or a package is not searched to its last byte."""

    options: RowOptions

    def __call__(self, leaf: Leaf) -> LeafRows:
        options = self.options if leaf.is_named else self.options.replace(thorough=False)
        return LeafRows(list(rows_of_leaf(leaf, options)), not leaf.package, leaf.size or 0)


def gather(
    paths: Sequence[str | os.PathLike[str]],
    options: RowOptions,
    *,
    exclude: Sequence[str] = (),
    unmatched: list[str] | None = None,
    on_file: OnFile | None = None,
    counts: Counts | None = None,
    budget: Budget | None = None,
    opener: Opener | None = None,
) -> Iterator[AnyRow]:
    """Yield the rows of files, folders, patterns, packages and URLs, in the order of the paths.

    Each file ends with its row ``file``, each package with one of its own (``host`` is the kind of package) behind the
    files in it. Nothing is raised for a file: what cannot be read has ``error`` and ``exit_code`` in that row. Files
    that were named are searched as ``options`` say, those in folders and packages where device code is kept.

    ``exclude`` are patterns of files to be left out, ``unmatched`` gets the patterns in ``paths`` that no file has,
    ``counts`` what was met and not looked into, and ``on_file`` each row ``file`` when it comes. ``opener`` opens
    addresses, such as ``libx.a(m.o)``, which otherwise are names of files. Local files are read on all cores.
    """
    rules, counts = Rules(tuple(exclude), options.deep), Counts() if counts is None else counts
    reading = _Gathering(options, rules, counts, unmatched, budget_now() if budget is None else budget, opener)
    rows = reading.rows(paths)
    if on_file is None:
        yield from rows
        return
    for row in rows:
        if row.row == "file":
            on_file(row)
        yield row


class _Gathering:
    """The paths of one call, one after the other; plain files that follow each other are shared out together."""

    def __init__(
        self,
        options: RowOptions,
        rules: Rules,
        counts: Counts,
        unmatched: list[str] | None,
        budget: Budget,
        opener: Opener | None,
    ) -> None:
        self._options, self._rules, self._counts = options, rules, counts
        self._unmatched = [] if unmatched is None else unmatched
        self._budget, self._opener = budget, opener
        self._waiting: list[Node] = []

    def rows(self, paths: Iterable[str | os.PathLike[str]]) -> Iterator[AnyRow]:
        """Yield the rows of all paths."""
        for given in paths:
            path = os.fspath(given)
            if is_tree(path):
                yield from self._waiting_rows()
                yield from self._tree(path)
            elif os.path.isfile(path):
                yield from self._file(path)
            else:
                yield from self._waiting_rows()
                yield from self._other(path)
        yield from self._waiting_rows()

    def _tree(self, path: str, view: View | None = None) -> Iterator[AnyRow]:
        leaves = rows_below(path, view, self._options, self._rules, self._counts, self._unmatched, budget=self._budget)
        for item in leaves:
            yield from item.rows

    def _file(self, path: str) -> Iterator[AnyRow]:
        """Let a plain file wait for others that follow it; read a package."""
        try:
            source = open_source(path, budget=self._budget)
        except (FatpackError, OSError) as error:
            yield from self._waiting_rows()
            yield failed(path, error, self._options.of)
            return
        with source:
            try:
                is_package = bool(package_of(source.view()))
            except (FatpackError, OSError):
                is_package = False  # raised again where the file is read, and told there
            if is_package:
                yield from self._waiting_rows()
                yield from self._tree(path, source.view())
                return
            size = source.size
        node = Node(path, parts_of(path)[-1:], lambda: open_source(path, budget=self._budget), size, is_named=True)
        self._waiting.append(node)

    def _waiting_rows(self) -> Iterator[AnyRow]:
        nodes, self._waiting = self._waiting, []
        if not nodes:
            return
        making = _Making(self._options)
        for item in made_of([nodes], making, self._rules, self._counts, budget=self._budget):
            yield from item.rows

    def _other(self, path: str) -> Iterator[AnyRow]:
        """Yield the rows of what is read once or lies elsewhere (a pipe, a URL, an address), or is not there."""
        try:
            source, view = opened(path, self._opener, self._budget)
        except (FatpackError, OSError) as error:
            yield failed(path, error, self._options.of)
            return
        with source:
            try:
                is_package = bool(package_of(view))
            except (FatpackError, OSError) as error:
                yield failed(path, error, self._options.of)
                return
            if is_package:
                yield from self._tree(view.chain[0] if view.chain else path, view)
            else:
                yield from rows_of(view, self._options)


def opened(path: str, opener: Opener | None, budget: Budget) -> tuple[Source | Entered, View]:
    """Return what a path names, open, by ``opener`` if there is one. Raises ``OSError`` and FatpackError."""
    if opener is not None:
        return opener(path)
    source = open_source(located(path), budget=budget)
    return source, source.view()


def rows_below(
    path: str,
    view: View | None,
    options: RowOptions,
    rules: Rules,
    counts: Counts,
    unmatched: list[str],
    *,
    budget: Budget | None = None,
) -> Iterator[LeafRows]:
    """Yield the rows of each file of an open package, or without a view, of a folder or a pattern, in order."""
    batches = batches_of(path, view, rules, counts, unmatched, budget=budget)
    is_local = view is None or view.source.fileno() is not None
    yield from made_of(batches, _Making(options), rules, counts, is_local=is_local, budget=budget)
