"""``fatpack survey``: rows of many files, read on all cores or on a cluster."""

from __future__ import annotations

import os
import re
import time

import click

from fatpack.command_line.command import Command
from fatpack.command_line.messages import StatusLine, format_duration, print_stderr, warn_stale_temp_files
from fatpack.command_line.param_types import DIRECTORY, FILE, INPUT, ChoiceType, CountType
from fatpack.command_line.shared_options import check_output_name, quiet_option, reading_options
from fatpack.commands.survey.engines import ENGINES
from fatpack.commands.survey.worker import FORMATS
from fatpack.errors import FatpackError, Unsupported, UsageError, pluralize
from fatpack.exit_codes import FINDINGS, MALFORMED, UNSUPPORTED
from fatpack.tabular import SCHEMA, SUBJECTS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from fatpack.commands.survey.manifest import PlanTotals
    from fatpack.commands.survey.run import SurveySummary

#: exit code of a file that was read → words for such files
_CODES = {FINDINGS: "with warnings", UNSUPPORTED: "with parts that are not supported", MALFORMED: "with damage"}


@click.command("survey", cls=Command)
@click.argument("sources", type=INPUT, metavar="SOURCES...", nargs=-1)
@click.option("--from", "lists", multiple=True, type=FILE, metavar="LIST", help="A file with a source on each line.")
@click.option("-o", "--output", type=DIRECTORY, metavar="FOLDER", help="The folder of the tables.")
@click.option(
    "--format",
    type=ChoiceType(FORMATS),
    default="parquet",
    help=f"Format of the tables, {SCHEMA}; parquet needs pyarrow, which the extra fatpack[parquet] brings.",
    show_default=True,
)
@click.option(
    "--rows-of",
    type=ChoiceType(SUBJECTS),
    default="images",
    help="Write a row per image or per kernel.",
    show_default=True,
)
@click.option("--kernels", is_flag=True, help="Add the number of kernels and the most registers.")
@click.option("--digests", is_flag=True, help="Add the SHA-256 of every image or kernel.")
@click.option("--inflate", is_flag=True, help="Also decompress large containers.")
@reading_options
@click.option("--thorough", is_flag=True, help="Search every file to its last byte.")
@click.option("--engine", type=ChoiceType(ENGINES), default="local", help="Where files are read.", show_default=True)
@click.option("--address", metavar="ADDRESS", help="The scheduler of dask, or the cluster of ray.")
@click.option("--workers", type=CountType(1), metavar="N", help="Processes for local. Default: one per core.")
@click.option("--part-files", type=CountType(1), metavar="N", help="Files in one table. Default: 10000.")
@quiet_option
def command(
    sources: tuple[str, ...],
    lists: tuple[str, ...],
    *,
    output: str | None,
    exclude: tuple[str, ...],
    format: str,
    rows_of: str,
    engine: str,
    address: str | None,
    workers: int | None,
    part_files: int | None,
    quiet: bool,
    **reading: Any,
) -> int:
    """Write a folder of tables with one row per image (or kernel) of many files, and one row per file.

    SOURCES are files, URLs, folders and patterns in quotes ('lib/**/*.so'). A file that cannot be read is a row with
    its error. Given again, the same command continues: files that were read are not read again, unless they changed.
    The exit code is the worst of all files, as of `fatpack inspect`; 1 if a pattern matches nothing.
    """
    check_output_name(output)
    if output is None:
        raise UsageError("no output is given", hint="name the folder with -o: fatpack survey SOURCES... -o FOLDER")
    _refuse_table(output)
    if not sources and not lists:
        raise UsageError("no source given", hint="fatpack survey SOURCES... -o FOLDER")
    for name in sources:
        _refuse_list(name)
    from fatpack.commands.survey.engines import make_engine
    from fatpack.commands.survey.run import PART_FILES, run_survey
    from fatpack.commands.survey.worker import TaskOptions
    from fatpack.limits import current_budget, current_limits
    from fatpack.tabular.columns import RowOptions

    options = TaskOptions(
        RowOptions(of=rows_of, dead=True, **reading), format, current_budget().inflated, current_limits()
    )
    if format == "parquet":
        _require_parquet()
    meter = _Meter(quiet=quiet)
    with make_engine(engine, options, address=address or "", workers=workers or 0) as running:
        try:
            names, most = _names(sources, lists), part_files or PART_FILES
            summary = run_survey(names, output, options, running, progress=meter, part_files=most, exclude=exclude)
        except KeyboardInterrupt:
            meter.finish()
            print_stderr(
                f"fatpack: stopped; {output} has what was read{meter.words}, and the same command goes on", quiet=quiet
            )
            raise
        finally:
            meter.finish()
    warn_stale_temp_files(output, quiet=quiet)
    _tell(summary, output, rows_of, quiet=quiet)
    return summary.exit_code


def _require_parquet() -> None:
    """Raise Unsupported, before anything starts, where what writes the default format is not installed."""
    try:
        import fatpack.tabular.parquet  # noqa: F401
    except Unsupported as error:
        raise Unsupported(error.problem, hint=f"{error.hint}, or --format jsonl, which needs nothing") from error


