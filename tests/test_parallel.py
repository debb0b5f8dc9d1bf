"""Tasks in threads: results in order, errors in their place, no more results waiting than allowed."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable

import pytest

from fatpack.parallel import Tasks, thread_count


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
    with Tasks(numbered(50), ahead=ahead, threads=threads) as tasks:
        assert list(tasks) == list(range(50))
    with Tasks(numbered(0), threads=threads) as tasks:
        assert list(tasks) == []


def test_tasks_run_at_the_same_time() -> None:
    meeting = threading.Barrier(2, timeout=20)
    with Tasks([meeting.wait, meeting.wait], threads=2) as tasks:
        assert sorted(tasks) == [0, 1]


@pytest.mark.parametrize("threads", [1, 3])
def test_an_error_is_raised_in_its_place(threads: int) -> None:
    def fail() -> int:
        raise KeyError("three")

    tasks = [*numbered(3), fail, *numbered(2)]
    got = []
    with Tasks(tasks, threads=threads) as running:
        with pytest.raises(KeyError, match="three"):
            for result in running:
                got.append(result)
        assert [*got, *running] == [0, 1, 2, 0, 1]


def test_no_more_results_wait_than_allowed() -> None:
    started: list[int] = []
    gate = threading.Event()
    first = numbered(20, started)
    with Tasks([lambda: gate.wait(20) and first[0](), *first[1:]], ahead=4, threads=4) as tasks:
        results = iter(tasks)
        gate.set()
        for taken in range(20):
            assert next(results) == taken
            assert max(started) <= taken + 4


def test_leaving_early_starts_nothing_more_and_waits_for_what_runs() -> None:
    done: list[int] = []
    begun, gate = threading.Event(), threading.Event()

    def slow() -> int:
        begun.set()
        gate.wait(20)
        done.append(0)
        return 0

    with Tasks([slow, *numbered(9, done)], ahead=1, threads=2):
        begun.wait(20)
        threading.Timer(0.05, gate.set).start()
    assert done == [0]
    assert threading.active_count() <= 2  # the timer


def test_no_threads_are_imported_for_a_single_task() -> None:
    program = (
        "import sys\nfrom fatpack.parallel import Tasks\n"
        "with Tasks([lambda: 1]) as tasks: assert list(tasks) == [1]\n"
        "sys.exit('threading' in sys.modules or 'typing' in sys.modules)"
    )
    assert (
        subprocess.run(
            [sys.executable, "-I", "-S", "-c", f"import sys; sys.path[:0] = {sys.path!r}\n{program}"]
        ).returncode
        == 0
    )
    assert thread_count() >= 1
