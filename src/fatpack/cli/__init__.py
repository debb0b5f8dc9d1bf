"""The command line. ``main`` decides what to import: click takes longer to load than most files to read.

``--version``, ``tool`` and ``inspect`` without options need no click, so they load none.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code (the table is in ``docs/cli.md``)."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments == ["--version"]:
        return guarded(_version)
    if arguments[:1] == ["tool"]:
        from fatpack.cli.tools import run

        return guarded(lambda: run(arguments[1:]))
    if arguments[:1] == ["inspect"] and _are_files(arguments[1:]):
        from fatpack.cli.show import show

        return guarded(lambda: show(arguments[1:]))
    from fatpack.cli.app import run as run_app

    return guarded(lambda: run_app(arguments))


def _are_files(arguments: Sequence[str]) -> bool:
    """Return whether arguments can only be file names: neither options nor response files."""
    return bool(arguments) and not any(word.startswith(("-", "@")) and word != "-" for word in arguments)


def _version() -> int:
    from fatpack import __version__

    sys.stdout.write(f"fatpack {__version__}\n")
    return 0


def guarded(command: Callable[[], int]) -> int:
    """Run a command; turn what it raises on purpose into one line on stderr and an exit code."""
    import os

    from fatpack.errors import FatpackError

    try:
        code = command()
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader is gone (``| head``): say nothing, and keep the interpreter from flushing into the closed pipe.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 141
    except KeyboardInterrupt:
        return 130
    except (FatpackError, OSError) as error:
        from fatpack.report.problems import exit_code, message

        sys.stderr.write(f"fatpack: error: {message(error)}\n")
        return exit_code(error)
    return code
