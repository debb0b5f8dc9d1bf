"""Work on all cores, for what holds the interpreter's lock: reading tables, making records of them.

::

    for item, made in with_processes(items, work, cost):
        result = work(item) if made is None else made.value

A worker is a fork of this process: it has all that was opened and read so far, and nothing has to be handed to it but
the numbers of its items. Interpreters that start anew (``spawn``) take as long as a small library takes to read. What
a worker cannot give (it raised, it was killed, there is no memory or no process left) is left to the caller, who does
it as if there were no workers: errors are raised where they belong, and there is one way in which they are made.

::

    tickets ──► worker ──► pipe ─┐
            └─► worker ──► pipe ─┴─► results, in the order of the items

Results wait in the pipes, and a few in memory: a worker that is far ahead stops until it is asked again.
"""

from __future__ import annotations

import os
import sys

from fatpack.concurrency.threads import core_count
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
    from typing import Any, TypeVar

    T = TypeVar("T")

#: Bytes that are read without workers: forking and handing results over takes as long as a few megabytes do.
MIN_BYTES_FOR_WORKERS = 32 << 20

#: Items for which workers are forked at once: their numbers fit into the smallest pipe.
_TOGETHER = 1000

#: LIMIT: workers; each takes the memory of the largest image that it reads, and hands its results to one process.
_MOST = 8

#: LIMIT: results of one worker that wait in memory.
_AHEAD = 4

#: number of the item, bytes of its result; no bytes: there is none
_HEAD = 12

_BLOCK = 1 << 18

#: whether this process is such a fork: all cores have work already
_is_worker = False


class WorkerResult(Record):
    """What a worker made of an item."""

    value: Any


def map_in_processes(
    items: Iterable[T], work: Callable[[T], object], cost: Callable[[T], int], *, least: int | None = None
) -> Generator[tuple[T, WorkerResult | None], None, None]:
    """Yield every item in order, with what ``work`` makes of it in another process; None where the caller has to do it.

    ``cost`` are the bytes that work has to look at: items of cost 0 are left to the caller, and so is everything up to
    ``least`` bytes (:data:`LEAST`), on one core, beside other threads, and on systems where processes cannot be forked
    safely. The results must be such that they can be pickled. Closing this ends the workers.
    """
    least = MIN_BYTES_FOR_WORKERS if least is None else least
    held: list[T] = []
    total = 0
    for item in items:
        total += cost(item)
        if total <= least or not _can_fork():
            yield item, None
            continue
        held.append(item)
        if len(held) >= _TOGETHER:
            yield from _forked(held, work, cost, least)
            held = []
    yield from _forked(held, work, cost, least)


def _can_fork() -> bool:
    """Return whether a fork is worth it and safe: what other threads hold, a fork would wait for without end."""
    import _thread

    return sys.platform == "linux" and not _is_worker and not _thread._count() and core_count() > 1


def _forked(
    items: Sequence[T], work: Callable[[T], object], cost: Callable[[T], int], least: int
) -> Iterator[tuple[T, WorkerResult | None]]:
    numbers = [number for number, item in enumerate(items) if cost(item)]
    if len(numbers) < 2 or sum(map(cost, items)) < least:
        yield from ((item, None) for item in items)
        return
    wanted = frozenset(numbers)
    workers = _ForkedWorkers(items, numbers, work)
    try:
        for number, item in enumerate(items):
            yield item, workers.result(number) if number in wanted else None
    finally:
        workers.end()


class _ForkedWorkers:
    """Forks of this process that share out items by their numbers."""

    def __init__(self, items: Sequence[Any], numbers: Sequence[int], work: Callable[[Any], object]) -> None:
        #: process → the pipe with its results; the bytes of the next one; the last number that came; its waiting ones
        self._pipes: dict[int, int] = {}
        self._parts: dict[int, bytearray] = {}
        self._last: dict[int, int] = {}
        self._waiting: dict[int, int] = {}
        self._processes: list[int] = []
        #: number of an item → the process that made it, and its result
        self._results: dict[int, tuple[int, bytes]] = {}
        tickets, giving = os.pipe()
        try:
            os.write(giving, b"".join(number.to_bytes(4, "little") for number in numbers))
        finally:
            os.close(giving)
        try:
            for _ in range(min(core_count(), _MOST, len(numbers))):
                if not self._fork(tickets, items, work):
                    break
        finally:
            os.close(tickets)

    def _fork(self, tickets: int, items: Sequence[Any], work: Callable[[Any], object]) -> bool:
        """Start a worker; return whether the system had one."""
        try:
            results, giving = os.pipe()
        except OSError:
            return False
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
                _serve(tickets, giving, items, work)
            finally:
                os._exit(0)
        os.close(giving)
        self._processes.append(process)
        self._pipes[process], self._parts[process], self._last[process] = results, bytearray(), -1
        self._waiting[process] = 0
        return True

    def result(self, number: int) -> WorkerResult | None:
        """Return what a worker made of an item, None if none did. Waits for it."""
        while number not in self._results:
            # A worker takes numbers in their order: one that is past this one does not come back to it.
            if all(self._last[process] > number for process in self._pipes):
                return None
            self._receive(number)
        process, result = self._results.pop(number)
        self._waiting[process] -= 1
        if not result:
            return None
        from pickle import loads

        return WorkerResult(loads(result))  # a copy of this process made it

    def _receive(self, number: int) -> None:
        """Wait for bytes of any worker that may be about an item, or that is not too far ahead."""
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
        """Add bytes of a worker to those before them, and take the results that are whole."""
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
        """End all workers, whatever they are about."""
        for pipe in self._pipes.values():
            os.close(pipe)
        self._pipes.clear()
        for process in self._processes:
            try:
                os.kill(process, 9)
            except ProcessLookupError:
                pass  # somebody else waited for it
        for process in self._processes:
            try:
                os.waitpid(process, 0)
            except ChildProcessError:
                pass
        self._processes.clear()


def _serve(tickets: int, giving: int, items: Sequence[Any], work: Callable[[Any], object]) -> None:
    """Do the work of a worker: an item after the other, until there are no more or nobody listens."""
    global _is_worker  # noqa: PLW0603  (this process does nothing else)
    _is_worker = True
    import _signal  # type: ignore[import-not-found]  # signal, which is the public name, imports enum

    # Ctrl-C reaches all processes of a terminal: this one ends when its parent does, and leaves files alone.
    _signal.signal(_signal.SIGINT, _signal.SIG_IGN)
    for name in ("SIGTERM", "SIGHUP"):
        _signal.signal(getattr(_signal, name), _signal.SIG_DFL)
    from pickle import dumps

    while ticket := os.read(tickets, 4):
        try:
            value = work(items[int.from_bytes(ticket, "little")])
            result = b"" if value is None else dumps(value, 5)
            del value
        except BaseException:  # noqa: BLE001  (whatever it is, it is raised where the caller does the same)
            result = b""
        message = memoryview(ticket + len(result).to_bytes(8, "little") + result)
        while message:
            message = message[os.write(giving, message) :]
