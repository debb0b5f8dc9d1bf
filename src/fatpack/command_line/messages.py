"""Messages and progress on stderr."""

from __future__ import annotations

import sys
import time

from fatpack.errors import pluralize
from fatpack.printable import format_size, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import ClassVar, TextIO

    from fatpack.model import Finding


def print_stderr(text: str, *, quiet: bool = False) -> None:
    """Print a message for the user on stderr."""
    if not quiet:
        with SuspendedStatusLine():
            sys.stderr.write(f"{_painted(printable(text))}\n")
            sys.stderr.flush()


def _painted(text: str) -> str:
    """Return a message with its severity in colour, where stderr has any."""
    from fatpack.command_line.terminal import get_style
    from fatpack.text.style import colorize

    look = get_style(sys.stderr)
    return "".join(colorize([text], look)) if look.is_coloured else text


def print_warnings(findings: Iterable[Finding], *, quiet: bool = False) -> None:
    """Print findings on stderr, each once: notes as such, all others as warnings, for they stop nothing."""
    lines = []
    for item in findings:
        place = f"{item.span.source[0]}: " if item.span.source else ""
        lines.append(f"fatpack: {'note' if item.severity == 'note' else 'warning'} {item.code}: {place}{item.text}")
    for line in dict.fromkeys(lines):
        print_stderr(line, quiet=quiet)


#: So many files of killed runs are named.
_NAMED = 4


def warn_stale_temp_files(folder: str, *, quiet: bool = False) -> None:
    """Say which temporary files killed runs left in the folder of an output, and what removes them."""
    from fatpack.io.temporary import find_stale_temp_files

    found = [] if quiet else find_stale_temp_files(folder)
    if found:
        from shlex import quote

        total = format_size(sum(size for _, size in found))
        names = " ".join(quote(path if path.startswith("/") else f"./{path}") for path, _ in found[:_NAMED])
        print_stderr(
            f"fatpack: note: {folder or 'this folder'} has "
            f"{pluralize(len(found), 'unfinished file')} of runs that were "
            f"killed ({total}); no command uses {'it' if len(found) == 1 else 'them'} any more: rm {names}"
        )


class StatusLine:
    """One line that says how far a long command is: on a terminal's stderr only, after a second, gone when finished.

    While a line is :meth:`watched`, it is also shown while no progress is reported: a timer interrupts the work.
    """

    #: seconds before anything is shown; shorter work needs no line
    PATIENCE = 1.0

    #: seconds between two states that are shown
    _PAUSE = 0.2

    #: lines that are watched, innermost last: that one is shown
    _watched: ClassVar[list[StatusLine]] = []

    #: whether something else is written at the moment, or a line of stdout is not at its end
    is_held = False

    #: whether this command shows no line at all
    is_off = False

    def __init__(self, *, quiet: bool = False) -> None:
        self._on = not quiet and not StatusLine.is_off and sys.stderr.isatty()
        self.start = time.monotonic()
        self._rest = RestTime(self.start)
        self._next = self.start + self.PATIENCE
        self._is_shown = False

    def is_due(self) -> bool:
        """Return whether a state shall be shown now: a few times in a second at most."""
        return self._on and time.monotonic() >= self._next

    def text(self) -> str:
        """Return the state, with the time since the start."""
        return format_duration(time.monotonic() - self.start)

    def _read(self) -> str:
        """Return how many bytes were read, of how many, and how long the rest takes; "" if that is not known."""
        from fatpack.concurrency.progress import read_state

        state = read_state()
        if state is None:
            return ""
        rest = self._rest.text(state.done, state.known, time.monotonic(), is_even=state.is_even)
        return f", {format_size(state.done)} of {format_size(state.known)} read{rest}"

    def show(self, text: str) -> None:
        """Show a state in the place of the one before it."""
        self._next, self._is_shown = time.monotonic() + self._PAUSE, True
        for outer in StatusLine._watched:
            outer._next = max(outer._next, self._next + self.PATIENCE * (outer is not self))
        sys.stderr.write(f"\r{_cut_to_terminal(text)}\x1b[K")
        sys.stderr.flush()

    def clear(self) -> None:
        """Remove the line; it comes back when nothing else was written for a while."""
        self._next = time.monotonic() + self.PATIENCE
        if self._is_shown:
            self._is_shown = False
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def watched(self) -> None:
        """Let the clock show the line, too, until it is finished; where there is no clock it changes nothing."""
        if self._on and self not in StatusLine._watched and _set_clock(self._PAUSE, _tick):
            for outer in StatusLine._watched:
                outer.clear()
            StatusLine._watched.append(self)

    def finish(self) -> None:
        """Remove the line: something else is printed, or all is done."""
        if self in StatusLine._watched:
            StatusLine._watched.remove(self)
            if not StatusLine._watched:
                _set_clock(0, None)
        self.clear()


