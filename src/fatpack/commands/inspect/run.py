"""What ``fatpack inspect FILE...`` does, without click: the command people type most answers fastest."""

from __future__ import annotations

import sys

from fatpack.command_line.terminal import get_style as terminal_style
from fatpack.command_line.terminal import write_text
from fatpack.commands.inspect.record import (
    SCHEMA,
    InspectOptions,
    failure_record,
    make_file_listing,
    make_file_record,
)
from fatpack.commands.inspect.text import render_inspect
from fatpack.errors import FatpackError
from fatpack.exit_codes import FINDINGS, FINE, exit_code, exit_code_for_findings, worst_exit_code
from fatpack.io.open import is_tree, open_source, resolve_url
from fatpack.record import gc_paused
from fatpack.scanner.context import detect_package
from fatpack.text.style import colorize
from fatpack.text.text import write_lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any

    from fatpack.command_line.showing import ShownFile, TreeListing
    from fatpack.inputs.nested import NestedFile
    from fatpack.io.source import Source, View
    from fatpack.text.style import Style

#: What a listing reads if no option asks for more.
TABLES = InspectOptions(inflate=False)


def show_files(
    files: Sequence[str],
    options: InspectOptions = TABLES,
    *,
    as_json: bool = False,
    verbose: int = 0,
    one_program: bool = False,
    exclude: tuple[str, ...] = (),
) -> int:
    """Print what is in the files and return the exit code: 1 for warnings, 3 for damage, 4 for what this
    version cannot read, 5 for unreadable files.

    What is read follows from ``options`` alone, and so does the exit code; by default the images of large compressed
    containers are taken from their tables. ``one_program`` compares the files too. Of folders, patterns and packages
    every file with device code is shown, and a summary ends the output; ``exclude`` are patterns of files left out.
    """
    shown = _ShownFiles(options, exclude, as_json=as_json, verbose=verbose, one_program=one_program)
    found: Iterable[Any] = (record for path in files for record in shown.records(path))
    code = FINE
    if one_program:
        from fatpack.commands.inspect.program import add_differences

        found = all_of_them = list(found)
        code = FINDINGS if add_differences(all_of_them) else FINE
    if as_json:
        from fatpack.text.json import document_pieces

        head = {"schema": SCHEMA}
        sys.stdout.writelines(document_pieces(head, "files", found, written=_flush, tail=shown.tail))
    else:
        style = terminal_style()
        if verbose:
            style = style.replace(width=0)  # addresses and names are there to be copied
        for record in found:
            _write(record, verbose, style)
        shown.end()
    shown.say_unused()
    return worst_exit_code((code, shown.code))


class _ShownFiles:
    """What is shown of each name, and the exit code for what was shown so far."""

    def __init__(
        self, options: InspectOptions, exclude: tuple[str, ...], *, as_json: bool, verbose: int, one_program: bool
    ) -> None:
        self._options, self._exclude, self._verbose = options, exclude, verbose
        self._form = "record" if one_program else "json" if as_json else "lines"
        self._is_brief = not (as_json or verbose or one_program or options.kernels)
        self._keep: Callable[[dict[str, Any]], Any] | None = None
        self._trees: TreeListing | None = None
        self.code = FINE
        if options.kernels:
            from fatpack.commands.inspect.kernel_text import with_kernel_tables
            from fatpack.text.json import prepared_container

            # The facts about a hundred thousand kernels take far more memory than the text that is made of them.
            self._keep = with_kernel_tables if not as_json else None if one_program else prepared_container

    def records(self, path: str) -> Iterator[Any]:
        """Yield the record of a file, which is read when it is asked for; what is shown of each file in a tree."""
        if is_tree(path):
            yield from self._of_tree(path)
            return
        try:
            path = resolve_url(path)
            source, view = open_argument(path)
            with source:
                if detect_package(view):
                    yield from self._of_tree(view.chain[0] if view.chain else path, view)
                    return
                record, problem = inspect_view(view, self._options, is_brief=self._is_brief, keep=self._keep)
        except (FatpackError, OSError) as error:
            record, problem = failure_record(path, error), exit_code(error)
        self.code = worst_exit_code((self.code, problem))
        yield record

    def _of_tree(self, path: str, view: View | None = None) -> Iterator[Any]:
        from fatpack.command_line.showing import TreeListing
        from fatpack.commands.inspect.inspecting import InspectTrees
        from fatpack.inputs.files import Filter

        if self._trees is None:
            keep = self._keep if self._form == "lines" else None
            self._trees = TreeListing(
                InspectTrees(self._options, self._form, self._verbose, keep), Filter(self._exclude, self._options.deep)
            )
        for item in self._trees.shown(path, view):
            yield item if self._form == "lines" else item.content
        self.code = worst_exit_code((self.code, self._trees.code))

    def tail(self) -> dict[str, object]:
        """Return what JSON says of the trees behind their files: how much was met in each."""
        return {"trees": [item.record() for item in self._trees.summaries]} if self._trees is not None else {}

    def end(self) -> None:
        """Print the line that ends what is shown of trees."""
        if self._trees is not None:
            from fatpack.command_line.trees import summary_line

            write_text([summary_line(self._trees.summaries, deep=self._options.deep)])

    def say_unused(self) -> None:
        """Say which patterns left nothing out of trees."""
        if self._trees is not None and self._exclude:
            from fatpack.command_line.trees import report_unused

            sys.stdout.flush()
            report_unused(self._exclude, self._trees.summaries)


def _flush() -> None:
    """Give out what was written so far: readers need not wait for the next file."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError:
        pass  # it is still there, and said when the command ends


def _print_inspect_error(text: str) -> None:
    from fatpack.command_line.messages import print_stderr

    sys.stdout.flush()
    print_stderr(f"fatpack: error: {text}")


def _write(record: dict[str, Any] | ShownFile, verbose: int, style: Style) -> None:
    if not isinstance(record, dict):
        if record.error:
            _print_inspect_error(record.error)
        else:
            write_lines(colorize(record.content, style), sys.stdout)
        return
    if record.get("error"):
        _print_inspect_error(record["error"]["message"])
        return
    with gc_paused():
        write_lines(colorize(render_inspect(record, verbose=verbose), style), sys.stdout)


def inspect_view(
    view: View, options: InspectOptions, *, is_brief: bool, keep: Callable[[dict[str, Any]], Any] | None = None
) -> tuple[dict[str, Any], int]:
    """Return the record of an open file and the exit code it stands for, ``is_brief``: what its short text shows.

    ``keep`` makes of the record of a container what is kept of it.
    """
    with gc_paused():
        record = make_file_listing(view, options) if is_brief else make_file_record(view, options, keep=keep)
    found = (*record["findings"], *record.get("unlisted_findings", ()))
    return record, exit_code_for_findings((item["severity"], item["code"]) for item in found)


def open_argument(path: str) -> tuple[Source | NestedFile, View]:
    """Open what an argument names, and return it with its bytes.

    That is a file, a URL, a file in a package (x.whl!libx.so), a member of an archive (libx.a(m.o)), or an address as
    reports print it (F#offset=0x10&size=0x20).
    """
    path = resolve_url(path)
    given = getattr(path, "given", path)
    from fatpack.selectors.address import is_address, open_location

    if not is_address(given):
        source = open_source(path)
        return source, source.view()
    file, place = open_location(path, ranges=True)
    return file, place.view
