"""Exit codes of commands, and errors as one line of text."""

from __future__ import annotations

import os

from fatpack.errors import FatpackError
from fatpack.printable import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

#: Exit codes of all commands; ``docs/cli.md`` has the same table.
FINE, FINDINGS, USAGE, MALFORMED, UNSUPPORTED, INPUT_OUTPUT = range(6)


def error_message(error: FatpackError | OSError) -> str:
    """Return an error as one printable line: what is wrong, where, and what to do."""
    if isinstance(error, OSError):
        # Of a rename, the second name is the requested one, the first a temporary file.
        name = error.filename2 or error.filename
        place = f"{name or repr(name)}: " if name is not None else ""
        hint = "; give another name, or --force to overwrite it" if isinstance(error, FileExistsError) else ""
        hint = "; name a file in it" if isinstance(error, IsADirectoryError) else hint
        hint = _missing_folder(name) if isinstance(error, FileNotFoundError) else hint
        return printable(f"{place}{error.strerror or error}{hint}")
    return printable(str(error))


def _missing_folder(name: object) -> str:
    """Return a hint that the folder of a missing file is missing too, if it is."""
    folder = os.path.dirname(name) if isinstance(name, str) and "://" not in name else ""
    return f"; there is no folder {folder}" if folder and not os.path.isdir(folder) else ""


#: Exit codes in ascending order of severity; a command for several files or parts returns the most severe one.
_RISING = (FINE, FINDINGS, USAGE, UNSUPPORTED, MALFORMED, INPUT_OUTPUT)


def worst_exit_code(codes: Iterable[int]) -> int:
    """Return the most severe of several exit codes: damage is worse than something that cannot be done with it."""
    return max(codes, key=_RISING.index)


def exit_code_for_findings(findings: Iterable[tuple[str, str]]) -> int:
    """Return the exit code for findings, given as severities and codes."""
    return worst_exit_code((FINE, *(_code(*item) for item in findings)))


#: codes of findings about something that this version does not read, though its bytes may be right
_UNREAD = ("FP1006", "FP1008")


def _code(severity: str, code: str) -> int:
    if severity != "note" and code in _UNREAD:
        return UNSUPPORTED
    if severity == "error":
        return MALFORMED
    return FINDINGS if severity == "warning" else FINE


def exit_code(error: FatpackError | OSError) -> int:
    """Return the exit code for an error."""
    if isinstance(error, FatpackError):
        return error.exit_code
    return USAGE if isinstance(error, FileExistsError) else INPUT_OUTPUT
