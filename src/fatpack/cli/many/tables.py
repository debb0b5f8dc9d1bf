"""The rows of folders, patterns and packages: those of each file in them that is read, in order."""

from __future__ import annotations

from fatpack.cli.many.sharing import made_of
from fatpack.cli.many.summary import FilesMeter, Summary, say_unmatched
from fatpack.facts.packages import rows_of_leaf
from fatpack.record import Record
from fatpack.trees.leaves import Rules, batches_of, kind_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.facts.columns import AnyRow
    from fatpack.facts.reading import RowOptions
    from fatpack.io.source import View
    from fatpack.trees.leaves import Leaf


class _Making(Record):
    """What makes rows of a leaf, with whether it is a file, and its size."""

    options: RowOptions

    def __call__(self, leaf: Leaf) -> tuple[list[AnyRow], bool, int]:
        return list(rows_of_leaf(leaf, self.options)), not leaf.package, leaf.size or 0


def rows_in(
    path: str, view: View | None, options: RowOptions, exclude: tuple[str, ...], summaries: list[Summary]
) -> Iterator[AnyRow]:
    """Yield the rows of an open package, or without a view, of a folder or pattern; add what was met there.

    A file is searched to its last byte only if ``options`` ask for that of every file.
    """
    summary = Summary(path, kind_of(path, view))
    summaries.append(summary)
    rules, meter = Rules(exclude, options.deep), FilesMeter()
    batches = batches_of(path, view, rules, summary.counts, summary.unmatched)
    is_local = view is None or view.source.fileno() is not None
    making = _Making(options.replace(thorough=False))
    try:
        for rows, is_file, size in made_of(batches, making, rules, summary.counts, is_local=is_local):
            count = sum(row.row != "file" for row in rows)
            if is_file:
                summary.add(count or None, size, is_read=rows[-1].error is None)
            meter(bool(count))
            if rows and rows[-1].error is not None:
                meter.finish()
            yield from rows
    finally:
        meter.finish()
    say_unmatched(summary)
