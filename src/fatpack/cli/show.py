"""What ``fatpack inspect FILE...`` does, without click: the command people type most answers fastest."""

from __future__ import annotations

import sys

from fatpack.cli.terminal import style as terminal_style
from fatpack.cli.terminal import write_text
from fatpack.errors import FatpackError
from fatpack.io.sources.opening import is_tree, located, open_source
from fatpack.outcomes import FINDINGS, FINE, code_of, exit_code, worst
from fatpack.record import Uncollected
from fatpack.report.inspect_text import render
from fatpack.report.inspection import SCHEMA, InspectOptions, failure, inspection, listing
from fatpack.report.style import painted_lines
from fatpack.report.text import write_lines
from fatpack.scanner.visit import package_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any

    from fatpack.cli.many.showing import Shown, Trees
    from fatpack.io.source import Source, View
    from fatpack.report.style import Style
    from fatpack.trees.entering import Entered

#: What a listing reads if no option asks for more.
TABLES = InspectOptions(inflate=False)


def show(
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
    shown = _Shown(options, exclude, as_json=as_json, verbose=verbose, one_program=one_program)
    found: Iterable[Any] = (record for path in files for record in shown.records(path))
    code = FINE
    if one_program:
        from fatpack.report.several.program import add_differences

        found = all_of_them = list(found)
        code = FINDINGS if add_differences(all_of_them) else FINE
    if as_json:
        from fatpack.report.json_text import document_pieces

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
    return worst((code, shown.code))


class _Shown:
    """What is shown of each name, and the exit code for what was shown so far."""

    def __init__(
        self, options: InspectOptions, exclude: tuple[str, ...], *, as_json: bool, verbose: int, one_program: bool
    ) -> None:
        self._options, self._exclude, self._verbose = options, exclude, verbose
        self._form = "record" if one_program else "json" if as_json else "lines"
        self._is_brief = not (as_json or verbose or one_program or options.kernels)
        self._keep: Callable[[dict[str, Any]], Any] | None = None
        self._trees: Trees | None = None
        self.code = FINE
        if options.kernels:
            from fatpack.report.json_text import container_written
            from fatpack.report.kernel_text import with_tables

            # The facts about a hundred thousand kernels take far more memory than the text that is made of them.
            self._keep = with_tables if not as_json else None if one_program else container_written

    def records(self, path: str) -> Iterator[Any]:
        """Yield the record of a file, which is read when it is asked for; what is shown of each file in a tree."""
        if is_tree(path):
            yield from self._of_tree(path)
            return
        try:
            path = located(path)
            source, view = opened(path)
            with source:
                if package_of(view):
                    yield from self._of_tree(view.chain[0] if view.chain else path, view)
                    return
                record, problem = inspected(view, self._options, is_brief=self._is_brief, keep=self._keep)
        except (FatpackError, OSError) as error:
            record, problem = failure(path, error), exit_code(error)
        self.code = worst((self.code, problem))
        yield record

    def _of_tree(self, path: str, view: View | None = None) -> Iterator[Any]:
        from fatpack.cli.many.inspecting import Showing
        from fatpack.cli.many.showing import Trees
        from fatpack.trees.leaves import Rules

        if self._trees is None:
            keep = self._keep if self._form == "lines" else None
            self._trees = Trees(
                Showing(self._options, self._form, self._verbose, keep), Rules(self._exclude, self._options.deep)
            )
        for item in self._trees.shown(path, view):
            yield item if self._form == "lines" else item.content
        self.code = worst((self.code, self._trees.code))

    def tail(self) -> dict[str, object]:
        """Return what JSON says of the trees behind their files: how much was met in each."""
        return {"trees": [item.record() for item in self._trees.summaries]} if self._trees is not None else {}

    def end(self) -> None:
        """Print the line that ends what is shown of trees."""
        if self._trees is not None:
            from fatpack.cli.many.summary import line

            write_text([line(self._trees.summaries, deep=self._options.deep)])

    def say_unused(self) -> None:
        """Say which patterns left nothing out of trees."""
        if self._trees is not None and self._exclude:
            from fatpack.cli.many.summary import say_unused

            sys.stdout.flush()
            say_unused(self._exclude, self._trees.summaries)


def _flush() -> None:
    """Give out what was written so far: readers need not wait for the next file."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError:
        pass  # it is still there, and said when the command ends


def _say_error(text: str) -> None:
    from fatpack.cli.messages import say

    sys.stdout.flush()
    say(f"fatpack: error: {text}")


def _write(record: dict[str, Any] | Shown, verbose: int, style: Style) -> None:
    if not isinstance(record, dict):
        if record.error:
            _say_error(record.error)
        else:
            write_lines(painted_lines(record.content, style), sys.stdout)
        return
    if record.get("error"):
        _say_error(record["error"]["message"])
        return
    with Uncollected():
        write_lines(painted_lines(render(record, verbose=verbose), style), sys.stdout)


def inspected(
    view: View, options: InspectOptions, *, is_brief: bool, keep: Callable[[dict[str, Any]], Any] | None = None
) -> tuple[dict[str, Any], int]:
    """Return the record of an open file and the exit code it stands for, ``is_brief``: what its short text shows.

    ``keep`` makes of the record of a container what is kept of it.
    """
    with Uncollected():
        record = listing(view, options) if is_brief else inspection(view, options, keep=keep)
    found = (*record["findings"], *record.get("unlisted_findings", ()))
    return record, code_of((item["severity"], item["code"]) for item in found)


def opened(path: str) -> tuple[Source | Entered, View]:
    """Open what an argument names, and return it with its bytes.

    That is a file, a URL, a file in a package (x.whl!libx.so), a member of an archive (libx.a(m.o)), or an address as
    reports print it (F#offset=0x10&size=0x20).
    """
    path = located(path)
    given = getattr(path, "given", path)
    from fatpack.ops.choose.address import is_address, open_place

    if not is_address(given):
        source = open_source(path)
        return source, source.view()
    file, place = open_place(path, ranges=True)
    return file, place.view
