"""Rows of files in packages: those that the files have unpacked, and behind them a row of the package itself."""

from __future__ import annotations

from fatpack.facts.columns import TABLES
from fatpack.facts.noted import Noted
from fatpack.facts.reading import failed, rows_of
from fatpack.outcomes import code_of, exit_code, message, worst
from fatpack.trees.leaves import Counts, Rules, batches_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.facts.columns import AnyRow
    from fatpack.facts.options import RowOptions
    from fatpack.io.source import View
    from fatpack.trees.leaves import Leaf


def rows_of_leaf(leaf: Leaf, options: RowOptions) -> Iterator[AnyRow]:
    """Yield the rows of a leaf: of a file, or of a package, which has one row, for what is wrong with it."""
    if leaf.package:
        code = code_of((item.severity, item.code) for item in leaf.findings)
        noted = Noted(leaf.path, leaf.findings)
        yield TABLES[options.of][0](
            row="file",
            path=leaf.path,
            file_size=leaf.size,
            host=leaf.package,
            findings=noted.codes,
            messages=noted.messages,
            error=None if leaf.error is None else message(leaf.error),
            exit_code=code if leaf.error is None else worst((code, exit_code(leaf.error))),
            count=0,
        )
    elif leaf.view is None:
        assert leaf.error is not None
        yield failed(leaf.path, leaf.error, options.of)
    else:
        yield from rows_of(leaf.view, options)


def rows_in(view: View, path: str, options: RowOptions) -> Iterator[AnyRow]:
    """Yield the rows of an open file; of a package those of all files in it, and behind them one of the package."""
    rules, counts = Rules(deep=options.deep), Counts()
    for batch in batches_in(view, path, rules, counts):
        for node in batch:
            for leaf in node.leaves(rules, counts):
                yield from rows_of_leaf(leaf, options)
