"""Tasks in threads: results in order, errors in their place, no more results waiting than allowed."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from fatpack.concurrency.threads import ThreadTasks, read_ahead, thread_count


def numbered(count: int, started: list[int] | None = None) -> list[Callable[[], int]]:
    def make(number: int) -> Callable[[], int]:
        def run() -> int:
            if started is not None:
                started.append(number)
            return number

        return run

    return [make(number) for number in range(count)]


@pytest.mark.parametrize("threads", [1, 2, 8])
@pytest.mark.parametrize("ahead", [None, 1, 3])
def test_results_come_in_order(threads: int, ahead: int | None) -> None:
    with ThreadTasks(numbered(50), ahead=ahead, threads=threads) as tasks:
        assert list(tasks) == list(range(50))
    with ThreadTasks(numbered(0), threads=threads) as tasks:
        assert list(tasks) == []


def test_tasks_run_at_the_same_time() -> None:
    meeting = threading.Barrier(2, timeout=20)
    with ThreadTasks([meeting.wait, meeting.wait], threads=2) as tasks:
        assert sorted(tasks) == [0, 1]


@pytest.mark.parametrize("threads", [1, 3])
def test_an_error_is_raised_in_its_place(threads: int) -> None:
    def fail() -> int:
        raise KeyError("three")

    tasks = [*numbered(3), fail, *numbered(2)]
    got = []
    with ThreadTasks(tasks, threads=threads) as running:
        with pytest.raises(KeyError, match="three"):
            for result in running:
                got.append(result)
        assert [*got, *running] == [0, 1, 2, 0, 1]


def test_no_more_results_wait_than_allowed() -> None:
    started: list[int] = []
    gate = threading.Event()
    first = numbered(20, started)
    with ThreadTasks([lambda: gate.wait(20) and first[0](), *first[1:]], ahead=4, threads=4) as tasks:
        results = iter(tasks)
        gate.set()
        for taken in range(20):
            assert next(results) == taken
            assert max(started) <= taken + 4


def test_leaving_early_starts_nothing_more_and_waits_for_what_runs() -> None:
    done: list[int] = []
    begun, gate = threading.Event(), threading.Event()
    before = threading.active_count()  # other tests leave threads of libraries

    def slow() -> int:
        begun.set()
        gate.wait(20)
        done.append(0)
        return 0

    with ThreadTasks([slow, *numbered(9, done)], ahead=1, threads=2):
        begun.wait(20)
        threading.Timer(0.05, gate.set).start()
    assert done == [0]
    assert threading.active_count() <= before + 1  # the timer


@pytest.mark.parametrize("count", [1, 3])
def test_after_a_signal_nothing_waits_for_tasks_that_may_be_left(count: int) -> None:
    begun, gate = threading.Event(), threading.Event()
    done: list[int] = []

    def slow() -> int:
        begun.set()
        gate.wait(20)
        done.append(0)
        return 0

    def interrupted() -> None:
        with ThreadTasks([slow] * count, threads=2, may_be_left=True):
            begun.wait(20)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert done == []  # it would have waited for the gate
    gate.set()


def test_after_an_error_tasks_that_may_be_left_are_waited_for() -> None:
    begun, gate = threading.Event(), threading.Event()
    done: list[int] = []

    def slow() -> int:
        begun.set()
        gate.wait(20)
        done.append(0)
        return 0

    def failing() -> None:
        with ThreadTasks([slow], threads=2, may_be_left=True):
            begun.wait(20)
            threading.Timer(0.05, gate.set).start()
            raise KeyError

    with pytest.raises(KeyError):
        failing()
    assert done == [0]


def test_no_threads_are_imported_for_a_single_task() -> None:
    program = (
        "import sys\nfrom fatpack.concurrency.threads import ThreadTasks\n"
        "with ThreadTasks([lambda: 1]) as tasks: assert list(tasks) == [1]\n"
        "sys.exit('threading' in sys.modules or 'typing' in sys.modules)"
    )
    assert (
        subprocess.run(
            [sys.executable, "-I", "-S", "-c", f"import sys; sys.path[:0] = {sys.path!r}\n{program}"]
        ).returncode
        == 0
    )
    assert thread_count() >= 1


@pytest.mark.parametrize("count", [1, 3, 100])
def test_what_is_read_ahead_comes_in_order(count: int) -> None:
    assert list(read_ahead(iter(range(50)), count)) == list(range(50))
    assert list(read_ahead(iter(()), count)) == []


def test_items_are_made_before_they_are_asked_for_but_no_more_than_allowed() -> None:
    made: list[int] = []
    fourth = threading.Event()

    def items() -> Iterator[int]:
        for number in range(20):
            made.append(number)
            if number == 3:
                fourth.set()
            yield number

    ahead = read_ahead(items(), 3)
    assert not made
    assert next(ahead) == 0
    assert fourth.wait(20)  # three wait, of which the last is at most being made
    for taken in range(1, 20):
        assert next(ahead) == taken
        assert max(made) <= taken + 3
    assert list(ahead) == []


def test_an_error_is_raised_after_what_was_made_before_it() -> None:
    def items() -> Iterator[int]:
        yield 1
        raise KeyError("second")

    ahead = read_ahead(items(), 8)
    assert next(ahead) == 1
    with pytest.raises(KeyError, match="second"):
        next(ahead)


def test_closing_ends_the_thread() -> None:
    before = threading.active_count()
    made: list[int] = []

    def items() -> Iterator[int]:
        for number in range(1000):
            made.append(number)
            yield number

    ahead = read_ahead(items(), 2)
    assert next(ahead) == 0
    ahead.close()  # type: ignore[attr-defined]  # it is a generator
    assert threading.active_count() == before
    left = len(made)
    assert left <= 4
    time.sleep(0.01)
    assert len(made) == left


def test_the_thread_that_reads_ahead_may_close_what_it_reads_for() -> None:
    """Its garbage collection may close an unused source."""
    taken, closed = threading.Event(), threading.Event()

    def items() -> Iterator[int]:
        yield 1
        taken.wait(10)
        ahead.close()  # type: ignore[attr-defined]
        closed.set()
        yield 2

    ahead = read_ahead(items(), 2)
    assert next(ahead) == 1
    taken.set()
    assert closed.wait(10)
    assert list(ahead) == []
