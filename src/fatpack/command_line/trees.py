"""Counts of the files in a folder, pattern or package: the line that ends a listing, and its record in JSON."""

from __future__ import annotations

import os

from fatpack.command_line.messages import StatusLine, print_stderr
from fatpack.errors import pluralize
from fatpack.exit_codes import FINDINGS, FINE, worst_exit_code
from fatpack.printable import format_size, printable
from fatpack.record import Record
from fatpack.tabular.skipped import unread_files, unread_sentence

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    from fatpack.inputs.files import Filter, InputFile
    from fatpack.io.source import View


class TreeSummary:
    """The counts of one tree: files read, files with device code, and skipped files.

    ``images`` are kernels where rows of kernels are asked for, and files without any count as those without device code
    then. ``size`` are the bytes of the files with device code, ``unread`` the files that could not be read.
    """

    def __init__(self, path: str, kind: str) -> None:
        from fatpack.inputs.files import SkipCounts

        self.path, self.kind = path, kind
        self.files = self.with_code = self.images = self.size = self.unread = 0
        self.counts = SkipCounts()
        self.unmatched: list[str] = []

    def add(self, images: int | None, size: int, *, is_read: bool = True) -> None:
        """Count a file that was read, with the number of its images, None without device code; or one that was not."""
        if not is_read:
            self.unread += 1
            return
        self.files += 1
        if images is not None:
            self.with_code += 1
            self.images += images
            self.size += size

    def record(self) -> dict[str, Any]:
        """Return the counts as plain data."""
        from fatpack.result import to_plain_data

        return {
            "path": self.path,
            "kind": self.kind,
            "files": self.files,
            "with_device_code": self.with_code,
            "images": self.images,
            "size": self.size,
            "unread": self.unread,
            "passed_by_name": self.counts.passed,
            "excluded": self.counts.excluded,
            "links": self.counts.links,
            "special": self.counts.special,
            "not_read": to_plain_data(unread_files(self.counts.not_read)),
        }


def summary_line(summaries: Sequence[TreeSummary], *, deep: bool = False, what: str = "image", asked: str = "") -> str:
    """Return the counts of all trees as one line for people; ``what`` are the things that were counted in the files.

    ``asked`` is the option that selects the images that were counted: a file without one may have other device code.
    """
    from fatpack.inputs.files import SkipCounts

    files, with_code, images, size, unread = (
        sum(getattr(item, name) for item in summaries) for name in ("files", "with_code", "images", "size", "unread")
    )
    counts = SkipCounts()
    for item in summaries:
        counts.add(item.counts)
    name = printable(summaries[0].path) if len(summaries) == 1 else f"{len(summaries)} arguments"
    has = f"with {f'{what}s that match {asked}' if asked else 'device code' if what == 'image' else f'{what}s'}"
    inside = f"{with_code} {has} ({pluralize(images, what)} in {format_size(size)} of files)"
    words = [f"{name}: {pluralize(files, 'file')}, {inside if with_code else f'none {has}'}"]
    left_out = [
        f"{pluralize(unread, 'file')} could not be read" if unread else "",
        f"{counts.passed} skipped by name" if counts.passed else "",
        f"{counts.excluded} excluded" if counts.excluded else "",
        f"{pluralize(counts.links, 'link')} not followed" if counts.links else "",
        f"{pluralize(counts.special, 'pipe, socket or device')} not read" if counts.special else "",
    ]
    words += [", ".join(filter(None, left_out))] if any(left_out) else []
    words += filter(None, [unread_sentence(unread_files(counts.not_read))])
    if not deep and (files > with_code or counts.passed):
        words.append("--deep searches everything")
    return "; ".join(words)


def report_unmatched(summary: TreeSummary) -> bool:
    """Say which patterns no file has, and return whether there are any."""
    for name in summary.unmatched:
        from glob import iglob

        is_folder = "**" not in name and any(map(os.path.isdir, iglob(name)))
        hint = f"; {name.rstrip('/')}/** means the files in the folders that it matches" if is_folder else ""
        print_stderr(f"fatpack: warning: no file matches {name}{hint}")
    return bool(summary.unmatched)


def report_unused(exclude: Sequence[str], summaries: Sequence[TreeSummary], *, quiet: bool = False) -> None:
    """Print a note for each ``--exclude`` pattern that excluded no file: it may be misspelt."""
    used = set[str]().union(*(item.counts.used for item in summaries))
    for pattern in dict.fromkeys(exclude):
        if pattern not in used:
            print_stderr(f"fatpack: note: --exclude {pattern} matched nothing", quiet=quiet)


class FilesProgress(StatusLine):
    """The number of files read so far, and the number with device code."""

    def __init__(self) -> None:
        super().__init__()
        self._files = self._with_code = 0
        self.watched()

    def __call__(self, has_code: bool) -> None:
        """Count a file."""
        self._files += 1
        self._with_code += has_code
        self.watched()
        if self.is_due():
            self.show(self.text())

    def text(self) -> str:
        """Return how many there were so far; of the first nothing is known before it was read."""
        if not self._files:
            return f"reading the first file, {super().text()}{self._read()}"
        files = pluralize(self._files, "file")
        return f"{files}, {self._with_code} with device code, {super().text()}{self._read()}"


# The output for folders, patterns and packages: one file after the other, then the summary.


class ShownFile(Record):
    """The output for one file, and its part of the summary.

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
    """The folders, patterns and packages of one command, and counts of the files in them."""

    def __init__(
        self, showing: Callable[[InputFile], ShownFile], rules: Filter, *, shares_inside: bool = False
    ) -> None:
        self._showing = showing
        self._rules = rules
        #: whether ``showing`` distributes the containers of a file to processes
        self._shares_inside = shares_inside
        self.summaries: list[TreeSummary] = []
        self.code = FINE

    def shown(self, path: str, view: View | None = None) -> Iterator[ShownFile]:
        """Yield what is shown of the leaves of a name: of an open package, or without a view, of a folder or pattern.

        Files that are only counted are not among them.
        """
        from fatpack.inputs.files import input_kind, walk_input
        from fatpack.inputs.map_files import map_files

        summary = TreeSummary(path, input_kind(path, view))
        self.summaries.append(summary)
        rules, counts, meter = self._rules, summary.counts, FilesProgress()
        batches = walk_input(path, view, rules, counts, summary.unmatched)
        is_local = view is None or view.source.fileno() is not None
        try:
            shares = self._shares_inside
            for item in map_files(batches, self._showing, rules, counts, is_local=is_local, shares_inside=shares):
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
