"""Commands for click: JSON documents of failures, options that hold while a command runs, examples below the help."""

from __future__ import annotations

import os
import stat
import sys
from contextlib import ExitStack

import click

from fatpack.command_line.terminal import write_document

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from types import TracebackType
    from typing import Any, TextIO, TypeVar

    from click.shell_completion import CompletionItem

    F = TypeVar("F", bound=Callable[..., Any])


#: Settings of all commands. LIMIT: longer lines of help are hard to read.
SETTINGS: dict[str, Any] = {"help_option_names": ["-h", "--help"], "max_content_width": 100}

#: LIMIT: characters of the description beside a word on TAB: it has a line of the terminal.
_LONGEST = 70

#: Options that select devices or their code.
_DEVICES = ("--arch", "--for", "--device", "--require")

#: The name of an option in other tools → its names here: the first one that the command has.
ELSEWHERE = {
    "--to": ("--format",),
    "--output-format": ("--format",),
    "--output-file": ("--output",),
    "--target": _DEVICES,
    "--targets": _DEVICES,
    "--gpu": _DEVICES,
    "--gpus": _DEVICES,
    "--devices": _DEVICES,
    "--archs": _DEVICES,
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


def eager_flag(spellings: Sequence[str], text: str, show: Callable[[click.Context], str]) -> click.Option:
    """Return an option that prints something and exits, whatever else is given.

    Click's own (``help_option``, ``version_option``) look for translations first, which loads ``locale``.
    """

    def print_and_exit(ctx: click.Context, _: click.Parameter, value: bool) -> None:
        if value and not ctx.resilient_parsing:
            click.echo(show(ctx), color=ctx.color)
            ctx.exit()

    return click.Option(
        list(spellings), is_flag=True, is_eager=True, expose_value=False, callback=print_and_exit, help=text
    )


def help_flag() -> click.Option:
    """Return the option ``--help``."""
    return eager_flag(SETTINGS["help_option_names"], "Show this message and exit.", click.Context.get_help)


#: key of a context's ``meta``: the help explains all options of the command
WHOLE_HELP = "fatpack.whole_help"


class OptionOnPage(click.Option):
    """An option that the help of a command only names; ``fatpack help PAGE`` says what it does."""

    page = ""
    title = ""


class SharedOption(OptionOnPage):
    """An option of most commands."""

    page, title = "options", "Shared options"


class FormatOption(OptionOnPage):
    """An option for containers of one format."""

    page, title = "formats", "Options of one container format"


class ScopedOption(SharedOption):
    """A shared option whose value holds while the command runs: ``during`` makes a context manager of it.

    The function of the command does not get the value.
    """

    def __init__(self, *arguments: Any, during: Callable[[Any], AbstractContextManager[object]], **rest: Any) -> None:
        super().__init__(*arguments, **rest)
        self.during = during


class _NotLong(click.NoSuchOption):
    """A word with a single dash is no long option; raised for click's parser, which tries short ones then."""

    def __init__(self) -> None:
        Exception.__init__(self)


class Command(click.Command):
    """A command.

    ``schema`` is the schema of the JSON document that it prints with ``--json``; ``schemas`` maps options, by the names
    of their parameters, to the schema that is printed with them. A failure of a command with ``--json`` is printed as
    a document of the same schema. ``--schema`` prints it, and the function of the command is not called.
    ``row_schemas`` maps options that print rows instead of a document; a failure has the schema as without them.
    ``headings`` are headings in the list of options, by the name of the parameter that each is above. Below the
    headings of ``further``, ``--help`` only names the options; ``fatpack help NAME all`` explains them, too.
    """

    def __init__(
        self,
        *arguments: Any,
        schema: str = "",
        schemas: Mapping[str, str] | None = None,
        row_schemas: Mapping[str, str] | None = None,
        headings: Mapping[str, str] | None = None,
        further: Collection[str] = (),
        **rest: Any,
    ) -> None:
        super().__init__(*arguments, **rest)
        self.headings, self.further = dict(headings or {}), frozenset(further)
        self.schema, self.schemas, self.row_schemas = schema, dict(schemas or {}), dict(row_schemas or {})

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

    def get_help_option(self, ctx: click.Context) -> click.Option | None:
        """Return the option ``--help``; a command that runs other tools leaves it to them."""
        return help_flag() if self.add_help_option else None

    def make_parser(self, ctx: click.Context) -> Any:
        """Return click's parser; it finds short options without the cost of an error.

        click looks ``-o`` up among the long options first, catches its own error, and drops it. Its message takes a
        fifth of a bare start of Python: it loads ``difflib`` and ``locale``.
        """
        parser: Any = super().make_parser(ctx)
        match_long = parser._match_long_opt

        def match(name: str, value: str | None, state: object) -> None:
            if not name.startswith("--") and name not in parser._long_opt:
                raise _NotLong
            match_long(name, value, state)

        parser._match_long_opt = match
        return parser

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the arguments; for an option of another tool, name ours."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            known = {spelling for option in self.options for spelling in option.opts}
            # Advice for an option of another fatpack command, as for options of other tools: --arch is --for elsewhere.
            names = ELSEWHERE.get(error.option_name) or (_DEVICES if error.option_name in _DEVICES else ())
            nearest = next((each for each in names if each in known), None)
            if not nearest:
                raise
            text = f"No such option {error.option_name!r}. Did you mean {nearest!r}?"
            raise click.NoSuchOption(error.option_name, text, ctx=error.ctx) from None

    def invoke(self, ctx: click.Context) -> int:
        """Run the command and return its exit code."""
        schema = next((schema for name, schema in self.schemas.items() if ctx.params[name]), self.schema)
        if ctx.params.pop("schema", False):
            from fatpack.text.schemas import schema_text

            schema = next((schema for name, schema in self.row_schemas.items() if ctx.params[name]), schema)
            sys.stdout.write(schema_text(schema.removeprefix("fatpack.").partition("/")[0]))
            return 0
        if not any(_asks_for_json(option, ctx.params.get(option.name or "")) for option in self.options):
            schema = ""
        with ExitStack() as scope:
            if schema:
                scope.enter_context(JsonFailures(schema))
            for option in self.options:
                if isinstance(option, ScopedOption) and (value := ctx.params.pop(option.name or "")) not in (None, ()):
                    scope.enter_context(option.during(value))
            if sys.stderr.isatty() and not self.runs_other_tools:
                from fatpack.command_line.messages import WaitStatus, no_status_line
                from fatpack.concurrency.progress import ReadProgress

                if schema and _is_pipe(sys.stdout):  # whoever reads it may write to the same terminal
                    scope.enter_context(no_status_line())
                if self._count_inputs(ctx) != 1:  # nobody knows the bytes of all before each is opened
                    scope.enter_context(ReadProgress(None))
                scope.enter_context(WaitStatus(self.name or "", quiet=bool(ctx.params.get("quiet"))))
            assert self.callback is not None
            return self.callback(**ctx.params) or 0

    def _count_inputs(self, ctx: click.Context) -> int:
        """Return the number of arguments that the command was given."""
        given = [ctx.params.get(each.name or "") for each in self.arguments]
        return sum(len(value) if isinstance(value, tuple) else value is not None for value in given)

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the page: usage, description, examples, options."""
        self.format_usage(ctx, formatter)
        self.format_help_text(ctx, formatter)
        self.format_examples(formatter)
        self.format_options(ctx, formatter)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, and only the names of options that are explained on a page of their own."""
        params = [each for each in self.get_params(ctx) if isinstance(each, click.Option)]
        sections: dict[str, list[tuple[str, str]]] = {}
        further: dict[str, list[str]] = {}
        heading = "Options"
        for each in params:
            heading = self.headings.get(each.name or "", heading)
            if isinstance(each, OptionOnPage):
                continue
            if heading in self.further and not ctx.meta.get(WHOLE_HELP):
                further.setdefault(heading, []).append(max(each.opts, key=len))
                continue
            row = each.get_help_record(ctx)
            if row is not None:
                sections.setdefault(heading, []).append(row)
        for heading, rows in sections.items():
            with formatter.section(heading):
                formatter.write_dl(rows)
        if further:
            with formatter.section(f"More options, see 'fatpack help {self.name} all'"):
                left = max(map(len, further))
                for heading, names in further.items():
                    formatter.write(_wrapped(names, formatter, heading.ljust(left + 2)))
        pages: dict[str, list[str]] = {}
        for each in params:
            if isinstance(each, OptionOnPage):
                pages.setdefault(f"{each.title}, see 'fatpack help {each.page}'", []).append(max(each.opts, key=len))
        for heading, names in pages.items():
            with formatter.section(heading):
                formatter.write(_wrapped(names, formatter))

    def format_examples(self, formatter: click.HelpFormatter) -> None:
        """Write the examples."""
        from fatpack.command_line.examples import EXAMPLES

        lines = [f"  fatpack {words}\n      {what}\n" for words, what in EXAMPLES.get(self.name or "", ())]
        if lines:
            formatter.write(f"\nExamples:\n{''.join(lines)}")

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:
        """Return the options that can still be given; a short spelling only if there is no long one."""
        from click.core import ParameterSource
        from click.shell_completion import CompletionItem

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


def _wrapped(names: Sequence[str], formatter: click.HelpFormatter, title: str = "") -> str:
    """Return names in lines, the first after a title; no name is cut at its hyphen."""
    from textwrap import fill

    margin = " " * formatter.current_indent
    first, later = margin + title, margin + " " * len(title)
    lines = fill(
        " ".join(names), formatter.width, initial_indent=first, subsequent_indent=later, break_on_hyphens=False
    )
    return f"{lines}\n"


def short(text: str) -> str:
    """Return the first sentence of a text, if it is not too long for a line of a terminal."""
    text = " ".join(text.partition(". ")[0].split()).removesuffix(".")
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1].rstrip()}…"


def _asks_for_json(option: click.Option, value: object) -> bool:
    """Return True if the value of an option asks for one JSON document."""
    if option.name == "as_json":
        return bool(value)
    return value == "json" and "json" in getattr(option.type, "words", ())


def _is_pipe(stream: TextIO) -> bool:
    """Return whether a stream is a pipe to another program."""
    try:
        return stat.S_ISFIFO(os.fstat(stream.fileno()).st_mode)
    except (AttributeError, OSError, ValueError):  # a stream in memory, or none
        return False


# Failures as JSON documents: a script that asked for JSON parses what it gets, also where a command cannot begin.


def write_failure(schema: str, text: str, code: int) -> None:
    """Write the document of a command that failed before it had one of its own."""
    write_document({"schema": schema, "error": {"message": text, "exit_code": code}, "exit_code": code})


class JsonFailures:
    """While a command runs with --json: its error is written as a document too, and raised again."""

    def __init__(self, schema: str) -> None:
        self._schema = schema

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        from fatpack.errors import FatpackError

        if isinstance(error, (FatpackError, OSError)) and not isinstance(error, BrokenPipeError):
            from fatpack.exit_codes import error_message, exit_code

            write_failure(self._schema, error_message(error), exit_code(error))
