"""``inspect --rows``: the rows of all files in one table, on stdout or in a file."""

from __future__ import annotations

import os
import sys

from fatpack.command_line.messages import print_stderr
from fatpack.command_line.shared_options import check_output_name
from fatpack.command_line.trees import FilesProgress, TreeSummary, report_unmatched
from fatpack.errors import FatpackError, UsageError
from fatpack.exit_codes import FINDINGS, FINE, worst_exit_code
from fatpack.inputs.files import Filter, SkipCounts, input_kind
from fatpack.io.open import is_tree, resolve_url
from fatpack.library.arguments import as_inputs, check_type, expand_inputs, make_budget, open_input, tree_name
from fatpack.scanner.context import detect_package
from fatpack.selectors.address import open_argument
from fatpack.tabular.columns import TABLES, RowOptions
from fatpack.tabular.read_file import error_row, read_rows
from fatpack.tabular.read_many import Rows, read_file_rows, read_open_file_rows, read_rows_below
from fatpack.text.style import write_lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any, Literal, overload

    from fatpack.io.open import Input
    from fatpack.io.source import View
    from fatpack.limits import Budget
    from fatpack.tabular.columns import AnyRow, ImageRow, KernelRow
else:

    def overload(function):  # noqa: D103  (typing loads half the library; this is its decorator)
        return function


# Files as flat records: ``rows``.


@overload
def rows(  # noqa: D103
    paths: Input | Iterable[Input],
    *,
    of: Literal["images"] = "images",
    digests: bool = False,
    kernels: bool = False,
    inflate: bool = False,
    deep: bool = False,
    max_inflated: int | None = None,
) -> Rows[ImageRow]: ...
@overload
def rows(  # noqa: D103, F811
    paths: Input | Iterable[Input],
    *,
    of: Literal["kernels"],
    digests: bool = False,
    kernels: bool = False,
    inflate: bool = False,
    deep: bool = False,
    max_inflated: int | None = None,
) -> Rows[KernelRow]: ...
def rows(  # noqa: F811
    paths: Input | Iterable[Input],
    *,
    of: str = "images",
    digests: bool = False,
    kernels: bool = False,
    inflate: bool = False,
    deep: bool = False,
    max_inflated: int | None = None,
) -> Rows[Any]:
    """Return an iterator over flat records of files: their images, or ``of`` their kernels.

    ``paths`` is a path, bytes or a binary file, or several in a list. ``polars.DataFrame(rows.to_columns())`` and
    ``pandas.DataFrame(rows.to_columns())`` make a data frame.

    The last row of a file is that of the file itself (``row`` is ``file``): it says what was found and searched, and in
    ``error`` why a file could not be read, or not to its end; nothing is raised for that. ``docs/rows.md`` says what
    the columns mean, and ``to_dict()`` makes plain data of a row. Of a folder, a pattern or a package these are the
    rows of each file in it (:func:`fatpack.files`), and after them one of the package.

    ``digests`` fills ``sha256`` and ``digest``, ``kernels`` fills ``kernel_count`` and ``registers_max``: both read
    every image whole, as rows of kernels do. ``inflate`` looks into compressed images too. Else only what containers
    state is read.
    ``deep`` and ``max_inflated`` are as for :func:`fatpack.open`. Raises TypeError and UsageError for wrong arguments.
    """
    if check_type("of", of, str, "a text") not in TABLES:
        raise UsageError(f"there are no rows of {of!r}", hint=f"rows are of {' or '.join(TABLES)}")
    has_identity = bool(digests) and of == "images"
    named = as_inputs("paths", paths)
    options = RowOptions(of, digests, kernels, inflate, deep, dead=True, identity=has_identity)
    return Rows(rows_with_options(named, options, max_inflated), TABLES[of][0])


def rows_with_options(paths: Iterable[Input], options: RowOptions, max_inflated: int | None) -> Iterator[AnyRow]:
    """Yield the rows of :func:`rows` for options that were checked."""
    budget = make_budget(max_inflated)
    for data in paths:
        yield from _input_rows(data, options, budget)


def _input_rows(data: Input, options: RowOptions, budget: Budget) -> Iterator[AnyRow]:
    if tree_name(data):
        unmatched: list[str] = []
        for leaf in expand_inputs([data], Filter(deep=options.deep), SkipCounts(), unmatched, budget):
            yield from read_file_rows(leaf, options)
        if unmatched:
            raise UsageError(f"no file matches {unmatched[0]}")
        return
    if isinstance(data, str):
        data = resolve_url(data)  # rows name a URL without what is secret
    try:
        source = open_input("paths", data, budget=budget)
    except UsageError:
        raise
    except (FatpackError, OSError) as error:
        yield error_row(str(data), error, options.of)
        return
    with source:
        yield from read_open_file_rows(source.view(), source.name, options)


