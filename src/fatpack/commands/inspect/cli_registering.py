"""What ``fatpack inspect --runtime`` does: what programs register and launch, with all that leads there."""

from __future__ import annotations

import sys

from fatpack.command_line.messages import print_stderr
from fatpack.command_line.terminal import write_text
from fatpack.commands.inspect.registration import SCHEMA, failed_registration_record, registration_record
from fatpack.commands.inspect.run import open_argument
from fatpack.commands.inspect.texts import render_registration
from fatpack.errors import FatpackError
from fatpack.exit_codes import FINE, exit_code, exit_code_for_findings, worst_exit_code
from fatpack.io.open import is_tree
from fatpack.scanner.context import detect_package

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from fatpack.command_line.showing import TreeListing
    from fatpack.io.source import View


def show_registration(files: Sequence[str], *, as_json: bool, exclude: tuple[str, ...] = ()) -> int:
    """Print what the files register and launch, and return the exit code as ``inspect`` does.

    Of folders, patterns and packages every file that has to do with a runtime is shown, and a line counts the rest;
    ``exclude`` are patterns of files left out.
    """
    shown = _ShownRegistrations(as_json=as_json, exclude=exclude)
    records = (record for path in files for record in shown.records(path))
    if as_json:
        from fatpack.text.json import document_pieces

        sys.stdout.writelines(document_pieces({"schema": SCHEMA}, "files", records, tail=shown.tail))
    else:
        for record in records:
            _write(record)
    shown.end()
    return shown.code


class _ShownRegistrations:
    """What is shown of each name, and the exit code for what was shown so far."""

    def __init__(self, *, as_json: bool, exclude: tuple[str, ...]) -> None:
        self._as_json, self._exclude = as_json, exclude
        self._trees: TreeListing | None = None
        self.code = FINE

    def records(self, path: str) -> Iterator[Any]:
        """Yield the record of a file, or what is shown of each file in a tree."""
        if is_tree(path):
            yield from self._of_tree(path)
            return
        try:
            source, view = open_argument(path)
            with source:
                if detect_package(view):
                    yield from self._of_tree(view.chain[0] if view.chain else path, view)
                    return
                record = registration_record(view)
        except BrokenPipeError:
            raise
        except (FatpackError, OSError) as error:
            self.code = worst_exit_code((self.code, exit_code(error)))
            yield failed_registration_record(path, error)
            return
        self.code = worst_exit_code(
            (self.code, exit_code_for_findings((item["severity"], item["code"]) for item in record["findings"]))
        )
        yield record

    def _of_tree(self, path: str, view: View | None = None) -> Iterator[Any]:
        from fatpack.commands.inspect.registering import registration_trees

        if self._trees is None:
            self._trees = registration_trees(self._exclude, as_json=self._as_json)
        for item in self._trees.shown(path, view):
            yield item.content if self._as_json else item
        self.code = worst_exit_code((self.code, self._trees.code))

    def tail(self) -> dict[str, object]:
        """Return what JSON says of the trees behind their files: how much was met in each."""
        return {"trees": [item.record() for item in self._trees.summaries]} if self._trees is not None else {}

    def end(self) -> None:
        """Print the line that ends what is shown of trees, and say which patterns left nothing out of them."""
        if self._trees is None:
            return
        from fatpack.command_line.trees import report_unused, summary_line

        if not self._as_json:
            write_text([summary_line(self._trees.summaries, deep=True, what="unit")])
        sys.stdout.flush()
        report_unused(self._exclude, self._trees.summaries)


def _write(record: Any) -> None:
    """Print the record of a file, or the lines that were made of one in a tree."""
    is_record = isinstance(record, dict)
    error = record.get("error", {}).get("message") if is_record else record.error
    if error:
        sys.stdout.flush()
        print_stderr(f"fatpack: error: {error}")
    else:
        write_text(render_registration(record) if is_record else record.content)
