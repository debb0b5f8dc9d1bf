"""The manual pages: ``fatpack.1``, one for each command, as ``fatpack-pack.1``, and one for each stand-in.

Those of commands are made from their declarations, those of stand-ins from their docstrings and tables of options.

They use the macros of man(7) that both groff and mandoc know, and ASCII only.
"""

from __future__ import annotations

import re
from textwrap import wrap
from typing import TYPE_CHECKING

import click
from tools.docs import stand_ins

from fatpack import commands
from fatpack.command_line.examples import EXAMPLES
from fatpack.tools import TOOLS
from fatpack.tools.versions import FOLLOWED

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from fatpack.command_line.command import Command

#: Date of the last change to the text of this module; man pages have a date.
DATE = "2026-11-28"

#: Characters that roff interprets: an argument, a hyphen, an accent.
_MARKS = {"\\": r"\(rs", "-": r"\-", "'": r"\(aq", "`": r"\(ga", "^": r"\(ha", "~": r"\(ti", '"': r"\(dq"}

ENVIRONMENT = {
    "FATPACK_LIMITS": "Limits for all commands and stand-ins, as NAME=NUMBER with blanks between; --limit of a command "
    "beats them.",
    "FATPACK_CACHE": "1, or the path of a folder: inspect, report, check, diff and explain keep what they read of "
    "images there, for the next command.",
    "NO_COLOR, FORCE_COLOR": "Whether text has colour where --color does not say it.",
    "COLUMNS": "The width of help and tables.",
}


def pages(exit_codes: Iterable[Iterable[str]]) -> dict[str, str]:
    """Return the file name of each page → its text."""
    made = {"fatpack.1": _overview(exit_codes)}
    for name, line in commands.COMMANDS.items():
        made[f"fatpack-{name}.1"] = _page(name, line, commands.load_command(name))
    return made | {f"fatpack-tool-{name}.1": _stand_in(name) for name in TOOLS}


def _overview(exit_codes: Iterable[Iterable[str]]) -> str:
    first, *others = commands.DESCRIPTION.split("\n\n")
    lines = [*_title("fatpack", first.removesuffix("."))]
    lines += [".SH SYNOPSIS", ".B fatpack", "[OPTIONS] COMMAND [ARGS]..."]
    lines += [".SH DESCRIPTION", *_text(first)]
    for paragraph in others:
        lines += [".PP", *_text(paragraph)]
    for title, names in commands.GROUPS.items():
        lines += [f'.SS "{_escaped(title)}"']
        for name in names:
            lines += [".TP", rf".BR fatpack\-{_escaped(name)} (1)", *_text(commands.COMMANDS[name])]
    lines += [".SH OPTIONS", ".TP", r".B \-\-version", "Show the version and exit.", *_HELP]
    lines += [".SH EXIT STATUS"]
    for code, meaning in exit_codes:
        lines += [".TP", f".B {_escaped(code)}", *_text(meaning)]
    lines += [".SH ENVIRONMENT"]
    variables = {each.variable: f"The version of {each.project} that stand-ins follow." for each in FOLLOWED.values()}
    for name, meaning in (ENVIRONMENT | variables).items():
        lines += [".TP", f".B {_escaped(name)}", *_text(meaning)]
    lines += [".SH SEE ALSO", *_references(commands.COMMANDS)]
    return "\n".join(lines) + "\n"


def _page(name: str, line: str, command: Command) -> str:
    lines = [*_title(f"fatpack-{name}", line.removesuffix("."))]
    context = click.Context(command, info_name=f"fatpack {name}")
    words = ["[OPTIONS]", *(each.metavar or (each.name or "").upper() for each in command.arguments)]
    lines += [".SH SYNOPSIS", f".B fatpack {_escaped(name)}", *_text(" ".join(words)), ".SH DESCRIPTION"]
    for number, paragraph in enumerate((command.help or "").split("\n\n")):
        lines += [*([".PP"] if number else []), *_text(paragraph)]
    lines += [".SH OPTIONS"]
    for option in command.options:
        spelled, meaning = option.get_help_record(context) or ("", "")
        lines += [".TP", _spelled(spelled, option), *_text(meaning)]
    lines += [] if command.runs_other_tools else _HELP
    lines += [".SH EXIT STATUS", *_text("0 if all is well; the other codes are in"), ".BR fatpack (1)."]
    lines += [".SH EXAMPLES"]
    for use, what in EXAMPLES[name]:
        lines += [".TP", f".B fatpack {_escaped(use)}", *_text(f"{what[0].upper()}{what[1:]}.")]
    others = [each for each in commands.COMMANDS if each != name]
    tools = [f"tool-{tool}" for tool in TOOLS] if name == "tool" else []
    lines += [".SH SEE ALSO", *_references(["", *others, *tools])]
    return "\n".join(lines) + "\n"


