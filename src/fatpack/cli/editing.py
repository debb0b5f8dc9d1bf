"""What the commands that edit a host share: where the result goes."""

from __future__ import annotations

import os

import click

from fatpack.cli.options import Meter, check_name, force_option, say, tell_abandoned
from fatpack.errors import UsageError
from fatpack.io.sink import write_pieces
from fatpack.ops.edit.editor import write_edited
from fatpack.report.problems import FINE
from fatpack.report.text import size_words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any, TypeVar

    from fatpack.io.source import Piece, View

    Command = TypeVar("Command", bound=Callable[..., Any])


def output_options(command: Command) -> Command:
    """Add -o, --in-place and --force."""
    options = (
        click.option("-o", "--output", metavar="FILE", help='Where to write the edited object; "-" is stdout.'),
        click.option("--in-place", is_flag=True, help="Change HOST itself, after the result was verified."),
        force_option,
    )
    for option in reversed(options):
        command = option(command)
    return command


def check_output(host: str, output: str | None, *, in_place: bool) -> None:
    """Raise UsageError unless the options name exactly one place to write; called before any work is done."""
    check_name(output)
    if in_place and host == "-":
        raise UsageError("--in-place needs a file, and - is standard input")
    if in_place and output is not None:
        raise UsageError("-o and --in-place exclude each other")
    if not in_place and output is None:
        raise UsageError("say where to write", hint="-o FILE for a copy, or --in-place to change the host itself")


def write_result(
    host: View,
    path: str,
    pieces: Iterable[Piece],
    output: str | None,
    *,
    in_place: bool,
    force: bool,
    quiet: bool,
    inputs: Sequence[View] = (),
    done: Sequence[str] = (),
) -> int:
    """Write a host, opened from ``path`` and edited, where the options say; return the exit code.

    The files of ``inputs``, what goes into the host, are never written over. The lines of ``done`` tell what was done,
    and so only when it is.
    """
    if output == "-":
        write_pieces(1, pieces)
        for line in done:
            say(line, quiet=quiet)
        return FINE
    target = path if output is None else output
    tell_abandoned(os.path.dirname(target), quiet=quiet)
    meter = Meter(len(host), f"writing {target}", quiet=quiet)
    try:
        size = write_edited(host, pieces, target, force=force, in_place=in_place, inputs=inputs, progress=meter)
    finally:
        meter.finish()
    for line in done:
        say(line, quiet=quiet)
    say(f"wrote {target}: {size_words(size)}", quiet=quiet)
    return FINE
