"""``fatpack help``: the commands, or what one of them takes, as ``--help`` prints it."""

from __future__ import annotations

import os
import sys

from fatpack.cli import commands
from fatpack.cli.grammar import help_page
from fatpack.cli.grammar.declared import argument, takes
from fatpack.cli.grammar.kinds import Words
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


@takes(argument("names", Words(lambda: [*commands.COMMANDS, LIMITS], given=_names), metavar="[COMMAND]", is_many=True))
def command(names: tuple[str, ...]) -> int:
    """Show what a command takes, or without a name all commands.

    `fatpack help tool NAME` shows what a stand-in takes, `fatpack help limits` the names and numbers for --limit.
    """
    if not names:
        sys.stdout.write(overview())
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
    sys.stdout.write(page(name))
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


def overview(path: str = "fatpack", width: int | None = None) -> str:
    """Return the help of the program: its commands in groups."""
    grouped = {title: {name: commands.COMMANDS[name] for name in names} for title, names in commands.GROUPS.items()}
    return help_page.overview(path, commands.DESCRIPTION, grouped, width or help_page.width())


def page(name: str, width: int | None = None) -> str:
    """Return the help of a command, with examples."""
    shown = help_page.command_page(f"fatpack {name}", commands.command(name), width or help_page.width())
    return shown + examples_of(name)


def examples_of(name: str) -> str:
    """Return the examples of a command, as its help ends."""
    from fatpack.cli.commands.examples import EXAMPLES

    return help_page.examples(EXAMPLES.get(name, ()))
