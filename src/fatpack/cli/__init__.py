"""The command line. ``main`` decides what to import: click takes longer to load than most files to read.

``--version``, ``tool`` and ``inspect`` without options need no click, so they load none.
"""

from __future__ import annotations

import os
import sys

from fatpack.interruption import Signals, remove_unfinished

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code (the table is in ``docs/cli.md``)."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    with Signals() as signals:
        try:
            return guarded(lambda: _run(arguments))
        except KeyboardInterrupt:
            remove_unfinished()
            return signals.exit_code


def _run(arguments: list[str]) -> int:
    _open_closed_streams()
    if arguments == ["--version"]:
        return _version()
    if arguments[:1] == ["tool"]:
        from fatpack.cli.tools import run as run_tool

        return run_tool(arguments[1:])
    if arguments[:1] == ["inspect"] and _are_files(arguments[1:]):
        from fatpack.cli.show import show

        return show(arguments[1:])
    from fatpack.cli.app import run as run_app

    return run_app(arguments)


def _open_closed_streams() -> None:
    """Point closed standard streams at nothing: the next file opened would take their numbers, and be written to."""
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            fd = os.open(os.devnull, os.O_RDWR)
            if fd != number:
                os.dup2(fd, number)
                os.close(fd)
            setattr(sys, name, os.fdopen(number, mode, closefd=False))


def _are_files(arguments: Sequence[str]) -> bool:
    """Return whether arguments can only be file names: neither options nor response files."""
    return bool(arguments) and not any(word.startswith(("-", "@")) and word != "-" for word in arguments)


def _version() -> int:
    from fatpack import __version__

    sys.stdout.write(f"fatpack {__version__}\n")
    return 0


def guarded(command: Callable[[], int]) -> int:
    """Run a command; turn what it raises on purpose into one line on stderr and an exit code."""
    from fatpack.errors import FatpackError

    try:
        code = command()
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader is gone (``| head``): say nothing, and keep the interpreter from flushing into the closed pipe.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 141
    except (FatpackError, OSError) as error:
        from fatpack.report.problems import exit_code, message

        try:
            sys.stderr.write(f"fatpack: error: {message(error)}\n")
            sys.stderr.flush()
        except OSError:
            pass  # nobody listens; the exit code still tells
        return exit_code(error)
    return code
