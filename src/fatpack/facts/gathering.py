"""Rows of many paths, all cores at work: the one reading that surveys, tables and answers start from.

::

    files, folders, patterns, packages, URLs ──► leaves ──► processes ──► rows, in the order of the paths
"""

from __future__ import annotations

from fatpack.facts.packages import rows_of_leaf
from fatpack.facts.unlooked import unlooked_of
from fatpack.record import Record
from fatpack.trees.leaves import Counts, Rules, batches_of
from fatpack.trees.paths import made_of_paths
from fatpack.trees.sharing import made_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator, Sequence

    from fatpack.facts.columns import AnyRow
    from fatpack.facts.options import RowOptions
    from fatpack.facts.unlooked import Unlooked
    from fatpack.io.budget import Budget
    from fatpack.io.source import View
    from fatpack.trees.leaves import Leaf
    from fatpack.trees.paths import Opener

    OnFile = Callable[[AnyRow], object]


class LeafRows(Record):
    """The rows of a file, the last of which is its row ``file``; of a package, that row alone (``is_file`` is false).

    ``size`` are bytes, 0 of what could not be opened.
    """

    rows: list[AnyRow]
    is_file: bool
    size: int


class _Making(Record):
    """What makes rows of a leaf."""

    options: RowOptions

    def __call__(self, leaf: Leaf) -> LeafRows:
        return LeafRows(list(rows_of_leaf(leaf, self.options)), not leaf.package, leaf.size or 0)


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
) -> Gathered:
    """Return the rows of files, folders, patterns, packages and URLs, in the order of the paths.

    Each file ends with its row ``file``, each package with one of its own (``host`` is the kind of package) behind the
    files in it. Nothing is raised for a file: what cannot be read has ``error`` and ``exit_code`` in that row. All
    are searched as ``options`` say.

    ``exclude`` are patterns of files to be left out, ``unmatched`` gets the patterns in ``paths`` that no file has, and
    ``on_file`` each row ``file`` when it comes. What was met and not looked into is ``unlooked`` of what is returned;
    ``counts`` adds up over several calls. ``opener`` opens addresses, such as ``libx.a(m.o)``, which otherwise are
    names of files. Local files are read on all cores.
    """
    rules, counts = Rules(tuple(exclude), options.deep), Counts() if counts is None else counts
    missing = [] if unmatched is None else unmatched
    leaves = made_of_paths(paths, _Making(options), rules, counts, missing, budget=budget, opener=opener)
    return Gathered((row for leaf in leaves for row in leaf.rows), counts, on_file)


class Gathered:
    """An iterator over rows. When it is at its end, ``unlooked`` is what was met on the way and not looked into."""

    __slots__ = ("_counts", "_on_file", "_rows")

    def __init__(self, rows: Iterator[AnyRow], counts: Counts, on_file: OnFile | None = None) -> None:
        self._rows, self._counts, self._on_file = rows, counts, on_file

    def __iter__(self) -> Gathered:
        return self

    def __next__(self) -> AnyRow:
        row = next(self._rows)
        if self._on_file is not None and row.row == "file":
            self._on_file(row)
        return row

    @property
    def unlooked(self) -> Unlooked:
        """What was met and not looked into, as far as the rows were taken."""
        return unlooked_of(self._counts)


def rows_below(
    path: str,
    view: View | None,
    options: RowOptions,
    rules: Rules,
    counts: Counts,
    unmatched: list[str],
) -> Iterator[LeafRows]:
    """Yield the rows of each file of an open package, or without a view, of a folder or a pattern, in order."""
    batches = batches_of(path, view, rules, counts, unmatched)
    is_local = view is None or view.source.fileno() is not None
    yield from made_of(batches, _Making(options), rules, counts, is_local=is_local)
