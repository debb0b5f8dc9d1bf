"""Commands for click: JSON documents of failures, options that hold while a command runs, examples below the help."""

from __future__ import annotations

import sys
from contextlib import ExitStack

import click

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from typing import Any, TypeVar

    from click.shell_completion import CompletionItem

    F = TypeVar("F", bound=Callable[..., Any])

#: Where an option chooses devices or their code.
_DEVICES = ("--arch", "--for", "--device", "--require")

#: What other tools call an option → what it is here: the first one that the command has.
ELSEWHERE = {
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


def option_group(*decorators: Callable[[F], F]) -> Callable[[F], F]:
    """Return a decorator that adds several options to a command, in this order."""

    def decorate(function: F) -> F:
        for decorator in reversed(decorators):
            function = decorator(function)
        return function

    return decorate


class ScopedOption(click.Option):
    """An option whose value holds while the command runs: ``during`` makes a context manager of it.

    The function of the command does not get the value.
    """

    def __init__(self, *arguments: Any, during: Callable[[Any], AbstractContextManager[object]], **rest: Any) -> None:
        super().__init__(*arguments, **rest)
        self.during = during


class Command(click.Command):
    """A command.

    ``schema`` is the schema of the JSON document that it prints with ``--json``; ``schemas`` maps options, by the names
    of their parameters, to the schema that is printed with them. A failure of a command with ``--json`` is printed as
    a document of the same schema.
    """

    def __init__(
        self, *arguments: Any, schema: str = "", schemas: Mapping[str, str] | None = None, **rest: Any
    ) -> None:
        super().__init__(*arguments, **rest)
        self.schema, self.schemas = schema, dict(schemas or {})

    @property
    def options(self) -> list[click.Option]:
        """The parameters that are options, without ``--help``."""
        return [each for each in self.params if isinstance(each, click.Option)]

    @property
    def arguments(self) -> list[click.Argument]:
        """The parameters that are arguments."""
        return [each for each in self.params if isinstance(each, click.Argument)]

    @property
    def runs_other_tools(self) -> bool:
        """True if unknown options belong to another tool that the command runs."""
        return bool(self.context_settings.get("ignore_unknown_options"))

    def schema_asked(self, words: Sequence[str]) -> str:
        """Return the schema of the JSON document that arguments ask for, which may be wrong ones; "" for none."""
        given = dict(self._given(words))
        if not any(_asks_for_json(option, given.get(option.name or "")) for option in self.options):
            return ""
        return next((schema for name, schema in self.schemas.items() if name in given), self.schema)

    def _given(self, words: Sequence[str]) -> Iterator[tuple[str, object]]:
        """Yield the options in arguments by the names of their parameters, each with its text, or True for a flag."""
        spelled = {spelling: option for option in self.options for spelling in option.opts}
        for at, word in enumerate(words):
            if word == "--":
                return
            spelling, equals, text = word.partition("=")
            option = spelled.get(spelling)
            if option is None:
                continue
            takes_value = not (option.is_flag or option.count)
            value = (text if equals else "".join(words[at + 1 : at + 2])) if takes_value else True
            yield option.name or "", value

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the arguments; for an option of another tool, name ours."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            known = {spelling for option in self.options for spelling in option.opts}
            meant = next((each for each in ELSEWHERE.get(error.option_name, ()) if each in known), None)
            if not meant:
                raise
            text = f"No such option {error.option_name!r}. Did you mean {meant!r}?"
            raise click.NoSuchOption(error.option_name, text, ctx=error.ctx) from None

    def invoke(self, ctx: click.Context) -> int:
        """Run the command and return its exit code."""
        schema = ""
        if any(_asks_for_json(option, ctx.params.get(option.name or "")) for option in self.options):
            schema = next((schema for name, schema in self.schemas.items() if ctx.params[name]), self.schema)
        with ExitStack() as scope:
            if schema:
                from fatpack.cli.grammar.failures import Failures

                scope.enter_context(Failures(schema))
            for option in self.options:
                if isinstance(option, ScopedOption) and (value := ctx.params.pop(option.name or "")) not in (None, ()):
                    scope.enter_context(option.during(value))
            if sys.stderr.isatty() and not self.runs_other_tools:
                from fatpack.cli.messages import Waiting

                scope.enter_context(Waiting(self.name or "", quiet=bool(ctx.params.get("quiet"))))
            return super().invoke(ctx) or 0

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples."""
        from fatpack.cli.commands.examples import EXAMPLES

        lines = [f"  fatpack {words}\n      {what}\n" for words, what in EXAMPLES.get(self.name or "", ())]
        if lines:
            formatter.write(f"\nExamples:\n{''.join(lines)}")

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:
        """Return the options that can still be given; a short spelling only if there is no long one."""
        from click.core import ParameterSource
        from click.shell_completion import CompletionItem

        from fatpack.cli.completing.shells import short

        found = []
        for option in self.get_params(ctx):
            if not isinstance(option, click.Option):
                continue
            is_given = ctx.get_parameter_source(option.name or "") is ParameterSource.COMMANDLINE
            if is_given and not (option.multiple or option.count):
                continue
            spellings = [each for each in option.opts if each.startswith("--")] or option.opts
            found += [CompletionItem(each, help=short(option.help or "")) for each in spellings]
        return [item for item in found if item.value.startswith(incomplete)]


def _asks_for_json(option: click.Option, value: object) -> bool:
    """Return True if the value of an option asks for one JSON document."""
    if option.name == "as_json":
        return bool(value)
    return value == "json" and "json" in getattr(option.type, "words", ())
