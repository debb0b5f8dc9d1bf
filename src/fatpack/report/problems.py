"""Exceptions → one line for people and an exit code for scripts."""

from __future__ import annotations

from fatpack.errors import FatpackError
from fatpack.report.text import printable

#: What every command exits with; ``docs/cli.md`` lists the same table.
FINE, FINDINGS, USAGE, MALFORMED, UNSUPPORTED, INPUT_OUTPUT = range(6)


def message(error: FatpackError | OSError) -> str:
    """Return a failure as one printable line: what, where, and what to do."""
    if isinstance(error, OSError):
        # Of a rename, the second name is what the user asked for, the first a temporary file.
        name = error.filename2 or error.filename
        place = f"{name or repr(name)}: " if name is not None else ""
        hint = "; give another name, or --force to overwrite it" if isinstance(error, FileExistsError) else ""
        hint = "; name a file in it" if isinstance(error, IsADirectoryError) else hint
        return printable(f"{place}{error.strerror or error}{hint}")
    return printable(str(error))


def exit_code(error: FatpackError | OSError) -> int:
    """Return the exit code for a failure."""
    if isinstance(error, FatpackError):
        return error.exit_code
    return USAGE if isinstance(error, FileExistsError) else INPUT_OUTPUT
