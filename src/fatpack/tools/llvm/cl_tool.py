"""A tool as LLVM's ``cl`` library makes one of its options: the command line, ``--help`` and ``--version``."""

from __future__ import annotations

import sys

from fatpack.record import Record
from fatpack.tools.llvm import command_line
from fatpack.tools.versions import version_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

#: For tools that take it; nothing is printed in colours.
COLOR = command_line.ClOption("color", "flag", "Use colors in output (default=autodetect)", is_hidden=True)

#: ``-h`` where it asks for the list once the command line is read, and where it stands for ``--help``.
LISTING_H = command_line.ClOption("h", "flag", "Alias for -help", is_hidden=True)
HELPING_H = command_line.ClOption("h", "switch", "Alias for --help", is_hidden=True, alias_of="help")

#: What every tool has.
GENERIC_NAMES = ("help", "help-list", "version")
GENERIC = (
    command_line.ClOption("help", "switch", "Display available options (--help-hidden for more)"),
    command_line.ClOption("help-list", "switch", "Display list of available options (--help-list-hidden for more)"),
    command_line.ClOption("version", "switch", "Display the version of this program"),
)


class ClTool(Record):
    """A tool: its name, the project whose tool it is, what its help says, and how many words it takes.

    ``groups`` are headings of its help, and the options below them (:func:`fatpack.tools.llvm.help_page`).
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
    from fatpack.tools.llvm.help_page import help_page

    as_list = parsed.switch != "help"
    usage = f"{tool.name} {tool.usage}"
    options = sorted(tool.options, key=lambda option: option.name)
    page = help_page(tool.overview, usage, options, tool=tool.name, as_list=as_list, groups=tool.groups)
    sys.stdout.write(page)
    return 0
