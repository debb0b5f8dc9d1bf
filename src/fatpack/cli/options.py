"""Options that several commands share, so that a flag means the same everywhere."""

from __future__ import annotations

import sys
import time

import click

from fatpack.cli.completion import FORM, OFFLOAD, TARGET
from fatpack.errors import UsageError, counted
from fatpack.io.limits import Budget, opened_with
from fatpack.ops.choose.select import Selector
from fatpack.report.text import printable, size_words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any, TypeVar

    from fatpack.model import Finding

    Command = TypeVar("Command", bound=Callable[..., Any])


def selector_options(command: Command) -> Command:
    """Add the selectors; the command takes them as ``**selectors`` for :func:`selector`."""
    options = (
        click.option(
            "--arch",
            multiple=True,
            type=TARGET,
            metavar="PATTERN,…",
            help="Architecture: sm_90, sm_80,sm_90, compute_90 (PTX), 'sm_9*', or '!sm_90' for any other. "
            "Repeatable, as the next three.",
        ),
        click.option("--triple", multiple=True, metavar="PATTERN,…", help="Target triple."),
        click.option(
            "--offload",
            multiple=True,
            type=OFFLOAD,
            metavar="PATTERN,…",
            help="Offload model: cuda, hip, openmp, sycl.",
        ),
        click.option(
            "--form",
            multiple=True,
            type=FORM,
            metavar="PATTERN,…",
            help="What the image is: cubin, ptx, bitcode, …",
        ),
        click.option("--kernel", metavar="REGEX", help="Images with a kernel whose name matches (5 s per image)."),
        click.option("--container", type=click.IntRange(0), metavar="N", help="The N-th container, from 0."),
        click.option("--index", type=click.IntRange(0), metavar="M", help="The M-th image of its container, from 0."),
        click.option(
            "--id",
            multiple=True,
            metavar="BUNDLE-ID",
            help="Per container: the image with this ID, else a compatible one. Repeatable.",
        ),
        click.option("--hip-openmp", is_flag=True, help="With --id: treat HIP and OpenMP IDs as equal."),
    )
    for option in reversed(options):
        command = option(command)
    return command


def selector(selectors: dict[str, Any]) -> Selector:
    """Return the selector that the shared options describe."""
    return Selector(**selectors)


def _raise_limits(context: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> None:
    """Raise limits until the command ends."""
    if values and not context.resilient_parsing:
        from fatpack.cli.limiting import Limits

        context.with_resource(Limits(values))


def _size(context: click.Context, parameter: click.Parameter, value: str | None) -> None:
    """Give the files of a command the budget that a size asks for."""
    if value is None:
        return
    factor = {"K": 10, "M": 20, "G": 30}.get(value[-1:].upper())
    digits = value if factor is None else value[:-1]
    if not (digits.isascii() and digits.isdecimal() and len(digits) < 19 and int(digits)):
        raise click.BadParameter(f"{value!r} is no size; write 1073741824, 1024M or 1G")
    context.with_resource(opened_with(Budget(int(digits) << (factor or 0))))


max_inflated_option = click.option(
    "--max-inflated",
    callback=_size,
    expose_value=False,
    metavar="SIZE",
    help="What one compressed container or image may inflate to, as 1G. Default: see --limit inflated-ratio.",
)
deep_option = click.option("--deep", is_flag=True, help="Search the host's own code and data too.")
limit_option = click.option(
    "--limit",
    multiple=True,
    callback=_raise_limits,
    expose_value=False,
    metavar="NAME=NUMBER",
    help="Allow more than usual, for a file that you trust. Errors name the limits; docs/cli.md lists them.",
)
#: An output that already exists is refused without this.
force_option = click.option("--force", "-f", is_flag=True, help="Overwrite outputs that exist.")
quiet_option = click.option("--quiet", "-q", is_flag=True, help="Print only errors.")


def say(text: str, *, quiet: bool = False) -> None:
    """Print a message for the user on stderr."""
    if not quiet:
        click.echo(printable(text), err=True)


def check_name(output: str | None) -> None:
    """Raise UsageError for an output whose name is empty, as a script's unset variable makes it."""
    if output == "":
        raise UsageError("the output has no name", hint='name it with -o; "-" is stdout')


def warn(findings: Iterable[Finding], *, quiet: bool = False) -> None:
    """Print findings on stderr, each once: notes as such, all others as warnings, for they stop nothing."""
    lines = []
    for item in findings:
        place = f"{item.span.source[0]}: " if item.span.source else ""
        lines.append(f"fatpack: {'note' if item.severity == 'note' else 'warning'} {item.code}: {place}{item.text}")
    for line in dict.fromkeys(lines):
        say(line, quiet=quiet)


#: So many files of killed runs are named.
_NAMED = 4


def tell_abandoned(folder: str, *, quiet: bool = False) -> None:
    """Say which temporary files killed runs left in the folder of an output, and what removes them."""
    from fatpack.io.abandoned import abandoned

    found = [] if quiet else abandoned(folder)
    if found:
        from shlex import quote

        total = size_words(sum(size for _, size in found))
        names = " ".join(quote(path if path.startswith("/") else f"./{path}") for path, _ in found[:_NAMED])
        say(
            f"fatpack: note: {folder or 'this folder'} has {counted(len(found), 'unfinished file')} of runs that were "
            f"killed ({total}); no command uses {'it' if len(found) == 1 else 'them'} any more: rm {names}"
        )


class Meter:
    """Progress of a long copy: on a terminal's stderr only, after one second, gone when finished."""

    #: seconds before anything is shown; whoever waits less needs no meter
    PATIENCE = 1.0

    def __init__(self, total: int, what: str, *, quiet: bool = False) -> None:
        self._total, self._what = max(total, 1), what
        self._done = 0
        self._start = time.monotonic()
        self._shown = False
        self._on = not quiet and sys.stderr.isatty()

    def __call__(self, size: int) -> None:
        """Count bytes that were written."""
        self._done += size
        if self._on and time.monotonic() - self._start >= self.PATIENCE:
            self._shown = True
            sys.stderr.write(f"\r{self._what} {min(100, 100 * self._done // self._total):3d} %\x1b[K")
            sys.stderr.flush()

    def finish(self) -> None:
        """Remove the meter's line."""
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
            self._shown = False
