"""Parallel work in threads, for work that releases the interpreter lock: compression, hashes, reading.

::

    with ThreadTasks([lambda: verify(one), lambda: verify(other)]) as tasks:
        ...                        # other work, while these run
        for result in tasks: ...   # in order; raises what a task raised, in its place

    for piece in read_ahead(inflated(stream), 32):  # the next pieces are inflated while this one is written
        ...

A task or an iterator must not wait for the consumer of its results.

``threading`` is imported only for more than one task: commands without such work cannot afford its import.
"""

from __future__ import annotations

import os
from _thread import get_ident

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Generic, Self, TypeVar

    T = TypeVar("T")
else:

    class Generic:  # noqa: D101  (typing loads half the library)
        def __class_getitem__(cls, _item):
            return cls

    T = None

#: LIMIT: each thread that inflates or compresses takes up to 200 MB for windows and tables.
_MOST_THREADS = 8

#: identifiers of the threads that are reading ahead
_reading_ahead: set[int] = set()


#: numbers of jobs that were asked for, the innermost last
_jobs: list[int] = []


class JobsInEffect:
    """A context in which at most ``count`` threads, and as many processes, share work: ``--jobs``."""

    def __init__(self, count: int) -> None:
        self._count = count

    def __enter__(self) -> Self:
        _jobs.append(self._count)
        return self

    def __exit__(self, *_: object) -> None:
        _jobs.pop()


def core_count() -> int:
    """Return the number of cores to use: all that this process may use, or as many as ``--jobs`` says."""
    if _jobs:
        return _jobs[-1]
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def thread_count(most: int = _MOST_THREADS) -> int:
    """Return the number of threads to start, at most ``most``."""
    return min(core_count(), most)


class ThreadTasks(Generic[T]):
    """Tasks that start to run in threads at once. Iterating yields their results in order.

    ``ahead``: number of results that may be pending (default: all). Leaving the ``with`` block waits for running tasks
    and starts no others. With a single thread or task, the work is done when its result is requested.

    ``may_be_left``: the tasks write no file and may take seconds within one call of a compressor, so after a signal
    nothing waits for those that run. A single task has a thread, too (except with ``--jobs 1``): the main thread
    hears no signal in such a call.
    """

    def __init__(
        self,
        tasks: Sequence[Callable[[], T]],
        *,
        ahead: int | None = None,
        threads: int | None = None,
        may_be_left: bool = False,
    ) -> None:
        self._tasks = tasks
        self._results: dict[int, tuple[T | None, BaseException | None]] = {}
        self._next = self._returned = 0
        self._ahead = len(tasks) if ahead is None else ahead
        most = thread_count() if threads is None else threads
        self._may_be_left = may_be_left
        self._is_inline = most < 2 or len(tasks) < (1 if may_be_left else 2)
        if self._is_inline:
            return
        from threading import Condition, Thread

        self._changed = Condition()
        self._threads: list[Thread] = []
        for _ in range(min(most, len(tasks))):
            thread = Thread(target=self._work, daemon=True)
            try:
                thread.start()
            except RuntimeError:  # no more threads, or no memory for one: the running threads do the work
                break
            self._threads.append(thread)
        self._is_inline = not self._threads

    def _work(self) -> None:
        while True:
            with self._changed:
                while self._next < len(self._tasks) and self._next >= self._returned + self._ahead:
                    self._changed.wait()
                number = self._next
                if number >= len(self._tasks):
                    return
                self._next += 1
            result = _outcome(self._tasks[number])
            with self._changed:
                self._results[number] = result
                self._changed.notify_all()

    def __iter__(self) -> Iterator[T]:
        while self._returned < len(self._tasks):
            result, error = self._take()
            if error is not None:
                raise error
            yield result  # type: ignore[misc]  # None only if T includes it

    def _take(self) -> tuple[T | None, BaseException | None]:
        if self._is_inline:
            self._returned += 1
            return _outcome(self._tasks[self._returned - 1])
        with self._changed:
            while self._returned not in self._results:
                self._changed.wait()
            result = self._results.pop(self._returned)
            self._returned += 1
            self._changed.notify_all()
        return result

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None = None, *_: object) -> None:
        if self._is_inline:
            return
        with self._changed:
            self._next = len(self._tasks)
            self._changed.notify_all()
        if self._may_be_left and kind is not None and issubclass(kind, KeyboardInterrupt):
            return
        for thread in self._threads:
            thread.join()


def is_reading_ahead() -> bool:
    """Return whether this thread runs an iterator for :func:`read_ahead`, so that another thread waits for it."""
    return get_ident() in _reading_ahead


def read_ahead(items: Iterator[T], count: int) -> Iterator[T]:
    """Yield the items of an iterator; a thread takes up to ``count`` of them in advance.

    Errors of the iterator are raised in their place. Closing this waits for the item that is being made and takes no
    others. Nothing else may use the iterator meanwhile.
    """
    from collections import deque
    from threading import Condition, Thread, current_thread

    changed = Condition()
    ready: deque[T] = deque()
    failure: list[BaseException] = []
    is_over = is_left = False

    def work() -> None:
        nonlocal is_over
        _reading_ahead.add(get_ident())
        try:
            for item in items:
                with changed:
                    ready.append(item)
                    changed.notify()
                    while len(ready) >= count and not is_left:
                        changed.wait()
                    if is_left:
                        return
        except BaseException as error:  # noqa: BLE001  (raised again in the consumer's thread)
            failure.append(error)
        finally:
            _reading_ahead.discard(get_ident())
            with changed:
                is_over = True
                changed.notify()

    thread = Thread(target=work, daemon=True)
    try:
        thread.start()
    except RuntimeError:  # no more threads, or no memory for one
        yield from items
        return
    try:
        while True:
            with changed:
                while not ready and not is_over:
                    changed.wait()
                if not ready:
                    break
                item = ready.popleft()
                changed.notify()
            yield item
        if failure:
            raise failure[0]
    finally:
        with changed:
            is_left = True
            changed.notify()
        if thread is not current_thread():  # garbage collection in the thread itself may close this
            thread.join()


def _outcome(task: Callable[[], T]) -> tuple[T | None, BaseException | None]:
    try:
        return task(), None
    except BaseException as error:  # noqa: BLE001  (raised again when the result is taken)
        return None, error
