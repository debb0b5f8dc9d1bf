"""``fatpack help``: the commands, or what one of them takes, as ``--help`` prints it."""

from __future__ import annotations

import os
import sys

import click

from fatpack.cli import commands
from fatpack.cli.grammar.command import Command
from fatpack.cli.grammar.param_types import Words
from fatpack.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

#: What has no page: it goes to the stand-in, which tells of itself.
_TOOL = 2

#: What has a page and is no command.
LIMITS = "limits"


def _names(given: Mapping[str, Sequence[str]]) -> Iterable[str]:
    """Return the names that may come next: commands and the other page, and behind ``tool`` stand-ins."""
    names = given.get("names", ())
    if not names:
        return [*commands.COMMANDS, LIMITS]
    if list(names) != ["tool"]:
        return ()
    from fatpack.cli.tools import TOOLS

    return TOOLS


@click.command("help", cls=Command)
@click.argument("names", type=Words(lambda: [*commands.COMMANDS, LIMITS], given=_names), metavar="[COMMAND]", nargs=-1)
def command(names: tuple[str, ...]) -> int:
    """Show what a command takes, or without a name all commands.

    `fatpack help tool NAME` shows what a stand-in takes, `fatpack help limits` the names and numbers for --limit.
    """
    if not names:
        click.echo(page(""))
        return 0
    if names[0] == "tool" and len(names) == _TOOL:
        from fatpack.cli.tools import run

        return run([names[1], "--help"])
    if len(names) > 1:
        raise UsageError(f"{len(names)} names given, one was expected", hint=f"fatpack help {names[0]}")
    (name,) = names
    if name == LIMITS:
        sys.stdout.write(_limits())
        return 0
    if name not in commands.COMMANDS:
        raise UsageError(f"no command {name!r}", hint=instead_of(name))
    click.echo(page(name))
    return 0


def _limits() -> str:
    """Return the limits with their numbers, and how they are raised."""
    from fatpack.cli.limiting import LIMITS as bounds
    from fatpack.cli.limiting import default
    from fatpack.report.text import columns

    rows = [["limit", "default", "the most"], *([name, f"{default(name):,}", text] for name, text in bounds.items())]
    return "\n".join((*_RAISING, *columns(rows, right=(1,)), ""))


#: What is said in front of the limits.
_RAISING = (
    "--limit NAME=NUMBER allows more for a file that you trust, in one command; a number may be a size, as 8G.",
    "FATPACK_LIMITS='NAME=NUMBER NAME=NUMBER' in the environment does it for all commands and stand-ins.",
    "",
)


def instead_of(name: str) -> str:
    """Return what to type in the place of what is no command: a file, a word of other tools, a slip."""
    from difflib import get_close_matches

    if os.path.exists(name):
        from shlex import quote

        return f"fatpack inspect {quote(name)} shows what is in it"
    if name == "version":
        return "fatpack --version prints it"
    near = get_close_matches(name, commands.COMMANDS, n=1, cutoff=0.5)
    return f"did you mean {near[0]}?" if near else f"commands are {', '.join(commands.COMMANDS)}"


def write_overview(formatter: click.HelpFormatter) -> None:
    """Write the help of the program: its commands in groups."""
    formatter.write_usage("fatpack", "[OPTIONS] COMMAND [ARGS]...")
    formatter.write_paragraph()
    with formatter.indentation():
        formatter.write_text(commands.DESCRIPTION)
    with formatter.section("Options"):
        formatter.write_dl([("--version", "Show the version and exit."), ("-h, --help", "Show this message and exit.")])
    left = max(map(len, commands.COMMANDS))
    for title, names in commands.GROUPS.items():
        with formatter.section(title):
            formatter.write_dl([(name.ljust(left), commands.COMMANDS[name]) for name in names])


def page(name: str, width: int | None = None) -> str:
    """Return the help of a command, with examples, or with "" the overview."""
    from fatpack.cli.app import group

    context = click.Context(group, info_name="fatpack", terminal_width=width, **group.context_settings)
    if not name:
        return group.get_help(context)
    command = commands.command(name)
    return command.get_help(click.Context(command, parent=context, info_name=name))
