"""The command line as click has it: what is not plain is read here, and what is wrong gets its words here.

``fatpack.cli`` decides what comes here.
"""

from __future__ import annotations

import sys

import click

from fatpack import __version__
from fatpack.cli.commands import COMMANDS, command
from fatpack.cli.commands.examples import EXAMPLES
from fatpack.cli.commands.help import examples_of, instead_of, overview
from fatpack.cli.grammar.asked import schema_asked
from fatpack.cli.grammar.clicked import Clicked
from fatpack.cli.grammar.failures import Failures, write_failure
from fatpack.cli.grammar.help_page import HELP_SPELLINGS, WIDEST
from fatpack.cli.grammar.response_files import has_response_files, is_response_file
from fatpack.errors import UsageError
from fatpack.outcomes import USAGE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


class LazyGroup(click.Group):
    """A group whose commands are imported when they are called."""

    def invoke(self, ctx: click.Context) -> object:
        """Run the command; take a closed pipe and a signal past click's own handling of them."""
        try:
            return super().invoke(ctx)
        except (BrokenPipeError, KeyboardInterrupt) as error:
            raise PastClick(error) from error

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the command names in the order of the documentation."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return one command; None if there is none of that name."""
        if cmd_name not in COMMANDS:
            return None
        return Clicked(cmd_name, command(cmd_name), COMMANDS[cmd_name], examples_of(cmd_name))

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the overview from the table, without importing any command."""
        formatter.write(overview(ctx.command_path, formatter.width))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or say which ones come near."""
        name = args[0] if args else ""
        if name and name not in COMMANDS and not name.startswith("-") and not ctx.resilient_parsing:
            ctx.fail(f"no command {name!r}; {instead_of(name)}")
        return super().resolve_command(ctx, args)


class PastClick(Exception):
    """The reader of our output went away, or a signal came.

    click would exit with 1, which means findings here, and print an empty line.
    """

    def __init__(self, cause: BaseException) -> None:
        super().__init__()
        self.cause = cause


@click.group(
    cls=LazyGroup, context_settings={"help_option_names": list(HELP_SPELLINGS), "max_content_width": WIDEST + 2}
)
@click.version_option(__version__, message="fatpack %(version)s")
def group() -> None:
    """Behave as ``DESCRIPTION`` says."""


def expand(arguments: Sequence[str]) -> list[str]:
    """Return the arguments with ``@FILE`` replaced by the words in it; an unreadable file is an error."""
    if not has_response_files(arguments):
        return list(arguments)
    import shlex

    expanded: list[str] = []
    for at, argument in enumerate(arguments):
        if is_response_file(arguments, at):
            with open(argument[1:], encoding="utf-8", errors="surrogateescape") as file:
                text = file.read()
            if "\0" in text:
                raise UsageError(f"{argument}: holds a NUL character", hint="a response file is text, with words in it")
            try:
                expanded += shlex.split(text)
            except ValueError as error:
                raise UsageError(
                    f"{argument}: {error}", hint="a response file holds words, quoted as in a shell"
                ) from error
        else:
            expanded.append(argument)
    return expanded


def _expanded(arguments: Sequence[str]) -> list[str]:
    """Return what :func:`expand` does; what fails there is a document too, where JSON is asked for."""
    schema = _schema(arguments)
    if not schema:
        return expand(arguments)
    with Failures(schema):
        return expand(arguments)


def _schema(words: Sequence[str]) -> str:
    """Return the schema of the document that a command line asks for, "" for none."""
    return schema_asked(command(words[0]), words[1:]) if words and words[0] in COMMANDS else ""


def _example(error: click.UsageError, words: Sequence[str]) -> str:
    """Return an example as words to be added to advice; "" where there is none.

    It is one of an option whose value is missing, or of a command that takes options alone and was given a word.
    """
    examples = EXAMPLES.get(words[0], ()) if words else ()
    if isinstance(error, click.BadOptionUsage):
        uses = (use for use, _ in examples if error.option_name in use.replace("=", " ").split())
    elif examples and "unexpected extra argument" in error.message and not command(words[0]).arguments:
        uses = (use for use, _ in examples)
    else:
        return ""
    return next((f", or as in: fatpack {use}" for use in uses), "")


def run(arguments: Sequence[str]) -> int:
    """Run the command line and return its exit code."""
    words = _expanded(arguments)
    try:
        code = group.main(words or ["--help"], prog_name="fatpack", standalone_mode=False)
    except PastClick as error:
        raise error.cause from None
    except click.UsageError as error:
        # Of an option without its value, click tells the group alone.
        path = f"fatpack {words[0]}" if words and words[0] in COMMANDS else "fatpack"
        text = error.format_message()
        sys.stderr.write(f"fatpack: error: {text}\nTry '{path} --help'{_example(error, words)}.\n")
        schema = _schema(words)
        if schema:
            write_failure(schema, text, USAGE)
        return USAGE
    except click.ClickException as error:
        sys.stderr.write(f"fatpack: error: {error.format_message()}\n")
        return USAGE
    except click.exceptions.Exit as error:
        return error.exit_code
    except click.Abort as error:
        raise KeyboardInterrupt from error  # what it was before click took it
    if not words:  # of which click makes 0 up to 8.1, and 2 since
        return USAGE
    return code if isinstance(code, int) else 0
