"""What ``fatpack inspect --by`` does: what the device code of files adds up to."""

from __future__ import annotations

import sys

from fatpack.command_line.messages import print_stderr
from fatpack.command_line.terminal import get_style
from fatpack.commands.inspect.record import InspectOptions
from fatpack.commands.inspect.run import inspect_view, open_argument
from fatpack.commands.inspect.totals import Totals, totals_table
from fatpack.commands.inspect.wrong import problem_lines
from fatpack.errors import FatpackError
from fatpack.exit_codes import FINE, error_message, exit_code, worst_exit_code
from fatpack.io.open import is_tree
from fatpack.scanner.context import detect_package
from fatpack.text.json import json_pieces
from fatpack.text.text import write_lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from fatpack.command_line.showing import TreeListing
    from fatpack.io.source import View


def show_totals(
    files: Sequence[str], by: Sequence[str], *, as_json: bool = False, deep: bool = False, exclude: tuple[str, ...] = ()
) -> int:
    """Print what the device code of the files adds up to, and return the exit code as ``inspect`` does.

    The findings behind the exit code go to stderr, and what was not searched: sums that lack a part do not look like
    it. Containers state how large their images are and for what: only the sums by kernel take inflating.
    """
    needs_kernels = "kernel" in by
    options = InspectOptions(deep=deep, code_sizes=needs_kernels, tables_only=not needs_kernels)
    found = _TotalsOverFiles(options, by, exclude)
    for path in files:
        found.add(path)
    if as_json:
        sys.stdout.writelines(json_pieces(found.sums.record()))
        sys.stdout.write("\n")
    elif found.is_any_read:
        write_lines(totals_table(found.sums.record(), get_style()), sys.stdout)
    found.end()
    return found.code


class _TotalsOverFiles:
    """The sums over all names, and the exit code for what was read so far."""

    def __init__(self, options: InspectOptions, by: Sequence[str], exclude: tuple[str, ...]) -> None:
        self._options, self._by, self._exclude = options, by, exclude
        self._trees: TreeListing | None = None
        self.sums = Totals(by)
        self.code = FINE
        #: Zeros after nothing but errors would look like an answer.
        self.is_any_read = False

    def add(self, path: str) -> None:
        """Add the images of a file, or of all files in a tree."""
        if is_tree(path):
            self._add_tree(path)
            return
        try:
            source, view = open_argument(path)
            with source:
                if detect_package(view):
                    self._add_tree(view.chain[0] if view.chain else path, view)
                    return
                record, code = inspect_view(view, self._options, is_brief=False)
        except (FatpackError, OSError) as error:
            self.code = worst_exit_code((self.code, exit_code(error)))
            _print_totals_error(error_message(error))
            return
        self.is_any_read = True
        self.code = worst_exit_code((self.code, code))
        _say_all(problem_lines(path, record))
        self.sums.add(record)

    def _add_tree(self, path: str, view: View | None = None) -> None:
        from fatpack.command_line.showing import TreeListing
        from fatpack.commands.inspect.inspecting import InspectTrees
        from fatpack.inputs.files import Filter

        if self._trees is None:
            self._trees = TreeListing(
                InspectTrees(self._options, "sums", by=tuple(self._by)), Filter(self._exclude, self._options.deep)
            )
        for item in self._trees.shown(path, view):
            if item.error:
                _print_totals_error(item.error)
            else:
                lines, part = item.content
                _say_all(lines)
                self.sums.add_sums(part)
        self.code = worst_exit_code((self.code, self._trees.code))
        self.is_any_read |= self._trees.summaries[-1].files > 0 or not self.code

    def end(self) -> None:
        """Say what was met in trees: not among the sums, which programs read."""
        if self._trees is not None:
            from fatpack.command_line.trees import report_unused, summary_line

            report_unused(self._exclude, self._trees.summaries)
            print_stderr(summary_line(self._trees.summaries, deep=self._options.deep))


def _print_totals_error(text: str) -> None:
    print_stderr(f"fatpack: error: {text}")


def _say_all(lines: Iterable[str]) -> None:
    for line in lines:
        print_stderr(line.rstrip("\n"))
