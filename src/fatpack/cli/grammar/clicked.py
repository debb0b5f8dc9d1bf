"""Commands as click has them: for response files, and for the words about arguments that are wrong."""

from __future__ import annotations

import click

from fatpack.cli.grammar.declared import Argument
from fatpack.cli.grammar.help_page import command_page
from fatpack.cli.grammar.kinds import Choice, Number
from fatpack.cli.grammar.plain import arranged

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from fatpack.cli.grammar.declared import Command, Option
    from fatpack.cli.grammar.kinds import Text

    Type = click.ParamType[Any]
else:
    Type = click.ParamType  # click 8.1 has no brackets here


#: Where an option chooses devices or their code.
_DEVICES = ("--arch", "--for", "--device", "--require")

#: What other tools call an option → what it is here: the first one that the command has.
_ELSEWHERE = {
    "--to": ("--format",),
    "--output-format": ("--format",),
    "--output-file": ("--output",),
    "--target": _DEVICES,
    "--targets": _DEVICES,
    "--gpu": _DEVICES,
    "--gpu-architecture": _DEVICES,
    "--offload-arch": _DEVICES,
    **dict.fromkeys(("--out-dir", "--outdir", "--output-dir", "--output-directory"), ("--directory", "--output")),
}


class Clicked(click.Command):
    """A declared command for click."""

    def __init__(self, name: str, command: Command, short_help: str | None = None, examples: str = "") -> None:
        super().__init__(
            name,
            context_settings={"ignore_unknown_options": command.forwards},
            callback=lambda **values: command(values),
            params=[_argument(each) if isinstance(each, Argument) else _option(each) for each in command.parameters],
            help=command.description,
            short_help=short_help,
            add_help_option=not command.forwards,
        )
        self.declared, self._examples = command, examples

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the arguments, of which those that count by their places are one argument's words."""
        try:
            return super().parse_args(ctx, arranged(self.declared, args))
        except click.NoSuchOption as error:
            known = {spelling for option in self.declared.options for spelling in option.spellings}
            meant = next((each for each in _ELSEWHERE.get(error.option_name, ()) if each in known), None)
            if not meant:
                raise
            text = f"No such option {error.option_name!r}. Did you mean {meant!r}?"
            raise click.NoSuchOption(error.option_name, text, ctx=error.ctx) from None

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the help that is printed without click."""
        formatter.write(command_page(ctx.command_path, self.declared, formatter.width) + self._examples)


def _argument(argument: Argument) -> click.Argument:
    nargs = -1 if argument.is_many else 1
    return click.Argument([argument.name], type=_type(argument.kind), nargs=nargs, metavar=argument.metavar)


def _option(option: Option) -> click.Option:
    how: dict[str, Any] = {"help": option.help}
    if option.takes_value:
        how |= {"type": _type(option.kind), "metavar": option.metavar, "multiple": option.use == "values"}
        how |= {"default": option.absent, "show_default": True} if option.shows_default else {}
    else:
        how |= {"count": True} if option.use == "count" else {"is_flag": True}
    return click.Option([*option.spellings, option.name], **how)


def _type(kind: Text) -> click.ParamType[Any]:
    if isinstance(kind, Choice):
        return click.Choice(kind.words)
    if isinstance(kind, Number):
        return click.IntRange(kind.low, kind.high) if kind.range else click.INT
    return Kind(kind)


class Kind(Type):
    """A kind of values for click."""

    def __init__(self, kind: Text) -> None:
        self.kind, self.name = kind, kind.name

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> object:
        """Return what a text stands for; click says what is wrong with one."""
        try:
            return self.kind.value(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)
