"""Being asked to stop: SIGINT, SIGTERM and SIGHUP end a command in the same way, and no half-written file stays.

::

    signal ──► KeyboardInterrupt in the main thread ──► unfinished files go ──► exit code 128 + number
           └─► ``check()`` raises it in threads that copy, at their next piece
    second signal ──► unfinished files go, and the process ends at once

This costs every command its import, so it needs nothing but what the interpreter has loaded itself.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # signal, which is the public name, imports enum
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Self

#: Files that this process writes and that have no name of their own yet: they go when it is asked to stop.
unfinished_files: set[str] = set()

#: The signals that ask for an end; not every system has the last.
_SIGNALS = tuple(getattr(_signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(_signal, name))

_requested = 0
_finishing = False


class DeferSignals:
    """What is written in this block is finished although the process was asked to stop; a second signal ends it."""

    def __enter__(self) -> None:
        global _finishing  # noqa: PLW0603  (signals are of the process)
        _finishing = True

    def __exit__(self, *_: object) -> None:
        global _finishing  # noqa: PLW0603  (signals are of the process)
        _finishing = False


def raise_if_interrupted() -> None:
    """Raise KeyboardInterrupt if the process was asked to stop: signals reach the main thread alone."""
    if _requested and not _finishing:
        raise KeyboardInterrupt


def remove_unfinished() -> None:
    """Remove the files that have no name of their own yet."""
    while unfinished_files:
        try:
            os.unlink(unfinished_files.pop())
        except OSError:
            pass  # it is gone, or the folder is: nothing is left to do about it


class SignalHandlers:
    """Handlers while a command runs; those that stood there before come back.

    A signal that is ignored stays ignored (nohup does that), and one that somebody else handles is theirs. Outside the
    main thread there are no handlers.
    """

    def __init__(self) -> None:
        self._before: dict[int, object] = {}

    def __enter__(self) -> Self:
        for number in _SIGNALS:
            before = _signal.getsignal(number)
            if before in (_signal.SIG_DFL, _signal.default_int_handler):
                try:
                    _signal.signal(number, _stop)
                except ValueError:  # not the main thread
                    break
                self._before[number] = before
        return self

    def __exit__(self, *_: object) -> None:
        global _requested  # noqa: PLW0603  (signals are of the process too)
        for number, before in self._before.items():
            _signal.signal(number, before)
        _requested = 0

    @property
    def exit_code(self) -> int:
        """What shells report for a process that the signal ended; that of Ctrl-C without one."""
        return 128 + int(_requested or _signal.SIGINT)


def _stop(number: int, _frame: FrameType | None) -> None:
    global _requested  # noqa: PLW0603  (signals are of the process too)
    if _requested:
        # Whoever asks twice does not want to wait for threads.
        remove_unfinished()
        os._exit(128 + number)
    _requested = number
    raise KeyboardInterrupt
