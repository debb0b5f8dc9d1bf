"""The program for click: commands that load when they are called, response files, and errors in our words."""

from __future__ import annotations

import sys

import click

from fatpack import __version__
from fatpack.command_line.command import SETTINGS, eager_flag, help_flag, short
from fatpack.commands import COMMANDS, load_command
from fatpack.errors import UsageError
from fatpack.exit_codes import USAGE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from click.shell_completion import CompletionItem

#: the option whose value @NAME is a preset, and no file
_PRESETS = "--require"


class Group(click.Group):
    """The commands, each of which is imported when it is called."""

    def get_help_option(self, ctx: click.Context) -> click.Option:
        """Return the option ``--help``."""
        return help_flag()

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the command names in the order of the documentation."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return one command; None if there is none of that name."""
        return load_command(cmd_name) if cmd_name in COMMANDS else None

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the overview from the table, without importing any command."""
        from fatpack.main.help import write_overview

        write_overview(formatter)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the options of the program, and leave the command and its words."""
        return click.Command.parse_args(self, ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or say which ones come near."""
        if not args:
            ctx.fail("Missing command.")
        name = args[0]
        if name and name not in COMMANDS and not name.startswith("-") and not ctx.resilient_parsing:
            from fatpack.main.help import suggest_command

            ctx.fail(f"no command {name!r}; {suggest_command(name)}")
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:
        """Return the commands from the table, without importing any; after a dash the options."""
        from click.shell_completion import CompletionItem

        rows = dict(COMMANDS)
        if incomplete.startswith("-"):
            rows = {"--version": "Show the version and exit.", "--help": "Show this message and exit."}
        return [CompletionItem(name, help=short(what)) for name, what in rows.items() if name.startswith(incomplete)]


_VERSION = eager_flag(["--version"], "Show the version and exit.", lambda _: f"fatpack {__version__}")

click_group = Group("fatpack", params=[_VERSION], context_settings=SETTINGS)


def expand_response_files(arguments: Sequence[str]) -> list[str]:
    """Return the arguments with ``@FILE`` replaced by the words in it; an unreadable file is an error."""
    expanded: list[str] = []
    for at, argument in enumerate(arguments):
        if argument[:1] == "@" and argument != "@" and (not at or arguments[at - 1] != _PRESETS):
            expanded += _words_of(argument)
        else:
            expanded.append(argument)
    return expanded


def _words_of(argument: str) -> list[str]:
    """Return the words of a response file."""
    import shlex

    with open(argument[1:], encoding="utf-8", errors="surrogateescape") as file:
        text = file.read()
    if "\0" in text:
        raise UsageError(f"{argument}: holds a NUL character", hint="a response file is text, with words in it")
    try:
        return shlex.split(text)
    except ValueError as error:
        raise UsageError(f"{argument}: {error}", hint="a response file holds words, quoted as in a shell") from error


def _schema(words: Sequence[str]) -> str:
    """Return the schema of the document that a command line asks for, "" for none."""
    return load_command(words[0]).schema_asked(words[1:]) if words and words[0] in COMMANDS else ""


def _example(error: click.UsageError, words: Sequence[str]) -> str:
    """Return an example as words to be added to advice; "" where there is none.

    It is one of an option whose value is missing, or of a command that takes options alone and was given a word.
    """
    from fatpack.command_line.examples import EXAMPLES

    examples = EXAMPLES.get(words[0], ()) if words else ()
    if isinstance(error, click.BadOptionUsage):
        uses = (use for use, _ in examples if error.option_name in use.replace("=", " ").split())
    elif examples and "unexpected extra argument" in error.message and not load_command(words[0]).arguments:
        uses = (use for use, _ in examples)
    else:
        return ""
    return next((f", or as in: fatpack {use}" for use in uses), "")


def run_click(arguments: Sequence[str]) -> int:
    """Run the command line and return its exit code."""
    words = list(arguments)
    if any(word.startswith("@") for word in words):
        if schema := _schema(words):
            from fatpack.command_line.command import JsonFailures

            with JsonFailures(schema):
                words = expand_response_files(words)
        else:
            words = expand_response_files(words)
    if not words:
        run_click(["--help"])
        return USAGE
    try:
        with click_group.make_context("fatpack", list(words)) as context:
            name, command, rest = click_group.resolve_command(context, context.args)
            assert command is not None
            with command.make_context(name, rest, parent=context) as command_context:
                code: int = command.invoke(command_context)
                return code
    except click.exceptions.Exit as error:
        return error.exit_code
    except click.UsageError as error:
        # Of an option without its value, click tells the group alone.
        path = f"fatpack {words[0]}" if words[0] in COMMANDS else "fatpack"
        text = error.format_message()
        sys.stderr.write(f"fatpack: error: {text}\nTry '{path} --help'{_example(error, words)}.\n")
        if schema := _schema(words):
            from fatpack.command_line.command import write_failure

            write_failure(schema, text, USAGE)
        return USAGE
