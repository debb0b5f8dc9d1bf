"""A real cluster of `distributed`: three worker processes on this machine, one of which is killed."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests import reference
from tests.commands.survey.conftest import Read, expected

from fatpack.commands.survey.manifest import PlanTotals
from fatpack.commands.survey.run import run_survey
from fatpack.commands.survey.worker import TaskOptions
from fatpack.main import main
from fatpack.tabular.columns import RowOptions


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    distributed = reference.package("distributed")
    with distributed.LocalCluster(
        n_workers=3, threads_per_worker=1, processes=True, dashboard_address=None, memory_limit=None
    ) as cluster:
        yield cluster


@pytest.mark.slow
def test_a_worker_that_is_killed_loses_no_row_and_doubles_none(
    cluster: Any, many: Path, tmp_path: Path, read: Read
) -> None:
    from fatpack.commands.survey.dask_cluster import DaskEngine

    out = tmp_path / "out"
    options = TaskOptions(RowOptions(), "parquet")
    victims = [worker.pid for worker in list(cluster.workers.values())[:1]]

    def kill_in_the_middle(done: int, totals: PlanTotals) -> None:
        if done == 20 and victims:
            os.kill(victims.pop(), signal.SIGKILL)

    reference.package("pyarrow")
    with DaskEngine(options, cluster.scheduler_address) as engine:
        summary = run_survey([str(many)], str(out), options, engine, progress=kill_in_the_middle, part_files=30)
    assert not victims
    assert (summary.files, summary.errors, summary.exit_code) == (122, 0, 3)
    assert read(out) == expected(many, dead=False)


def test_the_command_takes_the_address_of_a_scheduler(cluster: Any, many: Path, tmp_path: Path, read: Read) -> None:
    out = tmp_path / "out"
    address = ["--engine=dask", "--address", cluster.scheduler_address]
    assert main(["survey", str(many / "1"), "-o", str(out), "--format=jsonl", "--rows-of=kernels", *address]) == 3
    assert read(out) == expected(many / "1", "kernels")


def test_a_scheduler_that_is_not_there_is_one_sentence(
    many: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    reference.package("distributed")
    monkeypatch.setattr("fatpack.commands.survey.dask_cluster._DASK_PATIENCE", 1)
    out = str(tmp_path / "out")
    assert main(["survey", str(many), "-o", out, "--engine=dask", "--address=tcp://127.0.0.1:1"]) == 5
    (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("fatpack: error")]
    assert "tcp://127.0.0.1:1: no scheduler of Dask answers" in line
    assert not os.path.exists(out)
