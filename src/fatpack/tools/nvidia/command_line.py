"""Option parsing as the tools of NVIDIA's toolkit do it: long names with two dashes, short ones with one, their texts.

A value follows an ``=`` or is the next word, whatever that looks like. Lists are split at commas outside of double
quotes. The first error ends the reading; warnings come before it, in the order of the words.

How we know: fatbinary 13.0 with generated command lines and options files.
"""

from __future__ import annotations

import sys

from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence


#: Option files may name each other this deep.
_DEPTH = 15

_BLANKS = " \t"

#: White space that C accepts before a number, and digits.
_SPACES, _DIGITS = " \t\n\v\f\r", "0123456789abcdef"


class NvidiaOption(Record):
    """An option: ``--name`` or ``-short``.

    ``kind`` is ``flag``, ``string``, ``number``, ``boolean`` (of these the last one counts), ``list`` (all count) or
    ``pairs`` (all count, each a list of ``keyword=value`` with the ``keywords``). ``value`` is what the help calls the
    value, and one without ``help`` is not in it. ``has_brackets`` lets a value of a pair be a list in brackets.
    ``is_deprecated`` gives a warning. ``is_allowed`` says which values a string may have, any by default.
    """

    name: str
    short: str
    kind: str
    help: str = ""
    value: str = ""
    keywords: tuple[str, ...] = ()
    has_brackets: bool = False
    is_deprecated: bool = False
    is_allowed: Callable[[str], bool] | None = None


class NvidiaArguments(Record):
    """A parsed command line: values by the long names of options (flags: "1"), groups of pairs, and other words."""

    values: dict[str, list[str]]
    pairs: dict[str, list[dict[str, str]]]
    positional: list[str]

    def last(self, name: str) -> str:
        """Return the last value of an option, "" if it was not given."""
        return (self.values.get(name) or [""])[-1]


class NvidiaCommandLineError(Exception):
    """A wrong command line, in NVIDIA's words."""


def parse_nvidia_options(
    arguments: Sequence[str], options: Iterable[NvidiaOption], warn: Callable[[str], None]
) -> NvidiaArguments:
    """Return the parsed command line; ``warn`` is called with the text of every warning. Raises NvidiaCommandLineError.

    The option ``options-file`` is replaced by the words in its files, ``OSError`` for none of them: a file that cannot
    be read is a CommandLineError.
    """
    reader = _NvidiaParser(options, warn)
    reader.read(iter(arguments), 0)
    return NvidiaArguments(reader.values, reader.pairs, reader.positional)


class _NvidiaParser:
    """Takes the words of a command line one by one."""

    def __init__(self, options: Iterable[NvidiaOption], warn: Callable[[str], None]) -> None:
        self._known: dict[str, NvidiaOption] = {}
        for option in options:
            self._known["--" + option.name] = option
            self._known["-" + option.short] = option
        self._warn = warn
        self.values: dict[str, list[str]] = {}
        self.pairs: dict[str, list[dict[str, str]]] = {}
        self.positional: list[str] = []

    def read(self, words: Iterator[str], depth: int) -> None:
        for word in words:
            if not word.startswith("-") or word == "-":
                self.positional.append(word)
                continue
            spelled, equals, value = word.partition("=")
            option = self._known.get(spelled)
            if option is None:
                raise NvidiaCommandLineError(f"Unknown option '{spelled[1:]}'")
            if option.is_deprecated:
                self._warn(f"option '{option.name}' has been deprecated")
            if option.kind == "flag":
                if equals:
                    raise NvidiaCommandLineError(f"no argument expected after '{spelled}'")
                self.values[option.name] = ["1"]
                continue
            if not equals:
                following = next(words, None)
                if following is None:
                    raise NvidiaCommandLineError(f"argument expected after '{spelled}'")
                value = following
            self._take(option, value, depth)

    def _take(self, option: NvidiaOption, value: str, depth: int) -> None:
        if option.kind == "pairs":
            self.pairs.setdefault(option.name, []).append(_pairs(option, value))
            return
        if option.kind == "list":
            parts = split_list(value)
            if option.name != "options-file":
                self.values.setdefault(option.name, []).extend(parts)
                return
            for path in parts:
                self._read_file(path, depth + 1)
            return
        if option.kind == "boolean" and value not in ("true", "false"):
            raise NvidiaCommandLineError(f"'{value}': expected true or false")
        if option.is_allowed is not None and not option.is_allowed(value):
            raise NvidiaCommandLineError(f"Value '{value}' is not defined for option '{option.name}'")
        if option.kind == "number":
            value = _number(value)
        earlier = self.values.setdefault(option.name, [])
        if earlier and earlier[-1] != value:
            self._warn(f"incompatible redefinition for option '{option.name}', the last value of this option was used")
        earlier.append(value)

    def _read_file(self, path: str, depth: int) -> None:
        if depth > _DEPTH:
            raise NvidiaCommandLineError(f"Too many options file opened '{path}'")
        try:
            with open(path, encoding="utf-8", errors="surrogateescape", newline="") as file:
                text = file.read()
        except OSError:
            raise NvidiaCommandLineError(f"Could not open options file '{path}'") from None
        self.read(iter(split_options_file(text)), depth)


