"""What is shown of the leaves of folders, patterns and packages, one after the other, and what was met in them."""

from __future__ import annotations

from fatpack.command_line.trees import FilesProgress, TreeSummary, report_unmatched
from fatpack.exit_codes import FINDINGS, FINE, worst_exit_code
from fatpack.inputs.files import input_kind, walk_input
from fatpack.inputs.sharing import map_files
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from fatpack.inputs.files import Filter, InputFile
    from fatpack.io.source import View


class ShownFile(Record):
    """What is shown of a leaf, and what it adds to the summary.

    ``content`` are lines, JSON or a record, None where the leaf is only counted; ``error`` says why there is none to be
    read. ``images`` is None without what is looked for: device code, or what registers it.
    """

    content: Any = None
    code: int = FINE
    error: str = ""
    images: int | None = None
    size: int = 0
    is_file: bool = True


class TreeListing:
    """The folders, patterns and packages that one command was given, and what was met in them."""

    def __init__(self, showing: Callable[[InputFile], ShownFile], rules: Filter) -> None:
        self._showing = showing
        self._rules = rules
        self.summaries: list[TreeSummary] = []
        self.code = FINE

    def shown(self, path: str, view: View | None = None) -> Iterator[ShownFile]:
        """Yield what is shown of the leaves of a name: of an open package, or without a view, of a folder or pattern.

        Those that are only counted are not among them.
        """
        summary = TreeSummary(path, input_kind(path, view))
        self.summaries.append(summary)
        rules, counts, meter = self._rules, summary.counts, FilesProgress()
        batches = walk_input(path, view, rules, counts, summary.unmatched)
        is_local = view is None or view.source.fileno() is not None
        try:
            for item in map_files(batches, self._showing, rules, counts, is_local=is_local):
                meter(item.images is not None)
                if item.is_file:
                    summary.add(item.images, item.size, is_read=not item.error)
                self.code = worst_exit_code((self.code, item.code))
                if item.content is not None or item.error:
                    meter.finish()
                    yield item
        finally:
            meter.finish()
        if report_unmatched(summary):
            self.code = worst_exit_code((self.code, FINDINGS))
