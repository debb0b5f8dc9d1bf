"""Parallel work in forked processes, for work that holds the interpreter lock: reading tables, making records.

::

    for item, made in map_in_processes(items, work, cost):
        result = work(item) if made is None else made.value

A worker is a fork of this process: it has everything that was opened and read so far, and needs only the numbers of its
items. Starting new interpreters (``spawn``) takes as long as reading a small library. If a worker cannot return a
result (it raised, was killed, or has no memory), the caller does the work as if there were no workers: so errors are
raised in the caller, and there is only one way in which they are made.

::

    tickets ──► worker ──► pipe ─┐
            └─► worker ──► pipe ─┴─► results, in the order of the items

Results wait in the pipes, and a few in memory: a worker that is far ahead blocks until its results are read.

However a command or a worker ends, no worker goes on, and no temporary file of one stays::

    signal            the command ends its workers (:func:`fatpack.concurrency.signals.end_workers`)
    killed command    a worker asks for its parent from time to time, and ends without it
    killed worker     its parent removes the files that it was writing: their names are in memory that both share
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # signal, which is the public name, imports enum
import os
import sys

from fatpack.concurrency import signals
from fatpack.concurrency.threads import core_count
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
    from mmap import mmap
    from types import FrameType
    from typing import Any, TypeVar

    T = TypeVar("T")

#: With fewer bytes to read no workers are forked: forking takes as long as reading a few megabytes.
MIN_BYTES_FOR_WORKERS = 32 << 20

#: Items that are distributed at a time (their numbers fit into the smallest pipe), and the bytes of them at least.
_TOGETHER, _LEAST_TOGETHER = 1000, 4 << 20

#: LIMIT: workers; each uses the memory of the largest image that it reads, and one process collects all results.
_MOST = 8

#: LIMIT: results of one worker that are kept in memory.
_AHEAD = 4

#: bytes of a result's header: number of the item, size of the result; size 0: there is none
_HEAD = 12

_BLOCK = 1 << 18

#: LIMIT: bytes of the names of files that a worker is writing; memory is taken for those that are used.
_MOST_NAMES = 1 << 20

#: bytes before these names: where they end
_NAMES_AT = 8

#: seconds after which a worker asks whether its parent is still there
_ASKED_AFTER = 0.5

#: The signals that end a command (:mod:`fatpack.concurrency.signals`), Ctrl-C first; Windows has no SIGHUP.
_HANDLED = tuple(getattr(_signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(_signal, name))

#: whether this process is a worker, which must not fork again
_is_worker = False


class WorkerResult(Record):
    """The result of a worker for one item."""

    value: Any


def map_in_processes(
    items: Iterable[T], work: Callable[[T], object], cost: Callable[[T], int], *, least: int | None = None
) -> Generator[tuple[T, WorkerResult | None], None, None]:
    """Yield every item in order, with the result of ``work`` in another process; None if the caller has to do the work.

    ``cost``: number of bytes that the work reads. Items of cost 0 are left to the caller. So are all items until the
    total is more than ``least`` (default :data:`MIN_BYTES_FOR_WORKERS`), and all with one core, if other threads run,
    and on systems on which forking is not safe. Up to a thousand items are taken ahead, with one process too: what
    making them takes of a budget comes before the work in any case. Results must be picklable. Closing the iterator
    ends the workers.
    """
    least = MIN_BYTES_FOR_WORKERS if least is None else least
    held: list[T] = []
    total = 0
    for item in items:
        total += cost(item)
        held.append(item)
        if len(held) >= _TOGETHER:
            yield from _forked(held, work, cost, min(least, _LEAST_TOGETHER), is_enough=total > least)
            held = []
    yield from _forked(held, work, cost, min(least, _LEAST_TOGETHER), is_enough=total > least)


def is_worker() -> bool:
    """Return whether this process is a worker, whose results are sent to another one."""
    return _is_worker


def _can_fork() -> bool:
    """Return whether a fork is useful and safe: a lock held by another thread would never be released in the fork."""
    import _thread

    return sys.platform == "linux" and not _is_worker and not _thread._count() and core_count() > 1


def _forked(
    items: Sequence[T], work: Callable[[T], object], cost: Callable[[T], int], least: int, *, is_enough: bool
) -> Iterator[tuple[T, WorkerResult | None]]:
    numbers = [number for number, item in enumerate(items) if cost(item)] if is_enough else []
    if len(numbers) < 2 or sum(map(cost, items)) < least or not _can_fork():
        yield from ((item, None) for item in items)
        return
    wanted = frozenset(numbers)
    workers = _ForkedWorkers(items, work)
    try:
        workers.start(numbers)
        for number, item in enumerate(items):
            yield item, workers.result(number) if number in wanted else None
    finally:
        workers.end()


class _ForkedWorkers:
    """Workers that take items by number from a shared pipe."""

    def __init__(self, items: Sequence[Any], work: Callable[[Any], object]) -> None:
        self._items, self._work = items, work
        #: process → the pipe with its results; bytes of the next result; last number; numbers of unread results
        self._pipes: dict[int, int] = {}
        self._parts: dict[int, bytearray] = {}
        self._last: dict[int, int] = {}
        self._waiting: dict[int, int] = {}
        #: processes that were not waited for, with the names of the files that each is writing
        self._processes: list[tuple[int, mmap]] = []
        #: number of an item → the process that made its result, and the result
        self._results: dict[int, tuple[int, bytes]] = {}

    def start(self, numbers: Sequence[int]) -> None:
        """Start the workers, for the items with these numbers.

        A signal waits until every worker is listed: one that is not would outlive the command.
        """
        tickets, giving = os.pipe()
        try:
            os.write(giving, b"".join(number.to_bytes(4, "little") for number in numbers))
        finally:
            os.close(giving)
        before = _signal.pthread_sigmask(_signal.SIG_BLOCK, _HANDLED)
        try:
            signals.ends_of_workers.append(self.end)
            for _ in range(min(core_count(), _MOST, len(numbers))):
                if not self._fork(tickets, before):
                    break
        finally:
            os.close(tickets)
            _signal.pthread_sigmask(_signal.SIG_SETMASK, before)

    def _fork(self, tickets: int, mask: Iterable[int]) -> bool:
        """Start a worker, which blocks the signals of ``mask``; return whether the system allowed it."""
        from mmap import mmap

        try:
            names = mmap(-1, _MOST_NAMES)
            results, giving = os.pipe()
        except OSError:
            return False
        parent = os.getpid()
        try:
            process = os.fork()
        except OSError:
            os.close(results)
            os.close(giving)
            return False
        if not process:
            try:
                for pipe in (results, *self._pipes.values()):
                    os.close(pipe)
                signals.ends_of_workers.clear()  # which are those of the parent
                signals.unfinished_files = _SharedNames(names)
                _let_signals_end(mask)
                _end_without(parent)
                _serve(tickets, giving, self._items, self._work)
            finally:
                os._exit(0)
        os.close(giving)
        self._processes.append((process, names))
        self._pipes[process], self._parts[process], self._last[process] = results, bytearray(), -1
        self._waiting[process] = 0
        return True

    def result(self, number: int) -> WorkerResult | None:
        """Wait for the result of an item and return it; None if no worker made one."""
        while number not in self._results:
            # Workers take numbers in ascending order, so a worker past this number will not return it.
            if all(self._last[process] > number for process in self._pipes):
                return None
            self._receive(number)
        process, result = self._results.pop(number)
        self._waiting[process] -= 1
        if not result:
            return None
        from pickle import loads

        return WorkerResult(loads(result))  # pickled by a fork of this process, so it is trusted

    def _receive(self, number: int) -> None:
        """Wait for bytes of any worker that may return ``number``, or is not too far ahead."""
        from select import POLLHUP, POLLIN, poll

        waiting = poll()
        of_pipe = {pipe: process for process, pipe in self._pipes.items()}
        for pipe, process in of_pipe.items():
            if self._last[process] < number or self._waiting[process] < _AHEAD:
                waiting.register(pipe, POLLIN | POLLHUP)
        for pipe, _ in waiting.poll():
            process = of_pipe[pipe]
            block = os.read(pipe, _BLOCK)
            if block:
                self._take(process, block)
            else:
                os.close(self._pipes.pop(process))

    def _take(self, process: int, block: bytes) -> None:
        """Append bytes of a worker, and take the results that are complete."""
        parts = self._parts[process]
        parts += block
        while len(parts) >= _HEAD:
            end = _HEAD + int.from_bytes(parts[4:_HEAD], "little")
            if len(parts) < end:
                return
            number = int.from_bytes(parts[:4], "little")
            self._results[number] = process, bytes(parts[_HEAD:end])
            self._last[process] = number
            self._waiting[process] += 1
            del parts[:end]

    def end(self) -> None:
        """End all workers at once, and remove the temporary files that they are writing.

        A signal waits until that is done: it would be done again from the start.
        """
        before = _signal.pthread_sigmask(_signal.SIG_BLOCK, _HANDLED)
        try:
            while self._pipes:
                os.close(self._pipes.popitem()[1])
            for process, _ in self._processes:
                _end_process(process)
            while self._processes:
                process, names = self._processes.pop()
                _wait(process)
                _SharedNames(names).remove_files()
                names.close()
            if self.end in signals.ends_of_workers:
                signals.ends_of_workers.remove(self.end)
        finally:
            _signal.pthread_sigmask(_signal.SIG_SETMASK, before)


def _end_process(process: int) -> None:
    try:
        os.kill(process, 9)
    except ProcessLookupError:
        pass  # this program ignores the ends of its processes, so that they need not be waited for


def _wait(process: int) -> None:
    try:
        os.waitpid(process, 0)
    except ChildProcessError:
        pass  # as above


class _SharedNames(set[str]):
    """The temporary files that a worker is writing, by one thread, in memory that its parent reads in the end.

    A name is there before its file is. Names of files that were finished stay until there are no others: they are
    random, and nothing else has them.
    """

    def __init__(self, memory: mmap) -> None:
        super().__init__()
        self._memory = memory

    def add(self, path: str) -> None:
        """Add a name. Raises ``OSError`` if there is no room: the parent does the work then."""
        name, start = os.fsencode(path) + b"\0", self._end()
        if start + len(name) > len(self._memory):
            raise OSError(f"{path}: too many files at a time")
        self._memory[start : start + len(name)] = name
        self._move_end(start + len(name))
        super().add(path)

    def discard(self, path: object) -> None:
        """Remove a name."""
        super().discard(path)
        if not self:
            self._move_end(_NAMES_AT)

    def remove_files(self) -> None:
        """Remove the files."""
        for name in self._memory[_NAMES_AT : self._end()].split(b"\0")[:-1]:
            try:
                os.unlink(name)
            except OSError:
                pass  # it was finished, or not begun

    def _end(self) -> int:
        return int.from_bytes(self._memory[:_NAMES_AT], "little") or _NAMES_AT

    def _move_end(self, end: int) -> None:
        self._memory[:_NAMES_AT] = end.to_bytes(_NAMES_AT, "little")


def _let_signals_end(mask: Iterable[int]) -> None:
    """Let signals end this worker, except Ctrl-C, and block those of ``mask`` alone.

    A terminal sends Ctrl-C to all processes: a worker ends when its parent does, and removes no files.
    """
    _signal.signal(_signal.SIGINT, _signal.SIG_IGN)
    for number in _HANDLED[1:]:
        _signal.signal(number, _signal.SIG_DFL)
    _signal.pthread_sigmask(_signal.SIG_SETMASK, mask)


def _end_without(parent: int) -> None:
    """End this worker soon after its parent has ended, which may be killed before it can end its workers.

    A worker that computes for long writes nothing to its pipe meanwhile, so it would not see that nobody reads it.
    """

    def ask(_number: int, _frame: FrameType | None) -> None:
        if os.getppid() != parent:
            signals.remove_unfinished()
            os._exit(1)

    _signal.set_wakeup_fd(-1)  # of an event loop of the parent
    _signal.signal(_signal.SIGALRM, ask)
    _signal.pthread_sigmask(_signal.SIG_UNBLOCK, [_signal.SIGALRM])
    _signal.setitimer(_signal.ITIMER_REAL, _ASKED_AFTER, _ASKED_AFTER)


def _serve(tickets: int, giving: int, items: Sequence[Any], work: Callable[[Any], object]) -> None:
    """Run the loop of a worker: take one item after the other until none are left or the reader closes the pipe."""
    global _is_worker  # noqa: PLW0603  (the process exits after this function)
    _is_worker = True
    from pickle import dumps

    while ticket := os.read(tickets, 4):
        try:
            value = work(items[int.from_bytes(ticket, "little")])
            result = b"" if value is None else dumps(value, 5)
            del value
        except BaseException:  # noqa: BLE001  (the caller repeats the work, and raises the error)
            result = b""
        message = memoryview(ticket + len(result).to_bytes(8, "little") + result)
        while message:
            message = message[os.write(giving, message) :]
