"""Rows of many paths, all cores at work: the one reading that surveys, tables and answers start from.

::

    files, folders, patterns, packages, URLs ──► leaves ──► processes ──► rows, in the order of the paths
"""

from __future__ import annotations

from fatpack.inputs.files import Filter, SkipCounts, walk_input
from fatpack.inputs.map_files import map_paths
from fatpack.inputs.sharing import map_files
from fatpack.record import Record
from fatpack.tabular.packages import read_file_rows
from fatpack.tabular.skipped import make_skipped

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator, Sequence

    from fatpack.budget import Budget
    from fatpack.inputs.files import InputFile
    from fatpack.inputs.map_files import Opener
    from fatpack.io.source import View
    from fatpack.tabular.columns import AnyRow
    from fatpack.tabular.options import RowOptions
    from fatpack.tabular.skipped import Skipped

    FileCallback = Callable[[AnyRow], object]


class FileRows(Record):
    """The rows of a file, the last of which is its row ``file``; of a package, that row alone (``is_file`` is false).

    ``size`` are bytes, 0 of what could not be opened.
    """

    rows: list[AnyRow]
    is_file: bool
    size: int


class _RowMaker(Record):
    """What makes rows of a leaf."""

    options: RowOptions

    def __call__(self, leaf: InputFile) -> FileRows:
        return FileRows(list(read_file_rows(leaf, self.options)), not leaf.package, leaf.size or 0)


def read_paths(
    paths: Sequence[str | os.PathLike[str]],
    options: RowOptions,
    *,
    exclude: Sequence[str] = (),
    unmatched: list[str] | None = None,
    on_file: FileCallback | None = None,
    counts: SkipCounts | None = None,
    budget: Budget | None = None,
    opener: Opener | None = None,
) -> RowIterator:
    """Return the rows of files, folders, patterns, packages and URLs, in the order of the paths.

    Each file ends with its row ``file``, each package with one of its own (``host`` is the kind of package) behind the
    files in it. Nothing is raised for a file: what cannot be read has ``error`` and ``exit_code`` in that row. All
    are searched as ``options`` say.

    ``exclude`` are patterns of files to be left out, ``unmatched`` gets the patterns in ``paths`` that no file has, and
    ``on_file`` each row ``file`` when it comes. What was met and not looked into is ``unlooked`` of what is returned;
    ``counts`` adds up over several calls. ``opener`` opens addresses, such as ``libx.a(m.o)``, which otherwise are
    names of files. Local files are read on all cores.
    """
    rules, counts = Filter(tuple(exclude), options.deep), SkipCounts() if counts is None else counts
    missing = [] if unmatched is None else unmatched
    leaves = map_paths(paths, _RowMaker(options), rules, counts, missing, budget=budget, opener=opener)
    return RowIterator((row for leaf in leaves for row in leaf.rows), counts, on_file)


class RowIterator:
    """An iterator over rows. When it is at its end, ``unlooked`` is what was met on the way and not looked into."""

    __slots__ = ("_counts", "_on_file", "_rows")

    def __init__(self, rows: Iterator[AnyRow], counts: SkipCounts, on_file: FileCallback | None = None) -> None:
        self._rows, self._counts, self._on_file = rows, counts, on_file

    def __iter__(self) -> RowIterator:
        return self

    def __next__(self) -> AnyRow:
        row = next(self._rows)
        if self._on_file is not None and row.row == "file":
            self._on_file(row)
        return row

    @property
    def unlooked(self) -> Skipped:
        """What was met and not looked into, as far as the rows were taken."""
        return make_skipped(self._counts)


def read_rows_below(
    path: str,
    view: View | None,
    options: RowOptions,
    rules: Filter,
    counts: SkipCounts,
    unmatched: list[str],
) -> Iterator[FileRows]:
    """Yield the rows of each file of an open package, or without a view, of a folder or a pattern, in order."""
    batches = walk_input(path, view, rules, counts, unmatched)
    is_local = view is None or view.source.fileno() is not None
    yield from map_files(batches, _RowMaker(options), rules, counts, is_local=is_local)
