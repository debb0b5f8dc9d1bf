"""Handlers of SIGINT, SIGTERM and SIGHUP: all end a command in the same way and leave no incomplete file.

::

    signal ──► KeyboardInterrupt in the main thread ──► end workers, remove unfinished files ──► exit code 128 + number
           ├─► in a block of ``DeferSignals`` it is raised at the end of the block
           ├─► ``raise_if_interrupted()`` raises it in threads that copy, at their next piece
           └─► threads that compress are left as they are (``ThreadTasks(may_be_left=True)``)
    second signal ──► end workers, remove unfinished files, and end the process at once

Python prints and drops what is raised in a destructor or in a callback of a weak reference (the lock of a module that
is being imported has one): there the exception is raised again, a moment later.

Every command imports this module, so it imports only modules that the interpreter has already loaded.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # signal, which is the public name, imports enum
import _thread
import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType
    from typing import Self

#: Temporary files that this process is writing: a signal removes them.
unfinished_files: set[str] = set()

#: Functions that end the worker processes of this one and take themselves out. A command that is interrupted ends them,
#: because what it was doing then is kept, suspended, by the exception (:mod:`fatpack.concurrency.processes`).
ends_of_workers: list[Callable[[], None]] = []

#: The signals that are handled; Windows has no SIGHUP.
_SIGNALS = tuple(getattr(_signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(_signal, name))

#: Seconds after which a dropped exception is raised again: the callback that dropped it has returned by then, or the
#: exception is dropped and raised once more.
_RAISE_AGAIN_AFTER = 0.001

_requested = 0
_dropped = False
_finishing = False
_deferred = False


class DeferSignals:
    """A block of the main thread whose output is finished even after a signal, which is raised when the block ends.

    A signal that comes when one came before, in the block or earlier, ends the process at once, as elsewhere.
    """

    def __enter__(self) -> None:
        global _finishing  # noqa: PLW0603  (signals are process-wide)
        _finishing = True

    def __exit__(self, *_: object) -> None:
        global _finishing, _deferred  # noqa: PLW0603  (signals are process-wide)
        _finishing = False  # first: a signal that comes from here on is raised by its handler
        if _deferred:
            _deferred = False
            raise KeyboardInterrupt


def raise_if_interrupted() -> None:
    """Raise KeyboardInterrupt after a signal; for other threads, because only the main thread gets signals."""
    if _requested and not _finishing:
        raise KeyboardInterrupt


def end_workers() -> None:
    """End all worker processes of this one, and remove the temporary files that they are writing."""
    while ends_of_workers:
        ends_of_workers[-1]()


def remove_unfinished() -> None:
    """End the workers, which may be writing, and remove the temporary files that are being written."""
    end_workers()
    while unfinished_files:
        try:
            os.unlink(unfinished_files.pop())
        except OSError:
            pass  # the file or its folder was removed already


class SignalHandlers:
    """A context manager that installs the handlers, and restores the previous ones.

    An ignored signal stays ignored (as with nohup), and a handler of another library stays. Outside the main thread no
    handlers are installed. With ``ends_process``, nothing but the end of the interpreter follows the block: a signal
    that comes then ends the process without words.
    """

    def __init__(self, *, ends_process: bool = False) -> None:
        self._ends_process = ends_process
        self._before: dict[int, object] = {}
        self._hook_before = sys.unraisablehook

    def __enter__(self) -> Self:
        for number in _SIGNALS:
            before = _signal.getsignal(number)
            if before in (_signal.SIG_DFL, _signal.default_int_handler):
                try:
                    _signal.signal(number, _stop)
                except ValueError:  # raised outside the main thread
                    break
                self._before[number] = before
        if self._before:
            sys.unraisablehook = self._raise_again
        return self

    def __exit__(self, *_: object) -> None:
        global _requested, _dropped
        if self._before:
            sys.unraisablehook = self._hook_before
        for number, before in self._before.items():
            _signal.signal(number, _signal.SIG_DFL if self._ends_process else before)
        _requested, _dropped = 0, False
        if self._ends_process:
            end_workers()  # those of a command that failed

    def _raise_again(self, dropped: sys.UnraisableHookArgs) -> None:
        """Handle an exception that Python drops: the one of a signal is raised again, others are printed as before."""
        global _dropped  # noqa: PLW0603  (signals are process-wide)
        if not _requested or not issubclass(dropped.exc_type, KeyboardInterrupt):
            self._hook_before(dropped)
            return
        _dropped = True
        _thread.start_new_thread(_interrupt_later, (_requested, _thread.get_ident()))

    @property
    def exit_code(self) -> int:
        """The exit code that shells report for the signal; that of SIGINT if there was none."""
        return 128 + int(_requested or _signal.SIGINT)


def _interrupt_later(number: int, main_thread: int) -> None:
    time.sleep(_RAISE_AGAIN_AFTER)
    if not _dropped:
        return  # a second signal came
    if hasattr(_signal, "pthread_kill"):
        _signal.pthread_kill(main_thread, number)  # unlike interrupt_main, it ends a call that waits
    else:
        _thread.interrupt_main(number)  # type: ignore[arg-type]  # a plain number does, in every release


def _stop(number: int, _frame: FrameType | None) -> None:
    global _requested, _dropped, _deferred  # noqa: PLW0603  (signals are process-wide)
    if _dropped:
        _dropped = False
    elif _requested:
        # The second signal does not wait for threads, nor for a block that is finishing.
        remove_unfinished()
        os._exit(128 + number)
    else:
        _requested = number
    if _finishing:
        _deferred = True  # the call that it interrupted goes on: Python calls it again
        return
    raise KeyboardInterrupt