def _pairs(option: NvidiaOption, value: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for part in split_list(value, has_brackets=option.has_brackets):
        keyword, equals, text = part.partition("=")
        if not equals:
            raise NvidiaCommandLineError(f"'{part}' is not in 'keyword=value' format")
        if keyword not in option.keywords:
            raise NvidiaCommandLineError(f"Keyword '{keyword}' is not defined for option '{option.name}'")
        if keyword in found:
            raise NvidiaCommandLineError(f"redefinition of keyword '{keyword}' ")
        found[keyword] = text
    return found


def _number(value: str) -> str:
    """Return a number as C's strtol reads it, in decimal digits; an empty one is 0."""
    text = value.lstrip(_SPACES).lower()
    digits = text[1:] if text.startswith(("+", "-")) else text
    base = 16 if digits.startswith("0x") else 8 if len(digits) > 1 and digits.startswith("0") else 10
    digits = digits[2:] if base == 16 else digits
    if value and (not digits or digits.strip(_DIGITS[:base])):
        raise NvidiaCommandLineError(f"'{value}': expected a number")
    digits = digits.lstrip("0") or "0"
    # More digits than bits are out of range; Python reads no more than some thousand.
    number = int(digits, base) if len(digits) <= 32 else 1 << 32
    number = -number if text.startswith("-") else number
    if not -(1 << 31) <= number < 1 << 31:
        raise NvidiaCommandLineError(f"32-bit integer value ({value}) out of range")
    return str(number)


def split_list(value: str, *, has_brackets: bool = False) -> list[str]:
    """Return the parts of a list: split at commas outside of double quotes, which go, as do blanks around parts.

    ``has_brackets`` lets brackets keep a part together, and takes them away. Empty parts are none. Raises
    CommandLineError for a quote or bracket that is not closed.
    """
    parts = [""]
    is_quoted = False
    depth = 0
    for character in value:
        if character == '"':
            is_quoted = not is_quoted
        elif has_brackets and character == "[" and not is_quoted:
            depth += 1
        elif depth and character == "]" and not is_quoted:
            depth -= 1
        elif character == "," and not is_quoted and not depth:
            parts.append("")
        else:
            parts[-1] += character
    if is_quoted:
        raise NvidiaCommandLineError("Stray '\"' character")
    if depth:
        raise NvidiaCommandLineError("Stray '[' character")
    return [part for part in (part.strip(_BLANKS) for part in parts) if part]


def split_options_file(text: str) -> list[str]:
    """Return the words of an options file: split at white space outside of double quotes.

    A backslash keeps the next character from meaning anything, in quotes or not. QUIRK(fatbinary 13): a quote after
    one is dropped, and a NUL ends the text. Raises NvidiaCommandLineError for a quote that is not closed.
    """
    words: list[str] = []
    word: str | None = None
    is_quoted = False
    characters = iter(text.partition("\0")[0])
    for character in characters:
        if character == '"':
            is_quoted = not is_quoted
            word = word or ""
        elif character == "\\":
            escaped = next(characters, None)
            if escaped is None:
                raise NvidiaCommandLineError("Stray '' character")
            word = (word or "") + ("" if escaped == '"' else escaped)
        elif is_quoted or character not in " \t\n\r\v\f":
            word = (word or "") + character
        elif word is not None:
            words.append(word)
            word = None
    if is_quoted:
        raise NvidiaCommandLineError("Stray '\"' character")
    return words if word is None else [*words, word]


def print_message(name: str, kind: str, text: str) -> None:
    """Print a message of a tool on stderr, after what stdout has; ``kind`` is ``warning``, ``fatal`` or ``info``."""
    print_stderr(f"{name} {kind:<8}: {text}")


def print_stderr(line: str) -> None:
    """Print a line on stderr, after what stdout has."""
    from fatpack.printable import printable

    sys.stdout.flush()
    sys.stderr.write(printable(line) + "\n")


# The output of ``--help`` of NVIDIA's tools.


def help_page(usage: str, options: Iterable[NvidiaOption], width: int) -> str:
    """Return the help: options that have a text, in the original's layout. Short names begin after ``width``."""
    lines = ["", f"Usage  : {usage}", "", "Options", "=======", ""]
    for option in options:
        if option.help:
            spelled = f"--{option.name} {option.value}".rstrip()
            lines += [f"{spelled.ljust(width)}(-{option.short})", f"        {option.help}", ""]
    return "\n".join([*lines, ""])