class RestTime:
    """The time that the rest of some work takes, by the rate of the last seconds; nothing where that would be a guess.

    It is never more than it would be if all that was done had taken all the time so far.
    """

    #: seconds, steps and part of the work after which a rate is known: the beginning is not like the rest
    PATIENCE, STEPS, LEAST = 3.0, 3, 0.05

    #: seconds of which the rate is taken, at least
    WINDOW = 10.0

    #: seconds without a step after which nothing is said
    STALL = 5.0

    def __init__(self, start: float) -> None:
        self._start = start
        #: when the work began of which the rate is taken, how much was done before, and the steps since
        self._began, self._before, self._steps = start, 0, 0
        #: times of steps, and how much was done then; the first is the last one before the window
        self._seen: list[tuple[float, int]] = []

    def text(self, done: int, known: int, now: float, *, is_even: bool = True) -> str:
        """Return ``, about 9 s left`` after so much is done of what is known; "" while no rate is known.

        Unless the work ``is_even`` from here on, what was done says nothing of the rest.
        """
        seen = self._seen
        if seen and done < seen[-1][1]:  # other work has begun
            seen.clear()
            self._start = now
        if not is_even:
            seen.clear()
            return ""
        if not seen:
            self._began, self._before, self._steps = now, done, 0
            seen.append((now, done))
        elif done > seen[-1][1]:
            self._steps += 1
            seen.append((now, done))
        while len(seen) > 2 and seen[1][0] <= now - self.WINDOW:
            del seen[0]
        (then, before), (last, _) = seen[0], seen[-1]
        is_early = now - self._began < self.PATIENCE or self._steps < self.STEPS
        if is_early or done - self._before < self.LEAST * known or now - last > self.STALL or done >= known:
            return ""
        rest = (known - done) * (last - then) / (done - before) - (now - last)
        if rest < 0:  # it took longer than was said
            return ""
        return f", about {format_duration(max(1, min(rest, (known - done) * (now - self._start) / done)))} left"


def _tick(*_: object) -> None:
    """Show the innermost line that is watched, if nothing else is written and it is due."""
    if StatusLine._watched and not StatusLine.is_held and (line := StatusLine._watched[-1]).is_due():
        line.show(line.text())


def _set_clock(seconds: float, handler: Callable[..., None] | None) -> bool:
    """Call a function every few moments in the main thread, or with None no more; return whether that is possible.

    The clock is SIGALRM: no thread, which forks would not have, and programs that are started do not inherit it.
    """
    import signal

    if not hasattr(signal, "setitimer"):
        return False
    try:
        if handler is not None:
            if signal.getsignal(signal.SIGALRM) not in (signal.SIG_DFL, handler):
                return False  # the caller uses the timer itself
            signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, seconds, seconds)
        if handler is None:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
    except ValueError:  # not in the main thread
        return False
    return True


def _cut_to_terminal(text: str) -> str:
    """Return a state that takes one line: a wider one would stay on the screen."""
    from fatpack.command_line.terminal import get_style

    width = get_style(sys.stderr).width
    return text[: width - 1] if width else text


class SuspendedStatusLine:
    """While something is written: no line is in its way, and none comes in between."""

    def __enter__(self) -> None:
        for line in StatusLine._watched:
            line.clear()
        self._before, StatusLine.is_held = StatusLine.is_held, True

    def __exit__(self, *_: object) -> None:
        StatusLine.is_held = self._before


