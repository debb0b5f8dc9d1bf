"""One command for every name of a list: words with names in the place of marks, and several programs that run.

What runs shares the streams of this process, and its output is not touched: ``fatpack map`` keeps what programs say
(:mod:`fatpack.commands.map.running`), llvm-foreach of DPC++ does not.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # signal, which is the public name, imports enum
import os
import time

from fatpack.errors import UsageError
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

#: seconds between two looks at programs that run beside each other, at first and at most
_SHORTEST, _LONGEST = 0.0005, 0.01


class ProcessFailed(Record):
    """A program that ended: which command it was, and its exit code; negative: the signal, which ``words`` name."""

    number: int
    code: int
    words: str = ""


def substitute(word: str, values: Mapping[str, str]) -> str:
    """Return a word with values in the place of marks: each where it comes first; of overlapping ones the first."""
    places = sorted((word.find(mark), -len(mark), mark) for mark in values if mark and mark in word)
    parts: list[str] = []
    at = 0
    for start, _, mark in places:
        if start >= at:
            parts += [word[at:start], values[mark]]
            at = start + len(mark)
    return "".join((*parts, word[at:]))


def create_output(folder: str, stem: str, extension: str, *, mode: int = 0o666) -> str:
    """Create an empty file of a name that no other has, and return its path. Raises ``OSError`` if it cannot be."""
    while True:
        path = os.path.join(folder, f"{stem}-{os.urandom(3).hex()}.{extension}".removesuffix("."))
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode))
        except FileExistsError:
            continue
        return path


class RunningPrograms:
    """Programs that run beside each other, at most ``count``; at the end of the block none does::

    with Running(4) as running:
        for number, arguments in enumerate(commands):
            ended = running.made_room()
            running.start(number, program, arguments)
        for ended in running.rest():
            …

    Raises UsageError on Windows, where processes are started in another way.
    """

    def __init__(self, count: int) -> None:
        if not hasattr(os, "posix_spawn"):
            raise UsageError("this system has no posix_spawn, by which programs are started here", hint="fatpack map")
        self._count = count
        self._numbers: dict[int, int] = {}

    def __enter__(self) -> RunningPrograms:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._numbers:
            os.kill(process, _signal.SIGTERM)
        for process in self._numbers:
            os.waitpid(process, 0)
        self._numbers.clear()

    def made_room(self) -> ProcessFailed | None:
        """Wait until one program more may run; return the one that ended for it, None if there was room."""
        return self._first() if len(self._numbers) == self._count else None

    def start(self, number: int, program: str, arguments: Sequence[str]) -> None:
        """Start a program, without a shell. Raises ``OSError`` if it cannot be run."""
        # Python ignores these two, and what it starts would, too.
        signals = [_signal.SIGPIPE, _signal.SIGXFSZ]
        process = os.posix_spawn(program, list(arguments), os.environ, setsigdef=signals)
        self._numbers[process] = number

    def rest(self) -> Iterator[ProcessFailed]:
        """Yield the programs that still run, in the order in which they were started, as they end."""
        while self._numbers:
            process = next(iter(self._numbers))
            yield self._ended(process, os.waitpid(process, 0)[1])

    def _first(self) -> ProcessFailed:
        """Wait for any of the programs."""
        if len(self._numbers) == 1:
            return next(self.rest())
        pause = _SHORTEST
        while True:
            for process in self._numbers:
                found, status = os.waitpid(process, os.WNOHANG)
                if found:
                    return self._ended(process, status)
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST)

    def _ended(self, process: int, status: int) -> ProcessFailed:
        code = os.waitstatus_to_exitcode(status)
        words = "" if code >= 0 else _signal.strsignal(-code) or f"Unknown signal {-code}"
        return ProcessFailed(
            self._numbers.pop(process), code, f"{words} (core dumped)" if os.WCOREDUMP(status) else words
        )
