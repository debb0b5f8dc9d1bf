"""The rows of folders, patterns and packages: those of each file in them that is read, in order."""

from __future__ import annotations

from fatpack.command_line.trees import FilesProgress, TreeSummary, report_unmatched
from fatpack.inputs.files import Filter, input_kind
from fatpack.tabular.read_many import read_rows_below

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.io.source import View
    from fatpack.tabular.columns import AnyRow
    from fatpack.tabular.options import RowOptions


def read_tree_rows(
    path: str, view: View | None, options: RowOptions, exclude: tuple[str, ...], summaries: list[TreeSummary]
) -> Iterator[AnyRow]:
    """Yield the rows of an open package, or without a view, of a folder or pattern; add what was met there."""
    summary = TreeSummary(path, input_kind(path, view))
    summaries.append(summary)
    rules, meter = Filter(exclude, options.deep), FilesProgress()
    try:
        for item in read_rows_below(path, view, options, rules, summary.counts, summary.unmatched):
            count = sum(row.row != "file" for row in item.rows)
            has_error = item.rows[-1].error is not None
            if item.is_file:
                summary.add(count or None, item.size, is_read=not has_error)
            meter(bool(count))
            if has_error:
                meter.finish()
            yield from item.rows
    finally:
        meter.finish()
    report_unmatched(summary)
