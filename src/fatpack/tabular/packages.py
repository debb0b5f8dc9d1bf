"""Rows of files in packages: those that the files have unpacked, and behind them a row of the package itself."""

from __future__ import annotations

from fatpack.exit_codes import error_message, exit_code, exit_code_for_findings, worst_exit_code
from fatpack.inputs.files import Filter, SkipCounts, walk_open_file
from fatpack.tabular.columns import TABLES
from fatpack.tabular.noted import FindingSummary
from fatpack.tabular.read_file import error_row, read_rows

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.inputs.files import InputFile
    from fatpack.io.source import View
    from fatpack.tabular.columns import AnyRow
    from fatpack.tabular.options import RowOptions


def read_file_rows(leaf: InputFile, options: RowOptions) -> Iterator[AnyRow]:
    """Yield the rows of a leaf: of a file, or of a package, which has one row, for what is wrong with it."""
    if leaf.package:
        code = exit_code_for_findings((item.severity, item.code) for item in leaf.findings)
        noted = FindingSummary(leaf.path, leaf.findings)
        yield TABLES[options.of][0](
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
    elif leaf.view is None:
        assert leaf.error is not None
        yield error_row(leaf.path, leaf.error, options.of)
    else:
        yield from read_rows(leaf.view, options)


def read_open_file_rows(view: View, path: str, options: RowOptions) -> Iterator[AnyRow]:
    """Yield the rows of an open file; of a package those of all files in it, and behind them one of the package."""
    rules, counts = Filter(deep=options.deep), SkipCounts()
    for batch in walk_open_file(view, path, rules, counts):
        for node in batch:
            for leaf in node.leaves(rules, counts):
                yield from read_file_rows(leaf, options)