def write_rows(
    files: Sequence[str],
    options: RowOptions,
    format: str,
    output: str | None,
    *,
    force: bool = False,
    exclude: tuple[str, ...] = (),
) -> int:
    """Write the rows of the files, and of those in trees, and return the exit code, which is the worst of theirs.

    Without an output, or with "-", they go to stdout; a file appears under its name when all of it is there.
    """
    check_output_name(output)
    if output is None and format == "parquet":
        raise UsageError("--rows parquet writes no text", hint='name a file with -o; "-" is stdout')
    table = _Table(files, options, exclude)
    _write(table, files, format, output, force=force)
    table.end()
    return table.code


def _write(table: _Table, files: Sequence[str], format: str, output: str | None, *, force: bool) -> None:
    if output in (None, "-") and format != "parquet":
        write_lines((line.removesuffix("\n") for line in table.lines(format)), sys.stdout)
        return
    from fatpack.io.atomic_write import write_file
    from fatpack.io.write import write_pieces

    if output in (None, "-"):
        sys.stdout.flush()
        write_pieces(1, table.pieces(format))
    else:
        _refuse_inputs(output, files)
        write_file(output, table.pieces(format), force=force)


def _refuse_inputs(output: str, files: Sequence[str]) -> None:
    """Raise UsageError for an output that is one of the files."""
    if os.path.exists(output) and any(os.path.exists(path) and os.path.samefile(path, output) for path in files):
        raise UsageError(f"{output} is an input of this command", hint="choose another output")


class _Table:
    """The rows of several files, and the exit code for what was read so far."""

    def __init__(self, files: Sequence[str], options: RowOptions, exclude: tuple[str, ...]) -> None:
        self._files, self._exclude = files, exclude
        self._summaries: list[TreeSummary] = []
        self._options = options
        self._kind = TABLES[options.of][0]
        self.code = FINE

    def _rows(self) -> Iterator[AnyRow]:
        for path in self._files:
            for row in self._rows_of(path):
                if row.exit_code is not None:
                    self.code = worst_exit_code((self.code, row.exit_code))
                if row.error is not None:
                    sys.stdout.flush()
                    print_stderr(f"fatpack: error: {row.error}")
                yield row

    def _rows_of(self, path: str) -> Iterator[AnyRow]:
        if is_tree(path):
            yield from self._rows_in(path)
            return
        try:
            source, view = open_argument(path)
        except (FatpackError, OSError) as error:
            yield error_row(path, error, self._options.of)
            return
        with source:
            if detect_package(view):
                yield from self._rows_in(view.chain[0] if view.chain else path, view)
            else:
                yield from read_rows(view, self._options)

    def _rows_in(self, path: str, view: View | None = None) -> Iterator[AnyRow]:

        yield from read_tree_rows(path, view, self._options, self._exclude, self._summaries)
        if self._summaries[-1].unmatched:
            self.code = worst_exit_code((self.code, FINDINGS))

    def end(self) -> None:
        """Print the counts of skipped files to stderr, because programs read the rows."""
        if self._summaries:
            from fatpack.command_line.trees import report_unused, summary_line

            report_unused(self._exclude, self._summaries)
            print_stderr(summary_line(self._summaries, deep=self._options.deep, what=TABLES[self._options.of][1]))

    def lines(self, format: str) -> Iterator[str]:
        """Yield the table as text."""
        from fatpack.tabular.text import csv_lines, json_lines

        return json_lines(self._rows()) if format == "jsonl" else csv_lines(self._rows(), self._kind)

    def pieces(self, format: str) -> Iterator[bytes]:
        """Return the table as the bytes of a file."""
        if format == "parquet":
            from fatpack.tabular.parquet import parquet_pieces

            return parquet_pieces(self._rows(), self._kind)
        return (line.encode() for line in self.lines(format))


# The rows of folders, patterns and packages: those of each file in them that is read, in order.


def read_tree_rows(
    path: str, view: View | None, options: RowOptions, exclude: tuple[str, ...], summaries: list[TreeSummary]
) -> Iterator[AnyRow]:
    """Yield the rows of an open package, or without a view, of a folder or pattern; append a summary of the files."""
    summary = TreeSummary(path, input_kind(path, view))
    summaries.append(summary)
    rules, meter = Filter(exclude, options.deep), FilesProgress()
    try:
        for item in read_rows_below(path, view, options, rules, summary.counts, summary.unmatched):
            for count, row in enumerate(item.rows):
                if row.row == "file":  # the last one
                    if item.is_file:
                        summary.add(count or None, item.size, is_read=row.error is None)
                    meter(bool(count))
                    if row.error is not None:
                        meter.finish()
                yield row
    finally:
        meter.finish()
    report_unmatched(summary)