class no_status_line:
    """Within the ``with`` statement, no line is made."""

    def __enter__(self) -> None:
        self._before, StatusLine.is_off = StatusLine.is_off, True

    def __exit__(self, *_: object) -> None:
        StatusLine.is_off = self._before


class WaitStatus(StatusLine):
    """The line of a whole command: how long it has taken, and how much it inflated.

    Where stdout is a terminal too, what goes there passes through here, so that it finds the line gone.
    """

    def __init__(self, what: str, *, quiet: bool = False) -> None:
        super().__init__(quiet=quiet)
        self._what = what
        self._stdout: TextIO | None = None

    def __enter__(self) -> None:
        if self._on:
            self.watched()
            if sys.stdout.isatty():
                self._stdout = sys.stdout
                sys.stdout = _StdoutBesideStatus(sys.stdout)

    def __exit__(self, *_: object) -> None:
        if self._stdout is not None:
            sys.stdout, self._stdout = self._stdout, None
            StatusLine.is_held = False
        self.finish()

    def text(self) -> str:
        """Return the name of the command, how long it has taken, and what it read or inflated."""
        from fatpack.limits import current_budget

        inflated = current_budget().drawn
        more = self._read() or (f", {format_size(inflated)} inflated" if inflated else "")
        return f"{self._what}: {super().text()}{more}"


class _StdoutBesideStatus:
    """A terminal's stdout, which is written to where no line is; a line that is begun is brought to its end first."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write text; return how many characters that were."""
        with SuspendedStatusLine():
            written = self._stream.write(text)
        if text:
            StatusLine.is_held = not text.endswith("\n")
        return written

    def writelines(self, lines: Iterable[str]) -> None:
        """Write text in pieces."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)


class CopyProgress(StatusLine):
    """Progress of a long copy, in percent."""

    def __init__(self, total: int, what: str, *, quiet: bool = False) -> None:
        super().__init__(quiet=quiet)
        self._total, self._what = max(total, 1), what
        self._done = 0
        self.watched()

    def __call__(self, size: int) -> None:
        """Count bytes that were written."""
        self._done += size
        if self.is_due():
            self.show(self.text())

    def text(self) -> str:
        """Return what is done, and how far it is."""
        rest = self._rest.text(min(self._done, self._total), self._total, time.monotonic())
        return f"{self._what} {min(100, 100 * self._done // self._total):3d} %, {super().text()}{rest}"


class CountedProgress(StatusLine):
    """Progress of things of which the number is known; ``what`` is done to each: ``compressing image``."""

    def __init__(self, what: str, *, quiet: bool = False) -> None:
        super().__init__(quiet=quiet)
        self._what = what
        self._done = self._total = 0

    def __call__(self, done: int, total: int) -> None:
        """Show how many are done; the line goes away with the last one. From 0 on the clock shows it, too."""
        self._done, self._total = done, total
        if not done:
            self.watched()
        if done == total:
            self.finish()
        elif self.is_due():
            self.show(self.text())

    def text(self) -> str:
        """Return the number that is done, and how long it has taken."""
        return f"{self._what} {self._done} of {self._total}, {super().text()}"


def format_duration(seconds: float) -> str:
    """Return a duration for people, in its two largest units: ``42 s``, ``3 min 10 s``, ``2 h 5 min``, ``3 d 4 h``."""
    rest = int(seconds)
    words: list[str] = []
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min"), (1, "s")):
        number, rest = divmod(rest, size)
        if number or (unit == "s" and not words):
            words.append(f"{number} {unit}")
    return " ".join(words[:2])


# Findings about a file, on stderr: what is wrong with it, beside what a command does all the same.


def print_findings(file: str, findings: Iterable[Finding]) -> None:
    """Print findings about the file: those of one kind in one place once."""
    from fatpack.text.findings import FindingList, finding_lines, finding_record, unlisted_records

    found = FindingList()
    found.extend(findings)
    records = [finding_record(item) for item in found.kept]
    for line in finding_lines(records, unlisted=unlisted_records(found), title=file):
        print_stderr(f"fatpack: {line}")
