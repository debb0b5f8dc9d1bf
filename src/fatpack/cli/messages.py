"""What commands say beside their results: messages and progress on stderr."""

from __future__ import annotations

import sys
import time

from fatpack.errors import counted
from fatpack.printable import printable
from fatpack.report.text import size_words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from fatpack.model import Finding


def say(text: str, *, quiet: bool = False) -> None:
    """Print a message for the user on stderr."""
    if not quiet:
        sys.stderr.write(f"{_painted(printable(text))}\n")
        sys.stderr.flush()


def _painted(text: str) -> str:
    """Return a message with its severity in colour, where stderr has any."""
    from fatpack.cli.terminal import style
    from fatpack.report.style import painted_lines

    look = style(sys.stderr)
    return "".join(painted_lines([text], look)) if look.is_coloured else text


def warn(findings: Iterable[Finding], *, quiet: bool = False) -> None:
    """Print findings on stderr, each once: notes as such, all others as warnings, for they stop nothing."""
    lines = []
    for item in findings:
        place = f"{item.span.source[0]}: " if item.span.source else ""
        lines.append(f"fatpack: {'note' if item.severity == 'note' else 'warning'} {item.code}: {place}{item.text}")
    for line in dict.fromkeys(lines):
        say(line, quiet=quiet)


#: So many files of killed runs are named.
_NAMED = 4


def tell_abandoned(folder: str, *, quiet: bool = False) -> None:
    """Say which temporary files killed runs left in the folder of an output, and what removes them."""
    from fatpack.io.abandoned import abandoned

    found = [] if quiet else abandoned(folder)
    if found:
        from shlex import quote

        total = size_words(sum(size for _, size in found))
        names = " ".join(quote(path if path.startswith("/") else f"./{path}") for path, _ in found[:_NAMED])
        say(
            f"fatpack: note: {folder or 'this folder'} has {counted(len(found), 'unfinished file')} of runs that were "
            f"killed ({total}); no command uses {'it' if len(found) == 1 else 'them'} any more: rm {names}"
        )


class StatusLine:
    """One line that says how far a long command is: on a terminal's stderr only, after a second, gone when finished."""

    #: seconds before anything is shown; whoever waits less needs no line
    PATIENCE = 1.0

    #: seconds between two states that are shown
    _PAUSE = 0.2

    def __init__(self, *, quiet: bool = False) -> None:
        self._on = not quiet and sys.stderr.isatty()
        self.start = time.monotonic()
        self._next = self.start + self.PATIENCE
        self._is_shown = False

    def is_due(self) -> bool:
        """Return whether a state shall be shown now: a few times in a second at most."""
        return self._on and time.monotonic() >= self._next

    def show(self, text: str) -> None:
        """Show a state in the place of the one before it."""
        self._next, self._is_shown = time.monotonic() + self._PAUSE, True
        sys.stderr.write(f"\r{text}\x1b[K")
        sys.stderr.flush()

    def finish(self) -> None:
        """Remove the line: something else is printed, or all is done."""
        if self._is_shown:
            self._is_shown = False
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


class Meter(StatusLine):
    """Progress of a long copy, in percent."""

    def __init__(self, total: int, what: str, *, quiet: bool = False) -> None:
        super().__init__(quiet=quiet)
        self._total, self._what = max(total, 1), what
        self._done = 0

    def __call__(self, size: int) -> None:
        """Count bytes that were written."""
        self._done += size
        if self.is_due():
            self.show(f"{self._what} {min(100, 100 * self._done // self._total):3d} %")
