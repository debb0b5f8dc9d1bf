"""Read the rows of many paths on all cores, for ``fatpack.rows``, ``survey``, ``check``, ``explain`` and ``report``.

::

    files, folders, patterns, packages, URLs ──► input files ──► processes ──► rows, in the order of the paths
"""

from __future__ import annotations

from fatpack.concurrency.processes import is_worker
from fatpack.exit_codes import error_message, exit_code, exit_code_for_findings, worst_exit_code
from fatpack.inputs.files import Filter, SkipCounts, walk_input, walk_open_file
from fatpack.inputs.map_files import map_files, map_paths
from fatpack.record import Record
from fatpack.tabular.columns import TABLES, FindingSummary
from fatpack.tabular.read_file import error_row, read_rows
from fatpack.tabular.skipped import make_skipped

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any, Generic, TypeVar

    from fatpack.inputs.files import InputFile
    from fatpack.inputs.map_files import Opener
    from fatpack.io.source import View
    from fatpack.limits import Budget
    from fatpack.tabular.columns import AnyRow, Row, RowOptions
    from fatpack.tabular.skipped import Skipped

    FileCallback = Callable[[AnyRow], object]
    RowType = TypeVar("RowType", bound=Row)
else:
    RowType = None

    class Generic:  # noqa: D101  (typing loads half the library)
        def __class_getitem__(cls, _item):
            return cls


def read_file_rows(leaf: InputFile, options: RowOptions) -> Iterable[AnyRow]:
    """Return the rows of a file, read when they are taken; a package has one row, for findings about the package."""
    if leaf.view is not None and not leaf.package:
        return read_rows(leaf.view, options)
    if not leaf.package:
        assert leaf.error is not None
        return [error_row(leaf.path, leaf.error, options.of)]
    code = exit_code_for_findings((item.severity, item.code) for item in leaf.findings)
    noted = FindingSummary(leaf.path, leaf.findings)
    package = TABLES[options.of][0](
        row="file",
        path=leaf.path,
        file_size=leaf.size,
        host=leaf.package,
        findings=noted.codes,
        messages=noted.messages,
        error=None if leaf.error is None else error_message(leaf.error),
        exit_code=code if leaf.error is None else worst_exit_code((code, exit_code(leaf.error))),
        count=0,
    )
    return [package]


def read_open_file_rows(view: View, path: str, options: RowOptions) -> Iterator[AnyRow]:
    """Yield the rows of an open file; for a package, the rows of all files in it, then one of the package."""
    rules, counts = Filter(deep=options.deep), SkipCounts()
    for batch in walk_open_file(view, path, rules, counts):
        for node in batch:
            for leaf in node.leaves(rules, counts):
                yield from read_file_rows(leaf, options)


class FileRows(Record):
    """The rows of a file, its row ``file`` last; for a package, that row alone (``is_file`` is false).

    They are taken before the next file is asked for, and may be taken once.

    ``size`` is the number of bytes, 0 for a file that could not be opened. ``view`` is the open file, until its rows
    are taken; None if another process reads it.
    """

    rows: Iterable[AnyRow]
    is_file: bool
    size: int
    view: View | None = None


class _RowMaker(Record):
    """Callable that reads the rows of an input file, in any process."""

    options: RowOptions

    def __call__(self, leaf: InputFile) -> FileRows:
        """Return the rows; in this process they are read when they are taken, while the file is open."""
        rows = read_file_rows(leaf, self.options)
        if is_worker():
            return FileRows(list(rows), not leaf.package, leaf.size or 0)
        return FileRows(rows, not leaf.package, leaf.size or 0, None if leaf.package else leaf.view)


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

    The last row of each file is its row ``file``; a package has one (``host`` is the kind of package) after the files
    in it. Nothing is raised for a file that cannot be read: its row ``file`` has ``error`` and ``exit_code``. Local
    files are read on all cores.

    ``exclude``: patterns of files to skip. ``unmatched``: receives the patterns in ``paths`` that match no file.
    ``on_file``: called with each row ``file``. ``counts``: adds up skipped files over several calls; the ``unlooked``
    of the result has them. ``opener``: opens addresses such as ``libx.a(m.o)``, which are file names otherwise.
    """
    rules, counts = Filter(tuple(exclude), options.deep), SkipCounts() if counts is None else counts
    missing = [] if unmatched is None else unmatched
    leaves = map_paths(
        paths,
        _RowMaker(options),
        rules,
        counts,
        missing,
        budget=budget,
        opener=opener,
        shares_inside=options.reads_images,
        reads_later=True,
    )
    return RowIterator(leaves, counts, on_file)


class Rows(Generic[RowType]):
    """An iterator over rows, as :func:`fatpack.rows` returns it; :meth:`to_columns` makes a data frame of the rest."""

    __slots__ = ("_kind", "_rows")

    def __init__(self, rows: Iterator[RowType], kind: type[Row]) -> None:
        self._rows, self._kind = rows, kind

    def __iter__(self) -> Rows[RowType]:
        return self

    def __next__(self) -> RowType:
        return next(self._rows)

    def to_columns(self) -> dict[str, list[Any]]:
        """Return the rows that were not taken yet as a list of values for each column, in the order of the rows.

        That is what ``polars.DataFrame`` and ``pandas.DataFrame`` take: lists are lists, and None is no value.
        """
        columns: dict[str, list[Any]] = {name: [] for name in self._kind._fields}
        adders = [column.append for column in columns.values()]
        for row in self._rows:
            for add, value in zip(adders, row.values(), strict=True):
                add(list(value) if isinstance(value, tuple) else value)
        return columns


class RowIterator:
    """An iterator over rows. At its end, ``unlooked`` has the counts of skipped files.

    ``view`` is the open file that the last row is of, None if it was read by another process, or is a package.
    """

    __slots__ = ("_counts", "_files", "_on_file", "_rows", "view")

    def __init__(self, files: Iterator[FileRows], counts: SkipCounts, on_file: FileCallback | None = None) -> None:
        self._files, self._counts, self._on_file = files, counts, on_file
        #: those of the file that was read last
        self._rows: Iterator[AnyRow] = iter(())
        self.view: View | None = None

    def __iter__(self) -> RowIterator:
        return self

    def __next__(self) -> AnyRow:
        row = next(self._rows, None)
        while row is None:
            file = next(self._files)
            self._rows, self.view = iter(file.rows), file.view
            row = next(self._rows, None)
        if self._on_file is not None and row.row == "file":
            self._on_file(row)
        return row

    @property
    def unlooked(self) -> Skipped:
        """The counts of files skipped so far."""
        return make_skipped(self._counts)


def read_rows_below(
    path: str,
    view: View | None,
    options: RowOptions,
    rules: Filter,
    counts: SkipCounts,
    unmatched: list[str],
) -> Iterator[FileRows]:
    """Yield the rows of each file of an open package, or, without a view, of a folder or a pattern, in order."""
    batches = walk_input(path, view, rules, counts, unmatched)
    is_local = view is None or view.source.fileno() is not None
    shares = options.reads_images
    yield from map_files(
        batches, _RowMaker(options), rules, counts, is_local=is_local, shares_inside=shares, reads_later=True
    )
