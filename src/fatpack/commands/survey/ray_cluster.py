"""A Ray cluster: the only module that knows ``ray`` (``fatpack[ray]``).

Workers need fatpack with the same extras, and see files under the paths that the driver gives.
"""

from __future__ import annotations

import errno

from fatpack.commands.survey.worker import failed_task_row, run_in_worker
from fatpack.errors import Unsupported

try:
    import ray
    from ray.exceptions import RayError
except ImportError as error:
    raise Unsupported(f"the engine ray needs ray ({error})", hint="pip install ray") from error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, Self

    from fatpack.commands.survey.worker import SurveyTask, TaskOptions, TaskResult

#: Tasks that the cluster has at a time, for each of its cores.
_RAY_AHEAD = 4

#: Seconds until a cluster must have answered.
_RAY_PATIENCE = 20

#: So often a task runs again whose worker is lost.
_RETRIES = 3


def _greet(address: str) -> None:
    """Raise ``OSError`` if no server listens at an address with a port: Ray itself would retry for some minutes."""
    import socket

    host, colon, port = address.rpartition("://")[2].rpartition(":")
    if colon and port.isdecimal():
        socket.create_connection((host, int(port)), _RAY_PATIENCE).close()


class RayEngine:
    """The workers of a cluster; a Ray that this process has started already is used as it is."""

    def __init__(self, options: TaskOptions, address: str) -> None:
        self._options = options
        self._is_ours = not ray.is_initialized()
        if self._is_ours:
            try:
                _greet(address)
                ray.init(address=address, log_to_driver=False, logging_level="ERROR")
            except (OSError, OverflowError, RuntimeError, ValueError) as error:
                text = f"no cluster of Ray answers ({error})"
                raise ConnectionRefusedError(errno.ECONNREFUSED, text, address) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_ours:
            ray.shutdown()

    def results(self, tasks: Iterator[SurveyTask]) -> Iterator[TaskResult]:
        """Yield the result of each task as it is done; Ray gives the tasks of lost workers to others."""
        remote = ray.remote(max_retries=_RETRIES, num_cpus=1)(run_in_worker)
        most = _RAY_AHEAD * max(1, int(ray.cluster_resources().get("CPU", 1)))
        waiting: dict[Any, SurveyTask] = {}
        while True:
            while len(waiting) < most and (task := next(tasks, None)) is not None:
                waiting[remote.remote(task, self._options)] = task
            if not waiting:
                return
            ray.wait(list(waiting), num_returns=1)
            ready, _ = ray.wait(list(waiting), num_returns=len(waiting), timeout=0)
            for reference in ready:
                yield self._result(reference, waiting.pop(reference))

    def _result(self, reference: Any, task: SurveyTask) -> TaskResult:
        try:
            result: TaskResult = ray.get(reference)
        except RayError as error:
            reason = str(error).strip().splitlines()
            return failed_task_row(
                task, self._options, f"no worker could read it ({reason[0] if reason else 'RayError'})"
            )
        return result
