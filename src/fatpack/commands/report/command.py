"""``fatpack report``: what is in files as a page, a picture, or a text for a pull request."""

from __future__ import annotations

import os
import sys
from io import BytesIO

import click

from fatpack.command_line.command import Command
from fatpack.command_line.messages import StatusLine, SuspendedStatusLine, print_stderr
from fatpack.command_line.param_types import FILE, INPUT, ChoiceType
from fatpack.command_line.shared_options import (
    cache_option,
    check_output_name,
    force_option,
    quiet_option,
    reading_options,
)
from fatpack.errors import UsageError, pluralize
from fatpack.exit_codes import FINDINGS, worst_exit_code
from fatpack.printable import format_size, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.commands.report.model import ReportResult
    from fatpack.tabular.columns import AnyRow


@click.command("report", cls=Command)
@click.argument("paths", type=INPUT, metavar="PATH...", nargs=-1)
@click.option(
    "-o",
    "--output",
    type=FILE,
    metavar="FILE",
    help='Output file, HTML, or Markdown for a name that ends in .md; "-" is stdout.',
)
@force_option
@click.option(
    "--svg",
    type=ChoiceType(("treemap", "coverage", "costs", "bytes")),
    help="Write one picture instead: bytes by kernel, kernels by GPU, what an architecture costs, or a map of a file.",
)
@click.option("--markdown", is_flag=True, help="Write Markdown tables (for a pull request), by default to stdout.")
@click.option("--demangle", is_flag=True, help="Demangle C++ names of kernels.")
@cache_option
@reading_options
@quiet_option
def command(
    paths: tuple[str, ...],
    *,
    output: str | None,
    force: bool,
    svg: str | None,
    markdown: bool,
    demangle: bool,
    exclude: tuple[str, ...],
    deep: bool,
    quiet: bool,
) -> int:
    """Write an HTML report: where the bytes are, which kernels exist for which GPU.

    PATH is a file, a folder, a package (wheel, zip, tar, deb, rpm), a pattern in quotes or a URL. The page is one file
    that loads nothing. The exit code is that of `fatpack inspect`, and 1 if there is no device code.
    """
    check_output_name(output)
    if svg and markdown:
        raise UsageError("--svg and --markdown are two outputs", hint="run it twice")
    if not paths:
        raise UsageError("no file given", hint="fatpack report PATH... -o report.html")
    if output is not None and not svg and not markdown:
        markdown = _is_markdown(output)
    if output is None and not markdown:
        name = f"{svg}.svg" if svg else "report.html"
        raise UsageError("no output given", hint=f'fatpack report PATH... -o {name}; "-" is stdout')
    from fatpack.commands.report.request import report_files

    meter = _Meter(quiet=quiet)
    kind = "markdown" if markdown else svg or "html"
    is_shown = output in (None, "-")
    target = BytesIO() if output is None or output == "-" else output
    try:
        overview, unmatched = report_files(
            paths,
            target,
            kind=kind,
            overwrite=force,
            exclude=exclude,
            demangle=demangle,
            deep=deep,
            on_file=meter,
            allow_unmatched=True,
        )
    finally:
        meter.finish()
    if isinstance(target, BytesIO):
        with SuspendedStatusLine():  # no progress line before the first line of the report
            sys.stdout.buffer.write(target.getbuffer())
            sys.stdout.flush()
    for name in unmatched:
        print_stderr(f"fatpack: warning: no file matches {name}")
    for problem in overview.problems:
        print_stderr(f"fatpack: error: {problem}")
    for item in overview.findings:
        if item.severity == "error":
            more = f" ({item.count - 1:,} more in the report)" if item.count > 1 else ""
            print_stderr(printable(f"fatpack: error: {item.files[0]}: {item.messages[0] or item.meaning}{more}"))
    if not overview.image_count:
        print_stderr(f"fatpack: warning: {_nothing(overview)}")
    if not is_shown and output is not None:
        _tell(overview, output, quiet=quiet)
    return worst_exit_code((overview.exit_code, FINDINGS if unmatched else 0))


def _nothing(overview: ReportResult) -> str:
    """Return that there is no image, and what there is instead."""
    words = f"no device code was found in {pluralize(overview.files_read, 'file')}"
    if any(item.code == "FP2701" for item in overview.findings):
        from fatpack.tabular.image_sets import UNDECIDED

        return f"{words}: what is there is {UNDECIDED}"
    return words


def _is_markdown(output: str) -> bool:
    """Return whether an output's name asks for Markdown. Raises UsageError for a picture's: which one?"""
    ending = os.path.splitext(output)[1].lower()
    if ending == ".svg":
        raise UsageError(
            f"{output} is the name of a picture", hint="say which: --svg treemap, coverage, costs or bytes"
        )
    if ending not in ("", ".md", ".html", ".htm") and not os.path.exists(output):
        raise UsageError(
            f"{output} is no name of a page: a report is HTML or Markdown", hint="name it .html or .md, or use --svg"
        )
    return ending == ".md"


def _tell(overview: ReportResult, output: str, *, quiet: bool) -> None:
    size = format_size(os.path.getsize(output)) if os.path.isfile(output) else "written"
    images, files = pluralize(overview.image_count, "image"), pluralize(overview.files_read, "file")
    print_stderr(f"reported {files}, {images}: {output} ({size})", quiet=quiet)


class _Meter(StatusLine):
    """The number of files read, and the files that could not be read."""

    def __init__(self, *, quiet: bool) -> None:
        super().__init__(quiet=quiet)
        self._files = 0

    def __call__(self, row: AnyRow) -> None:
        """Take note of a file that was read."""
        self._files += 1
        if row.error is not None:
            self.finish()
            print_stderr(f"fatpack: error: {row.error}")
        elif self.is_due():
            self.show(f"{pluralize(self._files, 'file')} read")
