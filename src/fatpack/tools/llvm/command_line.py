"""Option parsing as LLVM's ``cl`` library does it: one dash or two, ``=value`` or the next word, its error texts.

Source: behaviour of the LLVM 22 tools; ``llvm/lib/Support/CommandLine.cpp``.
"""

from __future__ import annotations

import os
import sys

from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


class ClOption(Record):
    """An option that takes a value, or none.

    ``kind`` is ``string``, ``uint`` or ``int`` (the last one counts), ``list`` (all count), ``commas`` (all count, each
    a list itself), ``choice`` (one of ``choices``, which are names and help texts), ``flag``, or ``switch``: one that
    takes no value and ends the reading of the command line, such as ``--help``. ``is_hidden`` ones are not guessed, but
    for aliases of another option, ``alias_of``.
    """

    name: str
    kind: str
    help: str
    value: str = ""
    is_required: bool = False
    is_hidden: bool = False
    choices: tuple[tuple[str, str], ...] = ()
    alias_of: str = ""

    @property
    def spelled(self) -> str:
        """The option with its dashes: one for one letter, two for a word."""
        return f"-{self.name}" if len(self.name) == 1 else f"--{self.name}"


class ClArguments(Record):
    """A parsed command line: option values by name (flags: "1"), and the positional arguments.

    ``switch`` is the switch that ended the reading, "" for none; ``complaints`` are what was wrong before it. ``order``
    has all words as they were given: options by name and value, and positional arguments with "" for a name.
    """

    values: dict[str, list[str]]
    positional: list[str]
    switch: str = ""
    complaints: tuple[str, ...] = ()
    order: tuple[tuple[str, str], ...] = ()

    def last(self, name: str) -> str:
        """Return the last value of an option, "" if it was not given."""
        return (self.values.get(name) or [""])[-1]


class ClError(Exception):
    """A wrong command line; ``lines`` are what LLVM prints."""

    def __init__(self, lines: Sequence[str]) -> None:
        super().__init__("\n".join(lines))
        self.lines = tuple(lines)


_TRUE, _FALSE = ("", "true", "TRUE", "True", "1"), ("false", "FALSE", "False", "0")


def expand_response_files(arguments: Sequence[str], within: tuple[str, ...] = ()) -> list[str]:
    """Return the arguments with every ``@FILE`` replaced by the words in it; it stays if there is no such file.

    ``within`` are the files that are being read. Raises ClError for one that names itself, and for one that
    cannot be read: LLVM prints the same of the first, and crashes after it.
    """
    expanded: list[str] = []
    for argument in arguments:
        path = argument[1:]
        if not argument.startswith("@") or not os.path.exists(path) or os.path.isdir(path):
            expanded.append(argument)
            continue
        if os.path.realpath(path) in within:
            raise ClError([f"recursive expansion of: '{os.path.abspath(path)}'"])
        try:
            with open(path, "rb") as file:
                text = _decoded(file.read())
        except OSError as error:
            raise ClError([f"cannot open file '{path}': {error.strerror}"]) from error
        expanded += expand_response_files(_words(text), (*within, os.path.realpath(path)))
    return expanded


def _decoded(data: bytes) -> str:
    """Return the text of a response file, without the mark that says how it is encoded."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16", "replace")
    return data.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "surrogateescape")


def _words(text: str) -> list[str]:
    """Return the words of a response file.

    A backslash keeps the next character from meaning anything, in quotes of either kind too; a quote that is not closed
    ends with the file; what is empty is no word, and a NUL ends one. Source: ``cl::TokenizeGNUCommandLine``, LLVM 22.
    """
    words: list[str] = []
    word = quote = ""
    characters = iter(text)
    for character in characters:
        if character == "\\":
            word += next(characters, "\\")
        elif quote:
            quote, word = ("", word) if character == quote else (quote, word + character)
        elif character in "\"'":
            quote = character
        elif character not in " \t\r\n":
            word += character
        else:
            words.append(word)
            word = ""
    words.append(word)
    return [each.partition("\0")[0] for each in words if each]


#: The most words of a command line that takes any number of them.
ANY_NUMBER = 1 << 30


def parse_cl(
    arguments: Sequence[str],
    options: Sequence[ClOption],
    *,
    most_positional: int,
    program: str,
    least_positional: int = 0,
) -> ClArguments:
    """Return the parsed command line. Raises ClError with LLVM's words for everything wrong in it."""
    reader = _ClParser(options, most_positional, program)
    reader.read(iter(arguments))
    values, positional, errors = reader.values, reader.positional, reader.errors
    if reader.switch:
        return ClArguments(values, positional, reader.switch, tuple(errors))
    if len(positional) > most_positional > 0:
        errors.append("Too many positional arguments specified!")
        errors.append(f"Can specify at most {most_positional} positional arguments: See: {program} --help")
    if len(positional) < least_positional:
        errors.append("Not enough positional command line arguments specified!")
        words = "argument" if least_positional == 1 else "arguments"
        errors.append(f"Must specify at least {least_positional} positional {words}: See: {program} --help")
    for option in options:
        if option.is_required and option.name not in values:
            errors.append(f"for the {option.spelled} option: must be specified at least once!")
    if errors and not values.get("help"):
        raise ClError(errors)
    return ClArguments(values, positional, order=tuple(reader.order))


