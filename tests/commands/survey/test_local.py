"""Processes of this machine: one that ends over a file takes no other with it."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.commands.survey.conftest import Read, expected

from fatpack.commands.survey.engines import LocalEngine
from fatpack.commands.survey.run import run_survey
from fatpack.commands.survey.worker import SurveyTask, TaskOptions, TaskResult
from fatpack.tabular.columns import RowOptions

OPTIONS = TaskOptions(RowOptions(), "jsonl")


class Killing(LocalEngine):
    """Kills the process that has a task, as often as it is told."""

    def __init__(self, path: str, times: int) -> None:
        super().__init__(OPTIONS, 2)
        self._path, self._times = path, times

    def _start(self, task: SurveyTask) -> None:
        super()._start(task)
        if self._times and task.path.endswith(self._path):
            self._times -= 1
            (worker,) = [worker for worker, busy in self._busy.values() if busy is task]
            os.kill(worker.process.pid or 0, signal.SIGKILL)


@pytest.mark.parametrize("times", [1, 2])
def test_a_process_that_is_killed_loses_no_row(times: int, many: Path, tmp_path: Path, read: Read) -> None:
    # The result may arrive before the signal or not: both are right.
    out = tmp_path / "out"
    with Killing("/3/3.bin", times) as engine:
        summary = run_survey([str(many)], str(out), OPTIONS, engine)
    rows, wanted = read(out), expected(many, dead=False)
    reasons = [row["error"] for row in rows if row["error"]]
    assert reasons in ([], [f"{many}/3/3.bin: the process that read it ended by signal 9, 2 times"])
    assert summary.errors == len(reasons)
    if reasons:
        assert times == 2
        rows = [row for row in rows if row["path"] != f"{many}/3/3.bin"]
        wanted = [row for row in wanted if row["path"] != f"{many}/3/3.bin"]
    assert rows == wanted


def test_a_process_that_is_idle_when_it_ends_is_replaced(many: Path) -> None:
    def tasks() -> Iterator[SurveyTask]:
        for number in range(6):
            for worker in engine._idle:
                os.kill(worker.process.pid or 0, signal.SIGKILL)
                worker.process.join()
            yield SurveyTask(number, str(many / "0" / "0.bin"))

    with LocalEngine(OPTIONS, 1) as engine:
        results: list[TaskResult] = list(engine.results(tasks()))
    assert [result.has_error for result in results] == [False] * 6


def test_no_more_tasks_are_taken_than_there_are_processes(many: Path) -> None:
    taken = 0

    def tasks() -> Iterator[SurveyTask]:
        nonlocal taken
        for number in range(20):
            taken += 1
            yield SurveyTask(number, str(many / "0" / "0.bin"))

    with LocalEngine(OPTIONS, 2) as engine:
        for number, _ in enumerate(engine.results(tasks())):
            assert taken <= number + 3


def test_a_worker_whose_driver_was_killed_ends_without_a_word(many: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with LocalEngine(OPTIONS, 1) as engine:
        engine._start(SurveyTask(0, str(many / "0" / "0.bin")))
        ((worker, _),) = engine._busy.values()
        engine._busy.clear()
        worker.connection.close()
        worker.process.join()
    assert worker.process.exitcode == 0
    assert capfd.readouterr().err == ""
