"""A real Ray on this machine: a worker is killed in the middle of its file."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests import reference
from tests.commands.survey.conftest import Read, expected

from fatpack.commands.survey.manifest import PlanTotals
from fatpack.commands.survey.run import run_survey
from fatpack.commands.survey.worker import TaskOptions
from fatpack.main import main
from fatpack.tabular.columns import RowOptions

#: Without it, Ray sends what it is used for to its makers.
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"


@pytest.fixture(scope="module")
def ray_here() -> Iterator[None]:
    ray = reference.package("ray")
    ray.init(
        num_cpus=2,
        object_store_memory=80 << 20,
        include_dashboard=False,
        log_to_driver=False,
        logging_level="ERROR",
        _system_config={"automatic_object_spilling_enabled": False},
    )
    yield
    ray.shutdown()


def _workers() -> list[int]:
    """Return the processes of Ray that run our tasks, by what they call themselves."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                title = Path(f"/proc/{name}/cmdline").read_bytes()
            except OSError:
                continue
            if title.startswith(b"ray::run_in_worker"):
                found.append(int(name))
    return found


@pytest.mark.slow
def test_a_worker_that_is_killed_loses_no_row_and_doubles_none(
    ray_here: None, many: Path, tmp_path: Path, read: Read
) -> None:
    from fatpack.commands.survey.ray_cluster import RayEngine

    out = tmp_path / "out"
    options = TaskOptions(RowOptions(), "parquet")
    killed: list[int] = []

    def kill_in_the_middle(done: int, totals: PlanTotals) -> None:
        if done >= 20 and not killed:
            for number in _workers()[:1]:
                os.kill(number, signal.SIGKILL)
                killed.append(number)

    reference.package("pyarrow")
    with RayEngine(options, "") as engine:
        summary = run_survey([str(many)], str(out), options, engine, progress=kill_in_the_middle, part_files=30)
    assert killed
    assert (summary.files, summary.errors, summary.exit_code) == (122, 0, 3)
    assert read(out) == expected(many, dead=False)


def test_the_command_uses_the_ray_that_runs(ray_here: None, many: Path, tmp_path: Path, read: Read) -> None:
    out = tmp_path / "out"
    assert main(["survey", str(many / "1"), "-o", str(out), "--format=jsonl", "--engine=ray", "--address=auto"]) == 1
    assert read(out) == expected(many / "1")


def test_a_cluster_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    reference.package("ray")
    program = "import sys; from fatpack.main import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", program, "survey", str(tmp_path), "-o", str(tmp_path / "out"), "--engine=ray"]
    done = subprocess.run([*command, "--address=127.0.0.1:1"], capture_output=True, text=True)
    assert done.returncode == 5
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("fatpack: error")]
    assert "127.0.0.1:1: no cluster of Ray answers" in line
