"""The law of arguments: what is read without click is what click reads, and what is not is left to click."""

from __future__ import annotations

import random
import shlex
from collections.abc import Iterator
from typing import Any

import click
import pytest
from tests.effort import some

from fatpack.cli.commands import COMMANDS, GROUPS, command
from fatpack.cli.commands.examples import EXAMPLES
from fatpack.cli.grammar.clicked import Clicked
from fatpack.cli.grammar.declared import Command, Option
from fatpack.cli.grammar.help_page import HELP_SPELLINGS, command_page
from fatpack.cli.grammar.kinds import Choice, Number, Offset, Several, Size
from fatpack.cli.grammar.plain import parsed
from fatpack.cli.tools import TOOLS

#: `tool` reads its arguments itself.
DECLARED = {name: command(name) for name in COMMANDS if name != "tool"}
each_command = pytest.mark.parametrize("name", DECLARED)

WORDS = ["a.o", "-", "", "libx.a(m.o)", "x=y", "häuser", "\udcff", "=", "--", "two words", "-.o"]
NO_WORDS = ["--arch", "--outp", "--quiet=1", "-=", "-qx", "---", "--=x", "-x", "--no-force", "-h", "--help", "-1"]


def _values(option: Option, chance: random.Random) -> str:
    """Return a text that is a value of an option, or hardly one."""
    kind = option.kind
    if isinstance(kind, Choice):
        return chance.choice([*kind.words, kind.words[0].upper(), kind.words[0][:-1], ""])
    if isinstance(kind, Number):
        return chance.choice(["0", "1", "2", "3", " 2", "1_0", "-1", "+1", "٣", "1.0", "x", "", "99999999999"])
    if isinstance(kind, Offset):
        return chance.choice(["0", "0x1a40", "0o17", "017", "-0x1", "x", ""])
    if isinstance(kind, Size):
        return chance.choice(["1", "1024M", "1g", "1GB", "1.5GiB", "0", "-1", "G", "", "1X"])
    return chance.choice([*WORDS, "--force", "-q", "-h"])


def _words(declared: Command, chance: random.Random, *, is_plain: bool) -> Iterator[str]:
    """Yield arguments for a command: options in all their spellings between words, and now and then what is wrong."""
    for _ in range(chance.randint(0, 4) if declared.options else 0):
        option = chance.choice(declared.options)
        spelling = chance.choice(option.spellings)
        if not option.takes_value:
            yield f"-{spelling[1] * chance.randint(1, 3)}" if len(spelling) == 2 else spelling
            continue
        if isinstance(option.kind, Choice):
            text = option.kind.words[0]
        elif isinstance(option.kind, Several):
            text = ",".join(option.kind.words())
        else:
            text = "1" if is_plain else _values(option, chance)
        joint = "=" if spelling.startswith("--") else ""
        yield from chance.choice([[spelling, text], [f"{spelling}{joint}{text}"]] if text else [[spelling, text]])
        if not is_plain and chance.random() < 0.05:
            yield chance.choice(NO_WORDS)
    singles = [each for each in declared.arguments if not each.is_many]
    choices = [word for each in declared.arguments if isinstance(each.kind, Choice) for word in each.kind.words]
    plain, words = choices or ["a.o"], [*WORDS, *choices * len(WORDS)]
    count = len(singles) if is_plain else chance.randint(0, len(singles) + 1)
    for _ in range(count + (chance.randint(0, 3) if len(singles) < len(declared.arguments) else 0)):
        yield chance.choice(plain) if is_plain else chance.choice(words)


def _clicks(name: str, words: list[str]) -> dict[str, Any] | None:
    """Return what click reads; None if it reads nothing."""
    settings = {"help_option_names": list(HELP_SPELLINGS)}
    try:
        return Clicked(name, DECLARED[name]).make_context(name, list(words), **settings).params
    except (click.UsageError, click.exceptions.Exit):
        return None


@each_command
def test_what_is_read_without_click_is_what_click_reads(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    chance = random.Random(name)
    read = 0
    tries = some(range(600), 3)
    for _ in tries:
        words = list(_words(DECLARED[name], chance, is_plain=False))
        chance.shuffle(words)
        values = parsed(DECLARED[name], words)
        if values is not None:
            read += 1
            assert repr(values) == repr(_ordered(_clicks(name, words), values)), words
    assert read > len(tries) // 10, f"only {read} of {len(tries)} lines for {name} were read: the law says nothing"


def _ordered(values: dict[str, Any] | None, like: dict[str, Any]) -> dict[str, Any] | None:
    """Return values in the order of others, so that their texts can be compared: True is 1, but not the same."""
    return None if values is None else {key: values[key] for key in (*like, *(values.keys() - like.keys()))}


@each_command
def test_what_is_plain_is_read_without_click(name: str) -> None:
    chance = random.Random(name)
    for _ in range(200):
        words = list(_words(DECLARED[name], chance, is_plain=True))
        assert parsed(DECLARED[name], words) is not None, words


@each_command
@pytest.mark.parametrize("width", [50, 64, 78, 98])
def test_help_is_laid_out_as_click_does_it(name: str, width: int) -> None:
    """What stands in a terminal is what its users know of other programs, whatever their version of click."""
    made = Clicked(name, DECLARED[name])
    context = click.Context(made, info_name=f"fatpack {name}", terminal_width=width)
    context.help_option_names = list(HELP_SPELLINGS)
    formatter = context.make_formatter()
    click.Command.format_help(made, context, formatter)
    assert formatter.getvalue() == command_page(f"fatpack {name}", DECLARED[name], width)


def test_every_command_has_examples_and_a_group() -> None:
    assert EXAMPLES.keys() == COMMANDS.keys(), "cli/commands/examples.py: one or two uses of every command"
    grouped = [name for names in GROUPS.values() for name in names]
    assert sorted(grouped) == sorted(COMMANDS), "cli/commands/__init__.py: GROUPS has every command once"


@pytest.mark.parametrize("words", [words for name in COMMANDS for words, _ in EXAMPLES[name]])
def test_examples_are_command_lines(words: str) -> None:
    name, *rest = shlex.split(words)
    if name == "tool" and not rest[0].startswith("--"):
        assert rest[0] in TOOLS
        return
    assert parsed(command(name), rest) is not None, f"click would have to say what is wrong with: fatpack {words}"
