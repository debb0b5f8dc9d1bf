"""What the commands that edit a host share: where the result goes."""

from __future__ import annotations

import os

import click

from fatpack.cli.completion import FILE
from fatpack.cli.options import Meter, check_name, force_option, say, tell_abandoned
from fatpack.cli.reporting import report
from fatpack.errors import UsageError
from fatpack.io.sink import write_pieces
from fatpack.ops.edit.editor import write_edited
from fatpack.ops.edit.embed import container_damage
from fatpack.ops.edit.in_place import write_in_place
from fatpack.record import Record
from fatpack.report.problems import FINE, code_of
from fatpack.report.text import size_words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any, TypeVar

    from fatpack.io.source import Piece, View

    Command = TypeVar("Command", bound=Callable[..., Any])


class Destination(Record):
    """Where an edited host goes, as the options say."""

    output: str | None
    in_place: bool
    break_links: bool
    force: bool


def output_options(command: Command) -> Command:
    """Add -o, --in-place, --break-links and --force."""
    options = (
        click.option("-o", "--output", type=FILE, help='Where to write the edited object; "-" is stdout.'),
        click.option("--in-place", is_flag=True, help="Change HOST itself, after the result was verified."),
        click.option(
            "--break-links",
            is_flag=True,
            help="With --in-place: other names of HOST (hard links) keep the old file.",
        ),
        force_option,
    )
    for option in reversed(options):
        command = option(command)
    return command


def check_output(host: str, to: Destination) -> None:
    """Raise UsageError unless the options name exactly one place to write; called before any work is done."""
    check_name(to.output)
    if to.in_place and host == "-":
        raise UsageError("--in-place needs a file, and - is standard input")
    if to.in_place and to.output is not None:
        raise UsageError("-o and --in-place exclude each other")
    if to.break_links and not to.in_place:
        raise UsageError("--break-links goes with --in-place", hint="a new file has no other names")
    if not to.in_place and to.output is None:
        raise UsageError("say where to write", hint="-o FILE for a copy, or --in-place to change the host itself")


def refused(path: str, content: View, *, force: bool) -> int:
    """Print what is damaged in the container that is to go into a host; return the exit code if that refuses it.

    With ``force`` nothing is refused.
    """
    damage = container_damage(content)
    report(path, damage)
    if not damage or force:
        return FINE
    say(f"fatpack: {path}: nothing was written; --force puts it in as it is")
    return code_of((item.severity, item.code) for item in damage)


def write_result(
    host: View,
    path: str,
    pieces: Iterable[Piece],
    to: Destination,
    *,
    quiet: bool,
    inputs: Sequence[View] = (),
    done: Sequence[str] = (),
) -> int:
    """Write a host, opened from ``path`` and edited, where the options say; return the exit code.

    The files of ``inputs``, what goes into the host, are never written over. The lines of ``done`` tell what was done,
    and so only when it is.
    """
    if to.output == "-":
        write_pieces(1, pieces)
        for line in done:
            say(line, quiet=quiet)
        return FINE
    target = path if to.output is None else to.output
    tell_abandoned(os.path.dirname(target), quiet=quiet)
    meter = Meter(len(host), f"writing {target}", quiet=quiet)
    how = ""
    try:
        if to.in_place:
            edit = write_in_place(host, pieces, path, break_links=to.break_links, progress=meter)
            size = edit.size
            how = ", the whole file anew" if edit.added is None else f", of which {size_words(edit.added)} were added"
        else:
            size = write_edited(host, pieces, target, force=to.force, inputs=inputs, progress=meter)
    finally:
        meter.finish()
    for line in done:
        say(line, quiet=quiet)
    say(f"wrote {target}: {size_words(size)}{how}", quiet=quiet)
    return FINE
