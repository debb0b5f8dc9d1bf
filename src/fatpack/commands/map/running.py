"""Running other programs: several at once, each with what it said, and none of them left when this is stopped."""

from __future__ import annotations

import os
import signal
import subprocess
from threading import Lock

from fatpack.errors import CommandFailed
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import IO, Self

#: LIMIT: what is kept in memory of what a program says, its end; compilers can print without end
_KEPT = 64 << 10

#: seconds that a program has to end when it is asked to, before it is ended
_PATIENCE = 2.0


class ProcessOutput(Record):
    """What a program printed, on stdout and stderr together; ``dropped`` bytes before that are gone.

    All of it is in the file at ``path``, if it was to be kept.
    """

    text: str
    dropped: int = 0
    path: str = ""


class ProcessPool:
    """Programs that run; at the end of the block none does, and none starts any more."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._is_over = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._is_over = True
            running = list(self._running)
        for process in running:
            _signal(process, signal.SIGTERM)
        for process in running:
            _end(process)

    def run(
        self, arguments: Sequence[str], words: str, keep: str = "", check: Callable[[int], object] = int
    ) -> ProcessOutput:
        """Run a program to its end and return what it said. There is no shell, and nothing to read on its stdin.

        ``words`` name the image that it is run for. All that it says is written to a new file at ``keep``, if there is
        such a path; ``check`` is called with the number of bytes, and raises if they are too many. Raises CommandFailed
        if it fails, ``OSError`` if it cannot be run.
        """
        if self._is_over:
            raise CommandFailed(f"{words}: {arguments[0]} was not run", words=words)
        # A group of its own: what the program starts in turn ends with it.
        process = subprocess.Popen(
            arguments, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, process_group=0
        )
        with self._lock:
            self._running.add(process)
            is_over = self._is_over
        try:
            if is_over:  # it was started while the others were ended: nothing else ends it
                raise CommandFailed(f"{words}: {arguments[0]} was ended at once", words=words)
            if keep:
                with open(keep, "xb") as sink:
                    said = _said(process.stdout, sink, check).replace(path=keep)
            else:
                said = _said(process.stdout)
            code = process.wait()
        except BaseException:
            _signal(process, signal.SIGTERM)
            _end(process)
            raise
        finally:
            with self._lock:
                self._running.discard(process)
            if process.stdout is not None:
                process.stdout.close()
        if code:
            how = f"ended with exit code {code}" if code > 0 else f"was ended by {_signal_name(-code)}"
            problem = f"{words}: {arguments[0]} {how}"
            raise CommandFailed(problem, words=words, returncode=code, said=said.text, dropped=said.dropped)
        return said


def _end(process: subprocess.Popen[bytes]) -> None:
    """Wait for a program that was asked to end, and end it if it does not."""
    try:
        process.wait(_PATIENCE)
    except subprocess.TimeoutExpired:
        _signal(process, getattr(signal, "SIGKILL", signal.SIGTERM))
        process.wait()


def _signal(process: subprocess.Popen[bytes], number: int) -> None:
    if not hasattr(os, "killpg"):
        process.terminate()  # Windows: the program alone, at once; one that has ended is left
        return
    try:
        os.killpg(process.pid, number)
    except (ProcessLookupError, PermissionError):
        pass  # it has ended


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _said(
    stream: IO[bytes] | None, sink: IO[bytes] | None = None, check: Callable[[int], object] = int
) -> ProcessOutput:
    kept, dropped = b"", 0
    while stream is not None and (block := os.read(stream.fileno(), _KEPT)):
        kept += block
        if len(kept) > _KEPT:
            dropped += len(kept) - _KEPT
            kept = kept[-_KEPT:]
        if sink is not None:
            check(dropped + len(kept))
            sink.write(block)
    return ProcessOutput(kept.decode("utf-8", "replace"), dropped)
