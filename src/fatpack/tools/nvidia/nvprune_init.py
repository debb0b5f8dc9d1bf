"""``fatpack tool nvprune``: leaves the device code of some architectures in objects and libraries, as CUDA's nvprune.

``options`` has the table of options and what a command line asks for; ``pruning`` says which images stay, and writes.
Messages, their order, exit codes and bytes are those of nvprune 12.4, the newest that could be had;
``docs/tools/nvprune.md`` lists every difference. It prunes linked programs and libraries too, and whatever else
``fatpack slim`` takes.
"""

from __future__ import annotations

import sys

from fatpack.tools.nvidia import command_line
from fatpack.tools.nvidia.options import HELP_WIDTH, OPTIONS, parse_nvprune_request
from fatpack.tools.versions import version_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def main(program: str, arguments: Sequence[str]) -> int:
    """Run the tool and return its exit code: 0 or 1."""
    name = program.rpartition("/")[2]
    try:
        given = command_line.parse_nvidia_options(
            arguments, OPTIONS, lambda text: command_line.print_message(name, "warning", text)
        )
    except command_line.NvidiaCommandLineError as error:
        command_line.print_message(name, "fatal", str(error))
        return 1
    name = given.last("tool-name") or name
    if given.last("help") or (len(given.positional) != 1 and not given.last("version")):
        from fatpack.tools.nvidia.help_page import help_page

        sys.stdout.write(help_page("nvprune [options] <object>", OPTIONS, HELP_WIDTH))
        return 0
    if given.last("version"):
        sys.stdout.write(f"nvprune: {version_text('nvprune', 'CUDA 12.4')}\n")
        return 0
    try:
        request = parse_nvprune_request(given)
        from fatpack.tools.nvidia.nvprune import prune_file

        damage = prune_file(request, lambda kind, text: _say(name, kind, text))
    except command_line.NvidiaCommandLineError as error:
        command_line.print_message(name, "fatal", str(error))
        return 1
    return 1 if damage else 0


def _say(name: str, kind: str, text: str) -> None:
    if kind:
        command_line.print_message(name, kind, text)
    else:
        command_line.print_stderr(text)
