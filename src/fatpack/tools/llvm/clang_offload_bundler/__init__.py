"""``fatpack tool clang-offload-bundler``: bundles, unbundles and lists as clang-offload-bundler 22 or 23 does.

========================  ====================================================================
``options``                the table of options, the help
``settings``               command line and environment → what to do, checks in order
``targets``                targets → IDs; which entry serves which target
``reading``, ``objects``   the entries of a bundle, by ``-type``; object files
``bundling``               inputs → one file
``unbundling``             one file → outputs, or a list of IDs
``archive``                ``-type=a``
========================  ====================================================================

Bytes, messages, their order and exit codes are the original's. Where it loses processors, crashes, hands out wrong
bytes or leaves half of its outputs behind, this does not; ``docs/tools/clang-offload-bundler.md`` lists every
difference.
"""

from __future__ import annotations

import os
import sys

from fatpack.tools.llvm import command_line
from fatpack.tools.llvm.clang_offload_bundler.arguments import OPTIONS
from fatpack.tools.versions import version_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def main(program: str, arguments: Sequence[str], version: str) -> int:
    """Run the tool as that version of LLVM does and return its exit code: 0 or 1."""
    try:
        words = command_line.expand_response_files(arguments)
        given = command_line.parse_cl(words, OPTIONS, most_positional=0, program=program)
    except command_line.ClError as error:
        return command_line.print_complaints(error.lines, program)
    command_line.print_complaints(given.complaints, program)
    if given.switch or given.last("h"):
        if given.switch == "version":
            sys.stdout.write(f"{version_text('clang-offload-bundler', f'LLVM {version}')}\n")
        else:
            from fatpack.tools.llvm.clang_offload_bundler.arguments import print_help

            print_help(given.switch, program)
        return 0
    return _run(program, version, given)


def _run(program: str, version: str, given: command_line.ClArguments) -> int:
    from fatpack.tools.llvm.clang_offload_bundler.arguments import ArgumentError, check_settings

    try:
        settings = check_settings(given, program, version, os.environ)
        if settings.mode == "list":
            from fatpack.tools.llvm.clang_offload_bundler.unbundle import list_ids as work
        elif settings.mode == "bundle":
            from fatpack.tools.llvm.clang_offload_bundler.bundle import bundle as work
        elif settings.type == "a":
            from fatpack.tools.llvm.clang_offload_bundler.unbundle import unbundle_archive as work
        else:
            from fatpack.tools.llvm.clang_offload_bundler.unbundle import unbundle as work
        work(settings)
    except ArgumentError as error:
        problem = str(error)
    except OSError as error:
        name = "" if error.filename is None else f"'{error.filename}': "
        problem = f"{name}{error.strerror or error}"
    else:
        return 0
    from fatpack.printable import printable

    sys.stderr.write(printable(f"{program}: error: {problem}") + "\n")
    return 1
