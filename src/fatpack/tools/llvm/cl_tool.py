"""A tool as LLVM's ``cl`` library makes one of its options: the command line, ``--help`` and ``--version``."""

from __future__ import annotations

import os
import sys

from fatpack.concurrency.system import find_programs
from fatpack.printable import printable
from fatpack.record import Record
from fatpack.tools.failures import is_command, is_script
from fatpack.tools.llvm import command_line
from fatpack.tools.versions import version_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fatpack.tools.llvm.command_line import ClOption


#: For tools that take it; nothing is printed in colours.
COLOR = command_line.ClOption("color", "flag", "Use colors in output (default=autodetect)", is_hidden=True)

#: ``-h`` where it asks for the list once the command line is read, and where it means ``--help``.
LISTING_H = command_line.ClOption("h", "flag", "Alias for -help", is_hidden=True)
HELPING_H = command_line.ClOption("h", "switch", "Alias for --help", is_hidden=True, alias_of="help")

#: Options of every tool.
GENERIC_NAMES = ("help", "help-list", "version")
GENERIC = (
    command_line.ClOption("help", "switch", "Display available options (--help-hidden for more)"),
    command_line.ClOption("help-list", "switch", "Display list of available options (--help-list-hidden for more)"),
    command_line.ClOption("version", "switch", "Display the version of this program"),
)


class ClTool(Record):
    """A tool: its name, the project whose tool it is, what its help says, and how many words it takes.

    ``groups`` are headings of its help, and the options below them (:func:`fatpack.tools.llvm.cl_tool`).
    """

    name: str
    project: str
    overview: str
    usage: str
    options: tuple[command_line.ClOption, ...]
    most: int = command_line.ANY_NUMBER
    least: int = 0
    groups: tuple[tuple[str, tuple[str, ...]], ...] = ()


def parse_or_help(tool: ClTool, program: str, arguments: Sequence[str]) -> command_line.ClArguments | int:
    """Return what a command line gives, or the exit code where it is wrong or asks for help: all was printed then."""
    try:
        words = command_line.expand_response_files(arguments)
        parsed = command_line.parse_cl(
            words, tool.options, most_positional=tool.most, least_positional=tool.least, program=program
        )
    except command_line.ClError as error:
        return command_line.print_complaints(error.lines, program)
    if not parsed.switch and not parsed.last("h"):
        return parsed
    command_line.print_complaints(parsed.complaints, program)
    if parsed.switch == "version":
        sys.stdout.write(f"{version_text(tool.name, tool.project)}\n")
        return 0

    as_list = parsed.switch != "help"
    usage = f"{tool.name} {tool.usage}"
    options = sorted(tool.options, key=lambda option: option.name)
    page = help_page(tool.overview, usage, options, tool=tool.name, as_list=as_list, groups=tool.groups)
    sys.stdout.write(page)
    return 0


# Errors of the tool.


class ToolError(Exception):
    """An error with LLVM's words; printed as ``<program>: error: <text>``, exit code 1."""


def strerror(error: OSError) -> str:
    """Return what the system says of a failed call, as LLVM prints it."""
    return error.strerror or str(error)


# Command lines that a stand-in leaves to the original: it is looked for, and takes the place of this process.
#
# Beside the program as it was typed, then on PATH; with the version in its name, too. What is fatpack itself, or a
# script that calls it, is passed over. Other files can lead back here: a variable of the environment has the paths that
# were handed a command line on the way, and the search goes on after them. So each is called once at most, and the
# search ends.

#: Has the paths that command lines were handed to on the way here, as PATH has folders.
_HANDED = "FATPACK_HANDED_OVER"


def exec_original(program: str, tool: str, arguments: Sequence[str], version: str, *, offered: str) -> int:
    """Become the original with these arguments; return 1 after saying where to get it if it is nowhere.

    ``offered`` says what the stand-in does itself.
    """
    handed = list(filter(None, os.environ.get(_HANDED, "").split(os.pathsep)))
    for path in _originals(program, tool, version):
        if path in handed:
            continue
        sys.stdout.flush()
        handed.append(path)
        os.environ[_HANDED] = os.pathsep.join(handed)
        try:
            os.execv(path, [path, *arguments])
        except OSError as error:
            # Made for another machine, or a script without an interpreter.
            handed.pop()
            sys.stderr.write(printable(f"{program}: warning: {path} cannot be run: {error.strerror}") + "\n")
    back = [path for path in handed if os.path.basename(path) in _names(tool, version)]
    known = f" ({', '.join(back)} leads back to fatpack)" if back else ""
    text = (
        f"{program}: error: fatpack offers {offered}; all else is {tool}'s of LLVM {version}, which is neither beside "
        f"this program nor on PATH{known}: install LLVM (on Debian the package llvm-{version}), or add its bin to PATH"
    )
    sys.stderr.write(printable(text) + "\n")
    return 1


def _names(tool: str, version: str) -> tuple[str, str]:
    return tool, f"{tool}-{version}"


def _originals(program: str, tool: str, version: str) -> Iterator[str]:
    """Yield the paths of programs that can be the original, each once."""
    folder = os.path.dirname(program)
    seen: set[str] = set()
    for path in map(os.path.abspath, find_programs(_names(tool, version), [folder])):
        if path not in seen and not is_command(path) and not is_script(path):
            yield path
        seen.add(path)


# The output of ``--help`` of tools that use LLVM's ``cl`` library.

#: Options that every tool has, in the order of the help.
_GENERIC = ("help", "help-list", "version")


def help_page(
    overview: str,
    usage: str,
    options: Sequence[ClOption],
    *,
    tool: str,
    as_list: bool,
    groups: Sequence[tuple[str, tuple[str, ...]]] = (),
) -> str:
    """Return the help: options in groups, or all in one list, as ``--help-list`` and ``-h`` have it.

    ``groups`` are headings and names of options; without names it has all others. By default there are two.
    """
    shown = [option for option in options if not option.is_hidden]
    column = max(len(_spelled(option)) for option in shown)
    lines = [f"OVERVIEW: {overview}", "", f"USAGE: {usage}", "", "OPTIONS:"]
    groups = groups or (("Generic Options", _GENERIC), (f"{tool} options", ()))
    if as_list:
        # QUIRK(LLVM cl): the list does not name the option that prints it.
        groups = (("", tuple(option.name for option in shown if option.name != "help-list")),)
    named = {name for _, names in groups for name in names}
    for heading, names in groups:
        group = [option for option in shown if option.name in (names or {option.name} - named)]
        lines += ["", f"{heading}:", ""] if heading else []
        for option in group:
            lines += _lines(option, column)
    return "\n".join([*lines, ""])


def _spelled(option: ClOption) -> str:
    separator = "" if not option.value else "=" if len(option.name) > 1 else " "
    return f"  {option.spelled}{separator}{option.value}"


def _lines(option: ClOption, column: int) -> Iterator[str]:
    first, *others = option.help.split("\n")
    yield f"{_spelled(option).ljust(column)} - {first}"
    for line in others:
        yield f"{'':{column}}   {line}"
    for name, text in option.choices:
        yield f"{f'    ={name}'.ljust(column)} -   {text}"