def _stand_in(name: str) -> str:
    """Return the page of a stand-in."""
    module = __import__(f"fatpack.tools.{TOOLS[name]}", fromlist=["main"])
    first = " ".join((module.__doc__ or "").partition("\n\n")[0].split())
    does = first.partition(": ")[2].rstrip(".").replace("``", "")
    followed = FOLLOWED.get(name)
    lines = [*_title(f"fatpack-tool-{name}", f"stand in for {name}"), ".SH SYNOPSIS"]
    as_version = "[\\-\\-as=VERSION] " if followed else ""
    lines += [f".B fatpack tool {as_version}{_escaped(name)}", "[ARGS]..."]
    lines += [".SH DESCRIPTION", *_text(f"{does[0].upper()}{does[1:]}.")]
    if followed:
        known = ", ".join(followed.known)
        lines += [".PP", *_text(f"It follows {followed.project} {known}: as --as says, else {followed.variable}.")]
    lines += [".PP", *_text(f"fatpack tool --install DIR {name} makes a link, by which programs call it in its place.")]
    lines += [".SH OPTIONS", *_text(f"What becomes of those of {name}. Equal: it does with them what {name} does.")]
    for options, state in stand_ins.rows(name):
        spelled = ", ".join(rf"\fB{_escaped(each)}\fR" for each in options)
        lines += [".TP", spelled, *_text(f"{_plain(state)}.")]
    lines += [".SH EXIT STATUS", *_text(f"That of {name}.")]
    lines += [".SH SEE ALSO", ".BR fatpack (1),", r".BR fatpack\-tool (1)"]
    return "\n".join(lines) + "\n"


def _plain(text: str) -> str:
    """Return a cell of a table without marks, and without references to other rows."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text).replace("`", "")
    text = re.sub(
        r",? except for the rows? above", ", except for differences that the tool's page in docs/tools lists", text
    )
    return f"{text[0].upper()}{text[1:]}".removesuffix(".")


_HELP = [".TP", r"\fB\-h\fR, \fB\-\-help\fR", "Show the options and exit."]


def _title(name: str, what: str) -> list[str]:
    title = _escaped(name)
    return [
        r".\" generated by `make docs` from what the commands declare",
        f'.TH {title.upper()} 1 "{DATE}" "fatpack" "User Commands"',
        ".SH NAME",
        rf"{title} \-",
        *_text(what),
    ]


def _spelled(words: str, option: click.Option) -> str:
    """Return the line of an option's spellings: these bold, its value plain."""
    value = "" if option.is_flag or option.count else words.split(" ", len(option.opts))[-1]
    spelled = ", ".join(rf"\fB{_escaped(each)}\fR" for each in sorted(option.opts, key=lambda text: text[:2] == "--"))
    return f"{spelled} {_escaped(value)}" if value else spelled


def _references(names: Iterable[str]) -> Iterator[str]:
    pages = ["fatpack" if not name else f"fatpack-{name}" for name in names]
    for page in pages:
        yield f".BR {_escaped(page)} (1){',' if page != pages[-1] else ''}"


def _text(text: str) -> list[str]:
    """Return lines of running text; none of them begins like a request."""
    lines = wrap(" ".join(text.split()), 60, break_long_words=False, break_on_hyphens=False)
    return [_one(_escaped(line)) for line in lines]


def _one(line: str) -> str:
    return rf"\&{line}" if line.startswith(".") else line


def _escaped(text: str) -> str:
    return "".join(_MARKS.get(each) or (each if each.isascii() else rf"\[u{ord(each):04X}]") for each in text)
