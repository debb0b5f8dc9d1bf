"""A page, a picture or a text of what is in files: ``write_report``."""

from __future__ import annotations

import os

from fatpack.errors import FatpackError, UsageError
from fatpack.exit_codes import error_message, exit_code, worst_exit_code
from fatpack.io.open import open_source, resolve_url
from fatpack.library.arguments import as_paths, as_patterns, check_bools, check_type, make_budget, write_pieces_to
from fatpack.packages.members import LazyInflatedMember
from fatpack.selectors.address import open_location
from fatpack.tabular.columns import RowOptions
from fatpack.tabular.read_many import read_paths
from fatpack.tensile.library import TensileFinder

__all__ = ["KINDS", "write_report"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from fatpack.commands.report.byte_regions import FileRegions
    from fatpack.commands.report.model import FileOverview, ReportResult
    from fatpack.inputs.nested import NestedFile
    from fatpack.io.source import Source, View
    from fatpack.library.arguments import Output
    from fatpack.tabular.columns import AnyRow
    from fatpack.tabular.read_many import RowIterator

#: Kinds of reports: a page, a text for a pull request, or one picture.
KINDS = ("html", "markdown", "treemap", "coverage", "costs", "bytes")


def write_report(
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    output: Output,
    *,
    kind: str = "html",
    overwrite: bool = False,
    exclude: Sequence[str] = (),
    demangle: bool = False,
    deep: bool = False,
    max_inflated: int | None = None,
) -> ReportResult:
    """Write what is in files, folders, packages, patterns and URLs as one file, and return what it says as records.

    ``kind`` is ``html`` (a page that loads nothing), ``markdown`` (tables for a pull request), or a picture as SVG:
    ``treemap``, ``coverage``, ``costs``, ``bytes``. ``output`` is a path, which is refused if it exists unless
    ``overwrite``, or a binary file. Unreadable files are in the report, and in ``exit_code`` of the result; nothing is
    raised for them.
    ``exclude`` are patterns of files that are left out; ``deep`` and ``max_inflated`` are as for :func:`fatpack.open`.
    ``demangle`` lists kernels by the names that people write (the package cxxfilt, or ``c++filt`` on PATH). All images
    are inflated and read, one after the other. Raises UsageError for arguments, for a pattern that matches no file, and
    if there is nothing to draw, Unsupported if nothing demangles, ``OSError`` for the output. The result's
    ``exit_code`` is 1 if there is no device code.
    """
    check_bools(overwrite=overwrite, demangle=demangle, deep=deep)
    result, _ = report_files(
        paths,
        output,
        kind=kind,
        overwrite=overwrite,
        exclude=exclude,
        demangle=demangle,
        deep=deep,
        max_inflated=max_inflated,
    )
    return result


def report_files(
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    output: Output,
    *,
    kind: str,
    overwrite: bool,
    exclude: Sequence[str],
    demangle: bool,
    deep: bool,
    max_inflated: int | None = None,
    on_file: Callable[[AnyRow], None] | None = None,
    allow_unmatched: bool = False,
) -> tuple[ReportResult, Sequence[str]]:
    """Write a report as :func:`write_report` does; return the result, and the patterns that match no file.

    ``on_file`` is called with the row of each file. With ``allow_unmatched`` a pattern that matches no file raises
    nothing.
    """
    given = as_paths("paths", paths)
    if check_type("kind", kind, str, "a text") not in KINDS:
        raise UsageError(f"there is no report of kind {kind!r}", hint=f"kinds are {', '.join(KINDS)}")
    if isinstance(output, (str, os.PathLike)):
        _refuse(os.fspath(output), given, overwrite=overwrite)
    from fatpack.commands.report.overview import build_overview

    if demangle:
        from fatpack import demangling

        demangling.check_available()  # before all is read
    budget = make_budget(max_inflated)
    names = [resolve_url(path) for path in given]
    options = RowOptions(
        digests=True, kernels=True, each_kernel=True, deep=deep, digest_sizes=_sizes(names, deep=deep), dead=True
    )
    unmatched: list[str] = []
    rows = read_paths(
        names,
        options,
        exclude=as_patterns(exclude),
        unmatched=unmatched,
        on_file=on_file,
        budget=budget,
        opener=_opened,
    )
    tensile = TensileFinder(budget, deep=deep, is_filtered=bool(exclude))
    with _LargestFile(rows) as largest:
        overview = build_overview(rows, tensile, largest.take if kind in ("html", "bytes") else None)
        if rows.unlooked:
            left_out = rows.unlooked.sentence()
            overview = overview.replace(notes=(*overview.notes, f"{left_out[0].upper()}{left_out[1:]}."))
        if demangle:
            from fatpack.commands.report.overview import with_demangled_names

            overview = with_demangled_names(overview)
        if unmatched and not allow_unmatched:
            raise UsageError(f"no file matches {unmatched[0]}", hint="correct the pattern, or leave it out")
        map = None
        if kind in ("html", "bytes"):
            overview, map = _with_byte_map(overview, largest)
    write_pieces_to(output, (text.encode() for text in _texts(overview, names, kind, map)), overwrite=overwrite)
    return overview, unmatched


class _LargestFile:
    """The file with most device code so far: if it was inflated from a package, its bytes are kept for the byte map.

    Inflating libtorch_cuda.so a second time takes as long as reading all symbol tables in it.
    """

    def __init__(self, rows: RowIterator) -> None:
        self._rows = rows
        self._size = -1
        self._path = ""
        self._source: Source | None = None

    def take(self, file: FileOverview) -> None:
        """Take a file, which is still open if this process reads it."""
        size = _code_size(file)
        if file.error is not None or size <= self._size:
            return
        self.close()
        view = self._rows.view
        self._size, self._path = size, file.path
        if view is not None and isinstance(view.source, LazyInflatedMember) and len(view) == view.source.size:
            self._source = view.source.duplicate()

    def open(self, path: str) -> tuple[Source | NestedFile, View]:
        """Return the file with a path, open; the caller closes it. Raises FatpackError and ``OSError``."""
        source = self._source
        if source is None or path != self._path:
            return _opened(path)
        self._source = None
        return source, source.view()

    def close(self) -> None:
        """Close the file."""
        if self._source is not None:
            self._source.close()
            self._source = None

    def __enter__(self) -> _LargestFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _code_size(file: FileOverview) -> int:
    """Return how much device code is in a file: its stored bytes, or if these are not known the inflated ones."""
    return file.bytes.stored or file.bytes.inflated


def _sizes(names: Sequence[str], *, deep: bool) -> frozenset[int] | None:
    """Return the sizes that several images of plain files have; None where heads alone do not say that.

    Of the images of libtorch_cuda.so, 94 in 100 bytes are of those with a size of their own, which need no digest; its
    heads are read in a third of a second. Files in packages would be inflated twice for it.
    """
    from fatpack.commands.report.sizes import repeated_sizes
    from fatpack.scanner.context import detect_package

    try:
        for name in names:
            if not os.path.isfile(name):
                return None
            with open_source(name) as source:
                if detect_package(source.view()):
                    return None
        return repeated_sizes(read_paths(names, RowOptions(deep=deep)))
    except (FatpackError, OSError):
        return None  # the reading itself says what is wrong


def _refuse(output: str, paths: Sequence[str | os.PathLike[str]], *, overwrite: bool) -> None:
    """Raise for an output that exists, before anything is read, and in any case for one that is an input."""
    if not os.path.exists(output):
        return
    for path in paths:
        if os.path.exists(path) and os.path.samefile(path, output):
            raise UsageError(f"{output} is an input of this command", hint="choose another output")
    if not overwrite and os.path.isfile(output):
        raise FileExistsError(17, os.strerror(17), output)


def _opened(path: str) -> tuple[Source | NestedFile, View]:
    file, place = open_location(path, ranges=True)
    return file, place.view


def _texts(overview: ReportResult, names: Sequence[str], kind: str, map: FileRegions | None) -> Iterator[str]:
    if kind == "markdown":
        from fatpack.commands.report.markdown import render_markdown

        return iter((render_markdown(overview, names),))
    if kind == "html":
        from fatpack import __version__
        from fatpack.commands.report.page import render_page

        return render_page(overview, names, map, __version__)
    return iter((_picture(overview, kind, map),))


def _picture(overview: ReportResult, kind: str, map: FileRegions | None) -> str:
    from fatpack.commands.report.pictures import FAMILIES, draw_byte_grid, draw_coverage, standalone_svg
    from fatpack.commands.report.treemap import draw_treemap

    if kind == "treemap":
        picture = draw_treemap(overview, is_stored=True) or draw_treemap(overview, is_stored=False)
    elif kind == "coverage":
        picture = draw_coverage(overview)
    elif kind == "costs":
        from fatpack.commands.report.cost_picture import draw_costs

        picture = draw_costs(overview)
    else:
        picture = None if map is None else draw_byte_grid(map)
    if picture is None:
        lacking = {
            "treemap": "no images",
            "coverage": "no kernels",
            "costs": "no images",
            "bytes": "no file that can be read again",
        }[kind]
        raise UsageError(f"there is nothing to draw: {lacking}", hint="fatpack inspect says what is there")
    return standalone_svg(picture, FAMILIES)


def _with_byte_map(overview: ReportResult, largest: _LargestFile) -> tuple[ReportResult, FileRegions | None]:
    """Return the bytes of the file with most device code, and the overview with a note if there is no such map.

    The file is read a second time, from the bytes that ``largest`` keeps of it if it does. Where that fails, which it
    did not a moment ago, the exit code says so too.
    """
    from fatpack.commands.report.byte_regions import file_regions

    files = [file for file in overview.files if file.error is None]
    if not files:
        return overview, None
    chosen = max(files, key=_code_size)
    if not _is_there(chosen.path):
        note = f"There is no byte map: {chosen.path} is not a local file, and is not read a second time."
        return overview.replace(notes=(*overview.notes, note)), None
    images = {
        line.offset: (line.label, line.family)
        for line in overview.images
        if line.path == chosen.path and line.offset is not None
    }
    try:
        source, view = largest.open(chosen.path)
        with source:
            return overview, file_regions(view, images)
    except (FatpackError, OSError) as error:
        problem = f"There is no byte map: {error_message(error)}"
        code = worst_exit_code((overview.exit_code, exit_code(error)))
        return overview.replace(problems=(problem,), exit_code=code), None


def _is_there(path: str) -> bool:
    """Return whether a path is of a local file, or of a file in a local package: those can be read again."""
    return os.path.isfile(path) or ("!" in path and os.path.isfile(path.partition("!")[0]))
