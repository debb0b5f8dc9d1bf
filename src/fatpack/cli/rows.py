"""What ``fatpack inspect --rows`` does: the rows of all files into one table, on stdout or in a file."""

from __future__ import annotations

import os
import sys

from fatpack.cli.messages import print_stderr
from fatpack.cli.options import check_output_name
from fatpack.cli.show import open_argument
from fatpack.errors import FatpackError, UsageError
from fatpack.facts.columns import TABLES
from fatpack.facts.options import RowOptions
from fatpack.facts.reading import error_row, read_rows
from fatpack.io.sources.opening import is_tree
from fatpack.outcomes import FINDINGS, FINE, worst_exit_code
from fatpack.report.text import write_lines
from fatpack.scanner.visit import detect_package

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fatpack.cli.many.summary import TreeSummary
    from fatpack.facts.columns import AnyRow
    from fatpack.io.source import View


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
    from fatpack.io.sink import write_file
    from fatpack.io.writing import write_pieces

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
        from fatpack.cli.many.tables import read_tree_rows

        yield from read_tree_rows(path, view, self._options, self._exclude, self._summaries)
        if self._summaries[-1].unmatched:
            self.code = worst_exit_code((self.code, FINDINGS))

    def end(self) -> None:
        """Say what was met in trees: not among the rows, which programs read."""
        if self._summaries:
            from fatpack.cli.many.summary import report_unused, summary_line

            report_unused(self._exclude, self._summaries)
            print_stderr(summary_line(self._summaries, deep=self._options.deep, what=TABLES[self._options.of][1]))

    def lines(self, format: str) -> Iterator[str]:
        """Yield the table as text."""
        from fatpack.report.rows.texts import csv_lines, json_lines

        return json_lines(self._rows()) if format == "jsonl" else csv_lines(self._rows(), self._kind)

    def pieces(self, format: str) -> Iterator[bytes]:
        """Return the table as the bytes of a file."""
        if format == "parquet":
            from fatpack.report.rows.parquet import parquet_pieces

            return parquet_pieces(self._rows(), self._kind)
        return (line.encode() for line in self.lines(format))
