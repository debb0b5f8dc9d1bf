"""``fatpack help``: the commands, the options that they share, the limits, or one command as ``--help`` prints it."""

from __future__ import annotations

import os
import sys

import click

from fatpack import commands
from fatpack.command_line.command import SETTINGS, WHOLE_HELP, Command
from fatpack.command_line.param_types import SuggestionType
from fatpack.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

#: number of names in ``help tool NAME`` and ``help NAME all``
_TWO = 2

#: Pages that are no commands.
PAGES = ("commands", "options", "formats", "limits")

_HELP = ("-h, --help", "Show this message and exit.")

#: Further commands, at the end of `fatpack --help`.
_MORE = [
    ("fatpack COMMAND --help", "examples and options of a command"),
    ("fatpack help commands", "all commands"),
    ("fatpack help options", "options that most commands share"),
]

_EXIT_CODES = "Exit codes: 0 fine, 1 findings, 2 usage, 3 damaged input, 4 unsupported, 5 input/output error."


def _names(given: Mapping[str, Sequence[str]]) -> Iterable[str]:
    """Return the names that may come next: commands and pages, and after ``tool`` stand-ins."""
    names = given.get("names", ())
    if not names:
        return [*commands.COMMANDS, *PAGES]
    if list(names) != ["tool"]:
        return ()
    from fatpack.tools import TOOLS

    return TOOLS


@click.command("help", cls=Command)
@click.argument(
    "names", type=SuggestionType(lambda: [*commands.COMMANDS, *PAGES], given=_names), metavar="[NAME]", nargs=-1
)
def command(names: tuple[str, ...]) -> int:
    """Show the help of a command, or a page: commands, options (shared), formats (of pack and convert), limits.

    Of commands with many options, --help explains the usual ones; `fatpack help slim all` explains all.
    """
    if not names:
        click.echo(command_help(""))
        return 0
    if names[0] == "tool" and len(names) == _TWO:
        from fatpack.tools import run_stand_in

        return run_stand_in([names[1], "--help"])
    is_whole = len(names) == _TWO and names[1] == "all" and names[0] in commands.COMMANDS
    if len(names) > 1 and not is_whole:
        raise UsageError(f"{len(names)} names given, one was expected", hint=f"fatpack help {names[0]}")
    name = names[0]
    if name in PAGES:
        sys.stdout.write(_PAGE_TEXTS[name]())
        return 0
    if name not in commands.COMMANDS:
        raise UsageError(f"no command {name!r}", hint=suggest_command(name))
    click.echo(command_help(name, is_whole=is_whole))
    return 0


def _limits() -> str:
    """Return the limits with their numbers, and how they are raised."""
    from fatpack.command_line.shared_options import LIMITS as bounds
    from fatpack.command_line.shared_options import current_limit
    from fatpack.text.style import align_columns

    rows = [
        ["limit", "default", "the most"],
        *([name, f"{current_limit(name):,}", text] for name, text in bounds.items()),
    ]
    return "\n".join((*_RAISING, *align_columns(rows, right=(1,)), ""))


#: The text in front of the limits.
_RAISING = (
    "--limit NAME=NUMBER raises a limit for one command, for a file that you trust; a number may be a size, as 8G.",
    "FATPACK_LIMITS='NAME=NUMBER NAME=NUMBER' in the environment does it for all commands and stand-ins.",
    "",
)


def suggest_command(name: str) -> str:
    """Return the advice for a name that is no command: a file, a word of other tools, a slip."""
    from difflib import get_close_matches

    if os.path.exists(name):
        from shlex import quote

        return f"fatpack inspect {quote(name)} shows what is in it"
    if name == "version":
        return "fatpack --version prints it"
    if name in PAGES:
        return f"fatpack help {name} prints them"
    if name in commands.SYNONYMS:
        return f"did you mean {commands.SYNONYMS[name]}?"
    near = get_close_matches(name, commands.COMMANDS, n=1, cutoff=0.5)
    return f"did you mean {near[0]}?" if near else "fatpack help commands lists all commands"


def write_overview(formatter: click.HelpFormatter) -> None:
    """Write the help of the program: the main commands on one screen."""
    formatter.write_usage("fatpack", "[OPTIONS] COMMAND [ARGS]...")
    formatter.write_paragraph()
    with formatter.indentation():
        formatter.write_text(commands.DESCRIPTION)
    with formatter.section("Commands"):
        formatter.write_dl([(name, commands.COMMANDS[name]) for name in commands.MAIN])
    with formatter.section("More"):
        formatter.write_dl([*_MORE, ("--version, -h, --help", "the version, this help")])
    formatter.write_paragraph()
    formatter.write_text(_EXIT_CODES)


def _formatter(width: int | None = None) -> click.HelpFormatter:
    return click.Context(command, terminal_width=width, **SETTINGS).make_formatter()


def all_commands(width: int | None = None) -> str:
    """Return all commands in groups, each with a line."""
    formatter = _formatter(width)
    left = max(map(len, commands.COMMANDS))
    for title, names in commands.GROUPS.items():
        with formatter.section(title):
            formatter.write_dl([(name.ljust(left), commands.COMMANDS[name]) for name in names])
    return formatter.getvalue().lstrip("\n")


def shared_options(width: int | None = None) -> str:
    """Return the options that most commands share, each with all that it does."""
    from fatpack.command_line import shared_options as declared

    formatter = _formatter(width)
    formatter.write_text("Options that most commands share. The help of each command lists the ones it has.")
    formatter.write_paragraph()
    context = click.Context(command)
    rows = [option.get_help_record(context) for option in declared.shared()]
    with formatter.section("Options"):
        formatter.write_dl([row for row in rows if row is not None])
    formatter.write_paragraph()
    for text in _CONVENTIONS:
        formatter.write_text(text)
    return formatter.getvalue()


def format_options(width: int | None = None) -> str:
    """Return the options of ``pack`` and ``convert`` that are for containers of one format."""
    from fatpack.command_line.command import FormatOption

    formatter = _formatter(width)
    formatter.write_text("Options of pack and convert for containers of one format.")
    formatter.write_paragraph()
    context = click.Context(command)
    declared = commands.load_command("convert").options
    rows = [option.get_help_record(context) for option in declared if isinstance(option, FormatOption)]
    with formatter.section("Options"):
        formatter.write_dl([row for row in rows if row is not None])
    return formatter.getvalue()


#: Conventions of all commands.
_CONVENTIONS = (
    'Results go to stdout, messages to stderr. "-" is stdin or stdout. "@FILE" is replaced by the words in FILE.',
    "Sizes: 850MB is 850 × 10^6 bytes, 800MiB and 800M are 800 × 2^20. 'fatpack help limits' lists the names and "
    "numbers for --limit.",
)


def command_help(name: str, width: int | None = None, *, is_whole: bool = False) -> str:
    """Return the help of a command, with examples, or with "" the overview; ``is_whole`` explains all its options."""
    if name:
        shown = commands.load_command(name)
        context = click.Context(shown, info_name=f"fatpack {name}", terminal_width=width, **SETTINGS)
        context.meta[WHOLE_HELP] = is_whole
        return shown.get_help(context)
    formatter = _formatter(width)
    write_overview(formatter)
    return formatter.getvalue().rstrip("\n")


#: page → its text
_PAGE_TEXTS = {"commands": all_commands, "options": shared_options, "formats": format_options, "limits": _limits}
