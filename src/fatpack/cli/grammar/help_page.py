"""What ``--help`` prints: usage, description, and the options beside what they do, as wide as the terminal."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from fatpack.cli.grammar.declared import Command, Option

#: How all commands tell of themselves.
HELP_SPELLINGS = ("-h", "--help")
_HELP = (", ".join(HELP_SPELLINGS), "Show this message and exit.")

#: LIMIT: columns. Longer lines are hard to read, and shorter ones have no place for what options do.
WIDEST, NARROWEST = 98, 50

#: LIMIT: columns of what stands on the left; a longer spelling has a line to itself.
_LEFT = 30


def width() -> int:
    """Return the columns for help: COLUMNS, or those of the terminal, less two; 78 without either."""
    try:
        columns = int(os.environ.get("COLUMNS", ""))
    except ValueError:
        columns = 0
    if columns <= 0:
        try:
            columns = os.get_terminal_size(sys.__stdout__.fileno()).columns if sys.__stdout__ else 0
        except (ValueError, OSError):
            columns = 0  # no terminal
    return max(min((columns or 80) - 2, WIDEST), NARROWEST)


def command_page(path: str, command: Command, width: int) -> str:
    """Return the help of a command that is called ``path``: ``fatpack inspect``."""
    words = ["[OPTIONS]", *(each.metavar for each in command.arguments)]
    rows = [*map(_row, command.options), *(() if command.forwards else (_HELP,))]
    return "\n".join([*_head(path, words, command.description, width), *_section("Options", rows, width)]) + "\n"


def overview(path: str, description: str, groups: Mapping[str, Mapping[str, str]], width: int) -> str:
    """Return the help of a program: what it is, and its commands in groups, each with a line."""
    lines = [*_head(path, ["[OPTIONS]", "COMMAND", "[ARGS]..."], description, width)]
    lines += _section("Options", [("--version", "Show the version and exit."), _HELP], width)
    left = max(len(name) for commands in groups.values() for name in commands)
    for title, commands in groups.items():
        lines += _section(title, commands.items(), width, left)
    return "\n".join(lines) + "\n"


def examples(uses: Iterable[tuple[str, str]]) -> str:
    """Return the section of examples of a command, from the words behind ``fatpack`` and what they do."""
    lines = [line for words, what in uses for line in (f"  fatpack {words}", f"      {what}")]
    return "\n".join(["", "Examples:", *lines]) + "\n" if lines else ""


def _head(path: str, words: Iterable[str], description: str, width: int) -> Iterator[str]:
    """Yield the usage, and the paragraphs of the description."""
    usage = f"Usage: {path} "
    yield from _wrapped(" ".join(words), width, usage, " " * len(usage))
    for paragraph in description.split("\n\n"):
        yield ""
        yield from _wrapped(" ".join(paragraph.split()), width, "  ", "  ")


def _section(title: str, rows: Iterable[tuple[str, str]], width: int, least: int = 0) -> Iterator[str]:
    """Yield two columns below a title; the left one has ``least`` columns at least."""
    rows = list(rows)
    left = min(max(least, *(len(first) for first, _ in rows)), _LEFT) + 2
    yield ""
    yield f"{title}:"
    for first, second in rows:
        lines = _wrapped(second, width - left - 2)
        yield f"  {first:{left}}{lines.pop(0)}" if len(first) <= left - 2 else f"  {first}"
        yield from (f"  {'':{left}}{line}" for line in lines)


def _row(option: Option) -> tuple[str, str]:
    """Return how an option is spelled, and what it does."""
    spelled = ", ".join(sorted(option.spellings, key=lambda text: text.startswith("--")))
    facts = [f"default: {option.absent}"] if option.shows_default else []
    facts += [text for text in (getattr(option.kind, "range", ""),) if text]
    return (
        f"{spelled} {option.metavar}" if option.takes_value else spelled,
        f"{option.help}  [{'; '.join(facts)}]" if facts else option.help,
    )


def _wrapped(text: str, width: int, first: str = "", later: str = "") -> list[str]:
    from textwrap import wrap

    return wrap(text, width, initial_indent=first, subsequent_indent=later, replace_whitespace=False)