class _ClParser:
    """Takes the words of a command line one by one, and collects values and complaints."""

    def __init__(self, options: Sequence[ClOption], most_positional: int, program: str) -> None:
        self._options = options
        self._known = {option.name: option for option in options}
        self._most_positional = most_positional
        self._program = program
        self.values: dict[str, list[str]] = {}
        self.positional: list[str] = []
        self.errors: list[str] = []
        self.switch = ""
        self.order: list[tuple[str, str]] = []

    def read(self, words: Iterator[str]) -> None:
        """Take all words, or those up to the first switch."""
        for word in words:
            if word == "--":
                for rest in words:
                    self._word(rest)
            elif word in ("-", "") or not word.startswith("-"):
                self._word(word)
            else:
                self._option(word, words)
            if self.switch:
                return

    def _word(self, word: str) -> None:
        self.positional.append(word)
        self.order.append(("", word))
        if not self._most_positional:
            self.errors.append(_unknown_word(word, self._program))

    def _option(self, word: str, words: Iterator[str]) -> None:
        name, equals, value = word[2 if word.startswith("--") else 1 :].partition("=")
        option = self._known.get(name)
        if option is None:
            self.errors += _unknown(word, name, value, self._options, self._program)
            return
        if option.kind == "switch" and not equals:
            self.switch = option.alias_of or name
            return
        if option.kind not in ("switch", "flag") and not equals:
            following = next(words, None)
            if following is None:
                self.errors.append(f"for the {option.spelled} option: requires a value!")
                return
            value = following
        if option.alias_of and option.kind != "switch":
            name, option = option.alias_of, self._known[option.alias_of]
        problem = _check(option, value)
        if problem:
            self.errors.append(f"for the {option.spelled} option: {problem}")
        if option.kind == "switch":
            return
        if option.kind == "flag":
            value = "1" if value in _TRUE else ""
        self.order.append((name, value))
        self.values.setdefault(name, []).extend(value.split(",") if option.kind == "commas" else [value])


def _check(option: ClOption, value: str) -> str:
    """Return what LLVM says against a value, "" if it takes it."""
    if option.kind == "switch":
        return f"does not allow a value! '{value}' specified."
    if option.kind == "flag" and value not in (*_TRUE, *_FALSE):
        return f"'{value}' is invalid value for boolean argument! Try 0 or 1"
    if option.kind == "choice" and value not in dict(option.choices):
        return f"Cannot find option named '{value}'!"
    if option.kind == "uint" and parse_integer(value, 0, (1 << 32) - 1) is None:
        return f"'{value}' value invalid for uint argument!"
    if option.kind == "int" and parse_integer(value, -(1 << 31), (1 << 31) - 1) is None:
        return f"'{value}' value invalid for integer argument!"
    return ""


def parse_integer(text: str, least: int, most: int, base: int = 0) -> int | None:
    """Return the number that a text spells to ``StringRef::getAsInteger``, None if it is none or out of range.

    Base 0 takes the prefixes 0x, 0b, 0o and 0; there is a minus sign where ``least`` allows one, and never a plus.
    """
    digits = text[1:] if least < 0 and text.startswith("-") else text
    if not base:
        prefix = digits[:2].lower()
        base = {"0x": 16, "0b": 2, "0o": 8}.get(prefix, 8 if prefix[:1] == "0" and prefix[1:].isdigit() else 10)
        digits = digits[2:] if base != 10 and not prefix.isdigit() else digits
    allowed = "0123456789abcdef"[:base]
    # No range is wider than 64 bits, and Python refuses to convert thousands of digits.
    if not digits or digits.lower().strip(allowed) or len(digits.lstrip("0")) > 64:
        return None
    number = int(digits, base)
    number = -number if text.startswith("-") else number
    return number if least <= number <= most else None


def _unknown_word(word: str, program: str) -> str:
    return f"Unknown command line argument '{word}'.  Try: '{program} --help'"


def _unknown(word: str, name: str, value: str, options: Sequence[ClOption], program: str) -> list[str]:
    """Return LLVM's complaints about an option it does not know, with its guess."""
    errors = []
    letter = next((option for option in options if option.name == name[:1]), None)
    if letter is not None and not word.startswith("--"):
        if letter.kind != "flag":
            errors.append(f"for the {letter.spelled} option: may not occur within a group!")
        else:
            name = name[1:]  # a flag of one letter may precede others
    # A switch takes no value, so that the word is compared with it whole.
    whole = f"{name}={value}" if value else name
    candidates = [
        (option, whole if option.kind == "switch" else name)
        for option in options
        if option.alias_of or not option.is_hidden
    ]
    best, _ = min(candidates, key=lambda candidate: _distance(candidate[1], candidate[0].name))
    errors.append(_unknown_word(word, program))
    guess = best.name + (f"={value}" if value and best.kind != "switch" else "")
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


def print_complaints(lines: Sequence[str], program: str) -> int:
    """Print what is wrong with a command line as LLVM does and return the exit code."""
    name = program.rpartition("/")[2]
    for line in lines:
        # QUIRK(LLVM cl): the second line about positional arguments has no prefix.
        sys.stderr.write(line if line.startswith(("Can specify", "Must specify")) else f"{name}: {line}")
        sys.stderr.write("\n")
    return 1
