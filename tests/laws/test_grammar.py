"""The law of arguments: whatever is typed is read or refused, and what help and examples show can be typed."""

from __future__ import annotations

import random
import shlex
from collections.abc import Iterator

import click
import pytest
from tests.command_lines import parsed
from tests.effort import some

from fatpack.command_line.command import Command
from fatpack.command_line.examples import EXAMPLES
from fatpack.command_line.param_types import ChoiceListType, ChoiceType, CountType, OffsetType, SizeType
from fatpack.commands import COMMANDS, GROUPS, load_command
from fatpack.errors import FatpackError
from fatpack.tools import TOOLS

#: `tool` hands its arguments to a stand-in.
DECLARED = {name: load_command(name) for name in COMMANDS if name != "tool"}
each_command = pytest.mark.parametrize("name", DECLARED)

WORDS = ["a.o", "-", "", "libx.a(m.o)", "x=y", "häuser", "\udcff", "=", "--", "two words", "-.o"]
NO_WORDS = ["--arch", "--outp", "--quiet=1", "-=", "-qx", "---", "--=x", "-x", "--no-force", "-h", "--help", "-1"]


def _value(option: click.Option, chance: random.Random) -> str:
    """Return a text that is a value of an option, or hardly one."""
    kind = option.type
    if isinstance(kind, ChoiceType):
        return chance.choice([*kind.words, kind.words[0].upper(), kind.words[0][:-1], ""])
    if isinstance(kind, ChoiceListType):
        return chance.choice([",".join(kind.words()), "x", ""])
    if isinstance(kind, (click.types.IntParamType, CountType)):
        return chance.choice(["0", "1", "2", "3", " 2", "1_0", "-1", "+1", "٣", "1.0", "x", "", "99999999999"])
    if isinstance(kind, OffsetType):
        return chance.choice(["0", "0x1a40", "0o17", "017", "-0x1", "x", ""])
    if isinstance(kind, SizeType):
        return chance.choice(["1", "1024M", "1g", "1GB", "1.5GiB", "0", "-1", "G", "", "1X"])
    return chance.choice([*WORDS, "--force", "-q", "-h"])


def _words(declared: Command, chance: random.Random) -> Iterator[str]:
    """Yield arguments for a command: options in all their spellings between words, and now and then a mistake."""
    for _ in range(chance.randint(0, 4) if declared.options else 0):
        option = chance.choice(declared.options)
        spelling = chance.choice(option.opts)
        if option.is_flag or option.count:
            yield f"-{spelling[1] * chance.randint(1, 3)}" if len(spelling) == 2 else spelling
            continue
        text = _value(option, chance)
        joint = "=" if spelling.startswith("--") else ""
        yield from chance.choice([[spelling, text], [f"{spelling}{joint}{text}"]] if text else [[spelling, text]])
        if chance.random() < 0.05:
            yield chance.choice(NO_WORDS)
    for _ in range(chance.randint(0, len(declared.arguments) + 2)):
        yield chance.choice(WORDS)


@each_command
def test_arguments_are_read_or_refused(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    chance = random.Random(name)
    read = refused = 0
    for _ in some(range(400), 3):
        words = list(_words(DECLARED[name], chance))
        chance.shuffle(words)
        try:
            values = parsed(name, words)
        except (click.UsageError, click.exceptions.Exit, FatpackError):
            refused += 1
            continue
        read += 1
        assert values.keys() == {each.name for each in DECLARED[name].params if each.expose_value}
    assert read and refused, (read, refused)


def test_every_command_has_examples_and_a_group() -> None:
    assert EXAMPLES.keys() == COMMANDS.keys(), "command_line/examples.py: one or two uses of every command"
    grouped = [name for names in GROUPS.values() for name in names]
    assert sorted(grouped) == sorted(COMMANDS), "commands/__init__.py: GROUPS has every command once"


@pytest.mark.parametrize("words", [words for name in COMMANDS for words, _ in EXAMPLES[name]])
def test_examples_are_command_lines(words: str) -> None:
    name, *rest = shlex.split(words)
    if name == "tool" and not rest[0].startswith("--"):
        assert rest[0] in TOOLS
        return
    assert parsed(name, rest), f"click refuses: fatpack {words}"
