"""Option parsing as LLVM's ``cl`` library does it: one dash or two, ``=value`` or the next word, its error texts.

Source: behaviour of the LLVM 22 tools; ``llvm/lib/Support/CommandLine.cpp``.
"""

from __future__ import annotations

import os
import sys

from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


class Option(Record):
    """An option: ``kind`` is ``string`` (the last one counts), ``list`` (all count) or ``flag``."""

    name: str
    kind: str
    help: str
    value: str = ""

    @property
    def spelled(self) -> str:
        """The option with its dashes: one for one letter, two for a word."""
        return f"-{self.name}" if len(self.name) == 1 else f"--{self.name}"


class Parsed(Record):
    """What was given: option values by name (flags: "1"), and the positional arguments."""

    values: dict[str, list[str]]
    positional: list[str]

    def last(self, name: str) -> str:
        """Return the last value of an option, "" if it was not given."""
        return (self.values.get(name) or [""])[-1]


class CommandLineError(Exception):
    """A wrong command line; ``lines`` are what LLVM prints."""

    def __init__(self, lines: Sequence[str]) -> None:
        super().__init__("\n".join(lines))
        self.lines = tuple(lines)


_TRUE, _FALSE = ("", "true", "TRUE", "True", "1"), ("false", "FALSE", "False", "0")


def expand_response_files(arguments: Sequence[str], depth: int = 20) -> list[str]:
    """Return the arguments with every ``@FILE`` replaced by the words in it; those that are no files stay."""
    expanded: list[str] = []
    for argument in arguments:
        if not argument.startswith("@") or depth <= 0 or not os.path.isfile(argument[1:]):
            expanded.append(argument)
            continue
        with open(argument[1:], encoding="utf-8", errors="surrogateescape") as file:
            expanded += expand_response_files(_split(file.read()), depth - 1)
    return expanded


def _split(text: str) -> list[str]:
    import shlex

    try:
        return shlex.split(text)
    except ValueError:
        # LLVM's tokenizer takes the rest of the file for the last word.
        return text.split()


def parse(arguments: Sequence[str], options: Sequence[Option], *, most_positional: int, program: str) -> Parsed:
    """Return the parsed command line. Raises CommandLineError with LLVM's words for everything wrong in it."""
    known = {option.name: option for option in options}
    values: dict[str, list[str]] = {}
    positional: list[str] = []
    errors: list[str] = []
    words = iter(arguments)
    for word in words:
        if word == "--":
            positional += words
            break
        if word in ("-", "") or not word.startswith("-"):
            positional.append(word)
            continue
        name, equals, value = word[2 if word.startswith("--") else 1 :].partition("=")
        option = known.get(name)
        if option is None:
            errors += _unknown(word, name, f"{equals}{value}", options, program)
            continue
        if option.kind == "flag":
            if value not in (*_TRUE, *_FALSE):
                text = f"'{value}' is invalid value for boolean argument! Try 0 or 1"
                errors.append(f"for the {option.spelled} option: {text}")
            values.setdefault(name, []).append("1" if value in _TRUE else "")
            continue
        if not equals:
            following = next(words, None)
            if following is None:
                errors.append(f"for the {option.spelled} option: requires a value!")
                continue
            value = following
        values.setdefault(name, []).append(value)
    if len(positional) > most_positional:
        errors.append("Too many positional arguments specified!")
        errors.append(f"Can specify at most {most_positional} positional arguments: See: {program} --help")
    if errors and not values.get("help"):
        raise CommandLineError(errors)
    return Parsed(values, positional)


def _unknown(word: str, name: str, value: str, options: Sequence[Option], program: str) -> list[str]:
    """Return LLVM's complaints about an option it does not know, with its guess."""
    errors = []
    letter = next((option for option in options if option.name == name[:1]), None)
    if letter is not None and not word.startswith("--"):
        errors.append(f"for the {letter.spelled} option: may not occur within a group!")
    best = min(options, key=lambda option: _distance(name, option.name))
    errors.append(f"Unknown command line argument '{word}'.  Try: '{program} --help'")
    guess = best.name + (value if best.kind != "flag" else "")
    errors.append(f"Did you mean '{'-' if len(guess) == 1 else '--'}{guess}'?")
    return errors


def _distance(left: str, right: str) -> int:
    """Return the edit distance of two words."""
    row = list(range(len(right) + 1))
    for i, a in enumerate(left, 1):
        previous, row[0] = row[0], i
        for j, b in enumerate(right, 1):
            previous, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, previous + (a != b))
    return row[-1]


def report(error: CommandLineError, program: str) -> int:
    """Print a wrong command line as LLVM does and return the exit code."""
    name = program.rpartition("/")[2]
    for line in error.lines:
        # QUIRK(LLVM cl): the second line about positional arguments has no prefix.
        sys.stderr.write(line if line.startswith("Can specify") else f"{name}: {line}")
        sys.stderr.write("\n")
    return 1