def _refuse_table(output: str) -> None:
    """Raise UsageError for an output with the name of a table, which is no folder yet."""
    stem, _, suffix = output.rpartition(".")
    # A folder of Parquet files is often named as one, and readers take it for one table.
    if suffix.lower() in ("csv", "jsonl") and not os.path.isdir(output):
        hint = f"-o {stem or 'FOLDER'}; fatpack inspect SOURCES... --rows {suffix.lower()} -o {output} writes one table"
        raise UsageError(f"{output} is the name of a table, and survey writes a folder of tables", hint=hint)


def _names(sources: Sequence[str], lists: Sequence[str]) -> Iterator[str]:
    from fatpack.inputs.walk import read_list_file

    yield from sources
    for path in lists:
        yield from read_list_file(path)


#: suffixes of texts that name files, and of pages that link to them
_LISTS = ("", ".txt", ".list", ".lst", ".html", ".htm")

#: what a page begins with, and what names a file in a list
_PAGE = re.compile(rb"\s*(?:<!--.*?-->\s*)*<(?:!doctype\s+html|html)\b", re.IGNORECASE | re.DOTALL)
_PACKAGES = (".whl", ".conda", ".so", ".tar.gz", ".zip", ".deb", ".rpm")
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://\S+$")


def _refuse_list(name: str) -> None:
    """Raise UsageError for a source that is a page with links, or a list of files, and no file with device code."""
    from fatpack.io.open import open_source, resolve_url

    last = name.partition("?")[0].replace("\\", "/").rpartition("/")[2]
    if os.path.splitext(last)[1].lower() not in _LISTS or not ("://" in name or os.path.isfile(name)):
        return
    place = resolve_url(name)  # as it is shown, without what is secret in it
    try:
        with open_source(place) as source:
            head = source.beginning(_BEGINNING)
    except (OSError, FatpackError):
        return  # which has a row that says so
    if _PAGE.match(head):
        hint = "write the addresses of the files into a text, one a line: fatpack survey --from LIST -o FOLDER"
        raise UsageError(f"{place} is an HTML page, and no file with device code", hint=hint)
    lines = [line.strip() for line in head.decode("utf-8", "replace").splitlines()[:_LINES]]
    named = [line for line in lines if line and not line.startswith("#")]
    if named and all(_URL.match(line) or os.path.isfile(line) or line.endswith(_PACKAGES) for line in named):
        raise UsageError(
            f"{place} is a list of files", hint=f"fatpack survey --from {place} -o FOLDER reads those files"
        )


#: bytes and lines of a source that are looked at for that; the last line of a longer one may be cut
_BEGINNING, _LINES = 16 << 10, 5


def _tell(summary: SurveySummary, folder: str, rows_of: str, *, quiet: bool) -> None:
    """Print what the survey came to."""
    before = f" ({summary.done_before} of them before)" if summary.done_before else ""
    rows = pluralize(summary.rows, rows_of.removesuffix("s"))
    print_stderr(f"surveyed {pluralize(summary.files, 'file')}{before}, {rows}: {folder}", quiet=quiet)
    if summary.errors:
        print_stderr(f"fatpack: warning: {pluralize(summary.errors, 'file')} could not be read; see the column error")
    if wrong := [
        f"{pluralize(summary.codes[code], 'file')} {words}" for code, words in _CODES.items() if code in summary.codes
    ]:
        print_stderr(f"fatpack: warning: {', '.join(wrong)}; see the columns exit_code and findings", quiet=quiet)
    for name in summary.unmatched:
        print_stderr(f"fatpack: warning: no file matches {name}")
    if summary.same:
        text = f"{pluralize(summary.same, 'URL')} not read: they differ from others only in what is not shown"
        print_stderr(f"fatpack: warning: {text}")
    if summary.passed:
        print_stderr(f"fatpack: note: {pluralize(summary.passed, 'file')} in folders skipped by name", quiet=quiet)
    if summary.excluded:
        print_stderr(f"fatpack: note: excluded in folders: {summary.excluded}", quiet=quiet)
    if summary.links:
        print_stderr(f"fatpack: note: {pluralize(summary.links, 'link')} in folders not followed", quiet=quiet)
    if summary.special:
        print_stderr(
            f"fatpack: note: {pluralize(summary.special, 'pipe, socket or device')} in folders not read", quiet=quiet
        )


class _Meter(StatusLine):
    """Progress of a survey, with the estimated time of its end."""

    def __init__(self, *, quiet: bool) -> None:
        super().__init__(quiet=quiet)
        self.words = ""

    def __call__(self, done: int, totals: PlanTotals) -> None:
        """Take note of the state."""
        self.words = f" ({done} of {totals.waiting} files)"
        if self.is_due():
            left = (time.monotonic() - self.start) / done * (totals.waiting - done)
            part = 100 * done // max(totals.waiting, 1)
            self.show(f"{done} of {totals.waiting} files, {part} %, {format_duration(left)} left")
