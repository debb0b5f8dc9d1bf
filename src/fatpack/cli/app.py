"""The click group: commands are imported when they are called, so one command never pays for another."""

from __future__ import annotations

import os
import sys
from importlib import import_module

import click

from fatpack import __version__
from fatpack.errors import UsageError
from fatpack.report.problems import USAGE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

#: command, which is a module of ``fatpack.cli.commands`` → one line for the overview
COMMANDS = {
    "pack": "Pack device images into a container, or straight into a host object.",
    "extract": "Extract device images from any supported file.",
    "inspect": "Show hosts, containers, images and kernels, with sizes, offsets and findings.",
    "convert": "Convert between container formats without losing anything.",
    "embed": "Put a finished container into a copy of an object.",
    "remove": "Remove device code, or the selected images, from an object, archive or container.",
    "replace": "Replace the device code of an object.",
    "targets": "Explain a triple, architecture or device name, or list all names.",
    "tool": "Behave as another tool; without a name, list them.",
}


class LazyGroup(click.Group):
    """A group whose commands live in modules of their names under ``fatpack.cli.commands``."""

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
        command: click.Command = import_module(f"fatpack.cli.commands.{cmd_name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the overview from the table, without importing any command."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or say which ones come near."""
        name = args[0] if args else ""
        if name and name not in COMMANDS and not name.startswith("-") and not ctx.resilient_parsing:
            from difflib import get_close_matches

            near = get_close_matches(name, COMMANDS, n=1, cutoff=0.5)
            hint = f"did you mean {near[0]}?" if near else f"commands are {', '.join(COMMANDS)}"
            ctx.fail(f"no command {name!r}; {hint}")
        return super().resolve_command(ctx, args)


class PastClick(Exception):
    """The reader of our output went away, or a signal came.

    click would exit with 1, which means findings here, and print an empty line.
    """

    def __init__(self, cause: BaseException) -> None:
        super().__init__()
        self.cause = cause


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, message="fatpack %(version)s")
def group() -> None:
    """Pack, inspect, extract and edit the files in which GPU device code travels.

    Results go to stdout, messages to stderr. "-" is stdin or stdout; "@FILE" is a file with more arguments. Exit codes:
    0 fine, 1 findings or nothing matched, 2 usage, 3 malformed input, 4 unsupported, 5 input/output error.
    """


def expand(arguments: Sequence[str]) -> list[str]:
    """Return the arguments with ``@FILE`` replaced by the words in it; an unreadable file is an error."""
    if not any(argument.startswith("@") for argument in arguments):
        return list(arguments)
    import shlex

    expanded: list[str] = []
    for argument in arguments:
        if argument.startswith("@") and len(argument) > 1:
            with open(argument[1:], encoding="utf-8", errors="surrogateescape") as file:
                text = file.read()
            try:
                expanded += shlex.split(text)
            except ValueError as error:
                raise UsageError(
                    f"{argument}: {error}", hint="a response file holds words, quoted as in a shell"
                ) from error
        else:
            expanded.append(argument)
    return expanded


def run(arguments: Sequence[str]) -> int:
    """Run the command line and return its exit code."""
    if "_FATPACK_COMPLETE" in os.environ:
        import fatpack.cli.bash_completion  # noqa: F401  (registers itself with click)
    try:
        code = group.main(expand(arguments), prog_name="fatpack", standalone_mode=False)
    except PastClick as error:
        raise error.cause from None
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        return USAGE
    except click.UsageError as error:
        command = error.ctx.command_path if error.ctx else "fatpack"
        sys.stderr.write(f"fatpack: error: {error.format_message()}\nTry '{command} --help'.\n")
        return USAGE
    except click.ClickException as error:
        sys.stderr.write(f"fatpack: error: {error.format_message()}\n")
        return USAGE
    except click.exceptions.Exit as error:
        return error.exit_code
    except click.Abort as error:
        raise KeyboardInterrupt from error  # what it was before click took it
    return code if isinstance(code, int) else 0
