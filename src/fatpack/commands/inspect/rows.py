"""What ``fatpack inspect --rows`` does: the rows of all files into one table, on stdout or in a file."""

from __future__ import annotations

import os
import sys

from fatpack.command_line.messages import print_stderr
from fatpack.command_line.options import check_output_name
from fatpack.commands.inspect.run import open_argument
from fatpack.errors import FatpackError, UsageError
from fatpack.exit_codes import FINDINGS, FINE, worst_exit_code
from fatpack.io.open import is_tree
from fatpack.scanner.context import detect_package
from fatpack.tabular.columns import TABLES
from fatpack.tabular.options import RowOptions
from fatpack.tabular.read_file import error_row, read_rows
from fatpack.text.text import write_lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fatpack.command_line.trees import TreeSummary
    from fatpack.io.source import View
    from fatpack.tabular.columns import AnyRow


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
        from fatpack.commands.inspect.tables import read_tree_rows

        yield from read_tree_rows(path, view, self._options, self._exclude, self._summaries)
        if self._summaries[-1].unmatched:
            self.code = worst_exit_code((self.code, FINDINGS))

    def end(self) -> None:
        """Say what was met in trees: not among the rows, which programs read."""
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
