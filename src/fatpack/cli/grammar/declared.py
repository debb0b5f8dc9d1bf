"""Commands as data: what each takes is declared once, and all else is made from it.

::

    @takes(argument("host", FILE), option("--dry-run", is_flag=True, help="…"), …)
    def command(host: str, *, dry_run: bool) -> int: …

``plain`` reads arguments by it, ``help_page`` prints it, and ``clicked`` makes the command of click that says
what is wrong with arguments that ``plain`` does not take. :mod:`fatpack.cli.completing` offers its words to shells.
"""

from __future__ import annotations

import sys

from fatpack.cli.grammar.kinds import TEXT, Text
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager
    from typing import Any, Literal

    During = Callable[[Any], AbstractContextManager[object]]


class Argument(Record):
    """A word that needs no option; ``is_many`` takes all that are left, or none."""

    name: str
    kind: Text
    metavar: str
    is_many: bool


class Option(Record):
    """An option, by all its spellings; ``name`` is the parameter of the command's function.

    ``use`` tells what counts: the last ``value``, all ``values``, that it is there (``flag``), how often (``count``).
    Where it is not given, the function gets ``absent``. ``during`` makes of the value what holds while the command
    runs; then the function does not get it. One that ``is_placed`` counts by where it stands: it becomes one of the
    words of the last argument, and its value another.
    """

    spellings: tuple[str, ...]
    name: str
    kind: Text
    stated_metavar: str
    use: Literal["value", "values", "flag", "count"]
    absent: Any
    shows_default: bool
    during: During | None
    help: str
    is_placed: bool = False

    @property
    def metavar(self) -> str:
        """How help writes a value: what is stated, or what its kind says, which may have to be looked up."""
        return self.stated_metavar or self.kind.metavar

    @property
    def takes_value(self) -> bool:
        """Whether a value belongs to it, behind it or behind its ``=``."""
        return self.use in ("value", "values")

    def asks_for_json(self, value: object) -> bool:
        """Return whether a value of it, or that it is there, asks for one JSON document."""
        if self.name == "as_json":
            return bool(value)
        return value == "json" and "json" in getattr(self.kind, "words", ()) if self.takes_value else False


class Command(Record):
    """A command: the function that does it, which gets what it takes by name, and its parameters in their order.

    One that ``forwards`` leaves options that it does not know to what it calls, ``--help`` too. ``schema`` is that of
    the one JSON document that it prints, and ``schemas`` says with which options, by their names, it is another one.
    Its failures are such a document too.
    """

    run: Callable[..., int | None]
    parameters: tuple[Argument | Option, ...]
    forwards: bool
    schema: str = ""
    schemas: tuple[tuple[str, str], ...] = ()

    @property
    def arguments(self) -> list[Argument]:
        """The parameters that are no options."""
        return [each for each in self.parameters if isinstance(each, Argument)]

    @property
    def options(self) -> list[Option]:
        """The parameters that are options."""
        return [each for each in self.parameters if isinstance(each, Option)]

    @property
    def description(self) -> str:
        """What help says in front of the options."""
        return self.run.__doc__ or ""

    def __call__(self, values: Mapping[str, Any]) -> int:
        """Run the command with a value for each parameter, by name, and return the exit code."""
        if any(option.asks_for_json(values[option.name]) for option in self.options):
            from fatpack.cli.grammar.failures import Failures

            with Failures(next((schema for name, schema in self.schemas if values[name]), self.schema)):
                return self._held(values)
        return self._held(values)

    def _held(self, values: Mapping[str, Any]) -> int:
        """Run the function while what options ask for holds."""
        placed = {option.name for option in self.options if option.is_placed}
        values = {name: value for name, value in values.items() if name not in placed}
        held = [(option, values.pop(option.name)) for option in self.options if option.during]
        holding = [option.during(value) for option, value in held if option.during and value != option.absent]
        return _run_during(holding, lambda: self._run(values))

    def _run(self, values: Mapping[str, Any]) -> int:
        """Run the function; on a terminal a line says so after a while, but not of what stands in for another tool."""
        if self.forwards or not sys.stderr.isatty():
            return self.run(**values) or 0
        from fatpack.cli.messages import Waiting

        name = self.run.__module__.rpartition(".")[2].replace("_", "-")
        with Waiting(name, quiet=bool(values.get("quiet"))):
            return self.run(**values) or 0


def _run_during(holding: Sequence[AbstractContextManager[object]], run: Callable[[], int]) -> int:
    if not holding:
        return run()
    with holding[0]:
        return _run_during(holding[1:], run)


def takes(
    *parameters: Argument | Option, forwards: bool = False, schema: str = "", schemas: Mapping[str, str] | None = None
) -> Callable[[Callable[..., int | None]], Command]:
    """Return a decorator that makes a command of a function; its docstring is what help says first."""
    return lambda run: Command(run, parameters, forwards, schema, tuple((schemas or {}).items()))


def argument(name: str, kind: Text = TEXT, *, metavar: str | None = None, is_many: bool = False) -> Argument:
    """Return an argument: one word, or as many as there are."""
    return Argument(name, kind, metavar or name.upper(), is_many)


def option(
    *spellings: str,
    name: str | None = None,
    type: Text = TEXT,
    metavar: str | None = None,
    multiple: bool = False,
    is_flag: bool = False,
    count: bool = False,
    default: object = None,
    during: During | None = None,
    is_placed: bool = False,
    help: str,
) -> Option:
    """Return an option; see :class:`Option`. Without a name it has that of its long spelling, with ``_`` for ``-``.

    A default stands in the help too. Without one, a function gets None where the option is not given; of a flag False,
    of a ``count`` 0, of ``multiple`` ones ``()``.
    """
    use: Literal["value", "values", "flag", "count"] = "value"
    absent = default
    if multiple:
        use, absent = "values", ()
    elif count:
        use, absent = "count", 0
    elif is_flag:
        use, absent = "flag", False
    return Option(
        spellings=spellings,
        name=name or max(spellings, key=len).lstrip("-").replace("-", "_"),
        kind=type,
        stated_metavar=metavar or "",
        use=use,
        absent=absent,
        shows_default=default is not None,
        during=during,
        help=help,
        is_placed=is_placed,
    )
